"""Damaged files of every kind that the pipeline reads: a result or one line, and never another exception."""

import contextlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import toy
from bad_input import downloaded, name_weights, tar_of
from data_samples import encoded, iter_corpus, iter_probe, scenes, use_scenes, write_corpus, write_parquet, write_probe
from fuzzing import ANY, changed_bytes, changed_tree, fuzz
from hypothesis import given
from hypothesis import strategies as st
from made_in_parts import join, parts_of
from PIL import Image
from probing_world import ProbingWorld
from shown import STATISTICS

from mdc.data.formats.images import MAX_ASPECT, MAX_PIXELS, ImageError, center_resize, decode
from mdc.data.loader.batches import CaptionBatches
from mdc.data.loader.labelled import labelled_batches
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.predictors.encode import trained_encoder
from mdc.models.runs import read_run
from mdc.models.text import Vocabulary
from mdc.models.weights import load_weights, save_weights
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, read_json, read_json_lines, sha256_file, write_json
from mdc.report.figures import losses
from mdc.report.manifests import check_inputs, run_log
from mdc.report.results import Results
from mdc.training.state import LATEST, Position, copied
from mdc.training.trainer import build_optimizer


@contextlib.contextmanager
def one_line_at_most() -> Iterator[None]:
    try:
        yield
    except UserError as error:
        assert str(error) and "\n" not in str(error) and len(str(error)) < 2_000, str(error)[:300]


def _as_json(tree: Any) -> bytes:
    try:
        return json.dumps(tree, default=str, skipkeys=True).encode()
    except (ValueError, RecursionError):
        return b"{}"


def _fuzz_file(
    path: Path,
    examples: int,
    read: Callable[[], object],
    mutated: int | None = None,
    mend: Callable[[bytearray], None] | None = None,
) -> None:
    """Damage the first ``mutated`` bytes of a file (default: all), and, of JSON, also its tree; it is restored afterwards."""
    whole = path.read_bytes()
    head, tail = whole[:mutated], whole[mutated:] if mutated else b""
    changes = changed_bytes(head, mend).map(lambda data: data + tail)
    if path.suffix == ".json":
        changes |= changed_tree([lambda: json.loads(whole)], ANY).map(_as_json)

    @fuzz(examples)
    @given(changes)
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with one_line_at_most():
            read()

    try:
        read()
        check()
    finally:
        path.write_bytes(whole)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readers")


# --- images -----------------------------------------------------------------------------------------------------------


def _images() -> list[bytes]:
    frames = [Image.open(io.BytesIO(encoded(i))) for i in range(2)]
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a text"
    turned: dict[str, Any] = {"exif": exif.tobytes()}
    moving: dict[str, Any] = {"save_all": True, "append_images": frames[1:]}
    cmyk, deep = frames[0].convert("CMYK"), frames[0].convert("I;16")
    made = []
    for kind, image, options in (
        *(("JPEG", frames[0], turned), ("JPEG", frames[0], {"progressive": True}), ("JPEG", cmyk, {})),
        *(("PNG", frames[0], turned), ("PNG", frames[0].quantize(8), {"transparency": 1}), ("PNG", frames[0], moving)),
        *(("WEBP", frames[0], moving), ("WEBP", frames[0], {"lossless": True, **turned}), ("GIF", frames[0], moving)),
        *(("BMP", frames[0], {}), ("TIFF", frames[0], {"compression": "tiff_lzw", **turned}), ("TIFF", frames[0], {})),
        *(("TIFF", cmyk, {"compression": "tiff_adobe_deflate"}), ("TIFF", deep, {})),
    ):
        buffer = io.BytesIO()
        image.save(buffer, kind, **options)
        made.append(buffer.getvalue())
    return made


@fuzz(400)
@given(st.sampled_from(range(14)).flatmap(lambda number: changed_bytes(IMAGES[number])))
def test_images(data: bytes) -> None:
    try:
        image = decode(data)
    except ImageError as error:
        assert error.reason
    else:
        width, height = image.size
        assert image.mode == "RGB" and 0 < width * height <= MAX_PIXELS
        assert max(width, height) <= MAX_ASPECT * min(width, height)
        assert center_resize(image, 8).shape == (8, 8, 3)


IMAGES = _images()

# --- sources ----------------------------------------------------------------------------------------------------------


def _sums(data: bytearray) -> None:
    """Right checksums for all headers, so that what stands in them is read."""
    for start in range(0, len(data) - 511, 512):
        if data[start + 257 : start + 262] == b"ustar":
            data[start + 148 : start + 156] = b" " * 8
            data[start + 148 : start + 156] = b"%06o\0 " % sum(data[start : start + 512])


def _pax_members() -> list[Any]:
    info = tarfile.TarInfo("d/" + "x" * 150 + ".jpg")
    info.pax_headers = {"comment": "a text", "SCHILY.xattr.user": "b"}
    return [*downloaded(["a"]), (info, b"content")]


FOREIGN = [tar_of(downloaded(["a", "b"])), tar_of(_pax_members(), 2), tar_of(_pax_members(), 1)]


@pytest.mark.parametrize("number", range(3))
def test_tars_of_others(folder: Path, number: int) -> None:
    (folder / "foreign.tar").write_bytes(FOREIGN[number])
    source = {"kind": "webdataset", "path": "foreign.tar", "caption_field": "caption"}
    _fuzz_file(folder / "foreign.tar", 50, lambda: list(iter_corpus(source, "train", folder)), mend=_sums)


TABLES = {
    "t.csv": b'image,caption,split\n0.png,"a, b",train\nsub/1.png,c,val\n0.png,"d\ne",train\n',
    "t.tsv": b"image\tcaption\tsplit\n0.png\ta b\ttrain\n1.png\tc\tval\n",
    "t.jsonl": b'{"image": "0.png", "caption": ["a", "b"], "split": "train"}\n{"image": "1.png", "caption": "c"}\n',
}


@pytest.mark.parametrize("split", ["split", None])
@pytest.mark.parametrize("name", TABLES)
def test_tables(folder: Path, name: str, split: str | None) -> None:
    (folder / "0.png").write_bytes(encoded(0))
    (folder / name).write_bytes(TABLES[name])
    source = {"kind": "caption_table", "path": name, "split_column": split}
    _fuzz_file(folder / name, 35, lambda: list(iter_corpus(source, "train", folder)))


@pytest.mark.parametrize("read", [iter_corpus, iter_probe])
def test_parquet(folder: Path, read: Callable[..., Iterator[Any]]) -> None:
    columns = {"image": [encoded(i) for i in range(6)], "captions": [["a b", "c"], None, []] * 2}
    columns |= {"split": ["train", "test"] * 3, "label": [0, 1, 2] * 2}
    path = write_parquet(folder / "p.parquet", columns)
    _fuzz_file(path, 60, lambda: list(read({"kind": "parquet", "path": path.name}, "train", folder)))


# --- what the pipeline wrote itself -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        use_scenes(patch)
        write_corpus("alt", scenes(train=5, val=2), folder / "corpus", folder)
        probe = {"kind": "scenes", "task": "colour", "train": 4, "test": 4, "seed": 3, "pixels": 12}
        write_probe("colour", probe, folder / "set", folder)
    return folder / "corpus"


def _read_all(path: Path) -> None:
    index = read_index(path)
    for split in index["splits"]:
        reader = ShardReader(path, split)
        for number in range(len(reader)):
            reader.read(number)
        reader.close()
    if index["kind"] == "corpus":
        vocabulary = Vocabulary.corpus(index["pieces"])
        crops = {"crop_scale": (0.9, 1.0), "crop_ratio": (0.75, 1.25), "context_length": 77}
        list(CaptionBatches(path, "train", vocabulary, image_size=8, batch_size=2, seed=0, steps=2, **crops))
    else:
        list(labelled_batches(path, "test", image_size=8, batch_size=3))


def test_our_shards(corpus: Path) -> None:
    _fuzz_file(corpus / "train-00000.tar", 120, lambda: _read_all(corpus), mend=_sums)


def test_lines_of_images_in_tars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    (tmp_path / "a.tar").write_bytes(tar_of(downloaded(["a", "b", "c", "d"])))
    source = {"kind": "webdataset", "path": "a.tar", "val_fraction": 0.0}
    index = join(tmp_path, tmp_path, parts_of(tmp_path, tmp_path, source=source), source=source)
    path = tmp_path / "parts/d/train-00000.jsonl"
    (shard,) = index["splits"]["train"]["shards"]

    def read() -> None:
        shard.update(bytes=path.stat().st_size, sha256=sha256_file(path))
        write_json(tmp_path / "corpora/c/index.json", index)
        with one_line_at_most():
            read_index(tmp_path / "corpora/c", verify=True)
        _read_all(tmp_path / "corpora/c")

    _fuzz_file(path, 120, read)


@pytest.fixture(scope="module")
def run(folder: Path) -> Path:
    model = toy.model("arc")
    place = folder / "run"
    save_weights(place / "checkpoint.safetensors", model, {"format": "mdc-weights-1"})
    name_weights(place, id="runs/alt/b/m/s0", config={"scale": "mini"})
    (place / "log.jsonl").write_text('{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.5, "validation_loss": 1.0}\n')
    states = toy.states(folder / "state", toy.job(toy.METHODS["arc"], toy.recipe()))
    states.write(copied(model, build_optimizer(model, toy.recipe(), toy.PROTOCOL)), Position(3))
    write_json(place / "vocabulary.json", Vocabulary.corpus([1, 5, 9]).to_json())
    return place


def test_checkpoints(run: Path) -> None:
    path = run / "checkpoint.safetensors"
    _fuzz_file(path, 50, lambda: load_weights(path), mutated=600)
    _fuzz_file(path, 20, lambda: trained_encoder(path, toy.BACKBONE), mutated=6_000)


def test_states(run: Path) -> None:
    path = run.parent / "state" / LATEST
    model = toy.model("arc")
    optimizer = build_optimizer(model, toy.recipe(), toy.PROTOCOL)
    generator = torch.get_rng_state()
    states = toy.states(path.parent, toy.job(toy.METHODS["arc"], toy.recipe()))

    def resume() -> None:
        states.load(model, optimizer)

    _fuzz_file(path, 60, resume, mutated=9_000)
    torch.set_rng_state(generator)


def test_records(run: Path, tmp_path: Path) -> None:
    _fuzz_file(run / "run.json", 50, lambda: read_run(run))
    _fuzz_file(run / "vocabulary.json", 50, lambda: Vocabulary.read(run / "vocabulary.json"))
    _fuzz_file(run / "log.jsonl", 40, lambda: read_json_lines(run / "log.jsonl"))
    head = {"job": "figure_loss", "verb": "make", "scale": "mini", "fingerprint": "f", "inputs": ["runs/alt/b/m/s0"]}
    head |= {"artefact": "figure_loss", "scale_label": "mini", "expected": {"runs/alt/b/m/s0": "c"}}
    shown = {name: {"key": name, "label": name} for name in ("corpus", "backbone", "method")}
    more = {"family": "captioning", "per": "token", "seeds": [0], "t_range": None}
    system = {**shown, "key": "alt/b/m", "runs": ["alt/b/m/s0"], "records": ["runs/alt/b/m/s0"], "more": more}
    job = as_job({**head, "systems": [system]}, "make", "a test")
    given = {"runs/alt/b/m/s0": run / "run.json"}
    _fuzz_file(run / "run.json", 40, lambda: check_inputs(job, given))
    _fuzz_file(run / "log.jsonl", 40, lambda: run_log(given, "runs/alt/b/m/s0"))
    _fuzz_file(run / "log.jsonl", 4, lambda: losses.make(job, given, tmp_path))


def test_probe_records(tmp_path: Path) -> None:
    world = ProbingWorld({"alt": ["mdc"]}, lambda *_: 0.5, n=8, multi=("count",), probes=("shape", "count"))
    world.fields["statistics"] = STATISTICS | {"bootstrap": 240}
    given = world.write(tmp_path)
    for path in given.values():
        _fuzz_file(path, 50, lambda: Results(world.job, given))
    record = given["probe/alt/B/mdc/s0"]
    items, told = record.with_name("items.parquet"), read_json(record)

    def read_sealed() -> None:
        write_json(record, {**told, "outputs": {items.name: sha256_file(items)}})
        Results(world.job, given)

    _fuzz_file(items, 40, read_sealed)
