"""Captioners on a frozen encoder, through the real jobs: its tokens stored once, trained on, scored with, captioned with."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from small_project import config as config_of
from small_project import do_jobs, plan, values, write_params
from tampering import put

from mdc.data.formats.images import center_resize, decode
from mdc.data.loader.batches import CaptionBatches
from mdc.data.loader.precomputed_tokens import PrecomputedTokens
from mdc.data.shards.index import ShardReader, read_index
from mdc.models.build import build_for
from mdc.models.encoders.tower import read_tower
from mdc.models.runs import open_run
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.read import validate
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import read_job
from mdc.plan.records import UserError, read_json, sha256_file, write_json
from mdc.training.precompute import beside_shards, encode_corpus

RUN = "runs/alt/on-clip/mdc/s0"
ENCODED = "encoded/clip/alt"


def _call(r: Path, out: Path | None = None) -> Call:
    job = read_job(config_of(r, ENCODED), "encode-corpus")
    return Call(job, ScaleFolder(r), out or r / ENCODED)


def test_stored_tokens_are_those_of_the_runs_encoder(r: Path) -> None:
    """In the shards' order, of each image's central crop, rounded to float16."""
    run, _ = open_run(r / "runs/alt/ViT-T-12/clip/s0")
    encoder = run.load().encoder.eval()
    corpus = r / "data/corpora/alt/index.json"
    for split in ("train", "val"):
        stored = PrecomputedTokens(
            r / ENCODED / "encoded.json", read_index(corpus, verify="auto", kind="corpus"), split
        )
        reader = ShardReader(corpus, split)
        numbers = [0, len(reader) - 1, len(reader) // 2, 41 % len(reader)]  # 40 samples a shard
        images = [center_resize(decode(reader.read(n)[1]), 48) for n in numbers]
        with torch.no_grad():
            pixels = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for image in images])
            _, tokens = encoder(encoder.prepared(pixels))
        assert torch.allclose(stored.of(numbers).float(), tokens, atol=2e-3)
        assert stored.of(numbers).dtype == torch.float16


def test_a_run_on_stored_tokens_is_the_run_on_its_images(r: Path) -> None:
    """The model of a trained run gives the same loss on stored tokens as on the images themselves."""
    run, _ = open_run(r / RUN)
    assert isinstance(run.job.backbone, FrozenEncoderBackbone)
    model = run.load().eval()
    corpus = r / "data/corpora/alt/index.json"
    index = read_index(corpus, verify="auto", kind="corpus")
    stored = PrecomputedTokens(r / ENCODED / "encoded.json", index, "train")
    options = {"image_size": 48, "batch_size": 8, "seed": 0, "steps": 2, "context_length": 77}
    crops = {"crop_scale": (0.9, 1.0), "crop_ratio": (0.75, 4 / 3)}
    with_images = CaptionBatches(corpus, "train", run.vocabulary, **options, **crops).batch(1)
    with_tokens = CaptionBatches(corpus, "train", run.vocabulary, **options, **crops, tokens=stored).batch(1)
    for name in ("tokens", "lengths", "jitter", "uniforms", "place", "caption_hash"):
        assert torch.equal(getattr(with_images, name), getattr(with_tokens, name)), name
    assert with_images.keys == with_tokens.keys and with_tokens.images.dtype == torch.float16

    reader = ShardReader(corpus, "train")
    where = {reader.read(n)[0]: n for n in range(len(reader))}
    pixels = [center_resize(decode(reader.read(where[key])[1]), 48) for key in with_tokens.keys]
    shown = torch.stack([torch.from_numpy(image).permute(2, 0, 1) for image in pixels])
    with torch.no_grad():
        by_tokens = model.encoder.prepared(with_tokens.images)
        by_images = model.encoder.prepared(shown)
        assert torch.allclose(by_tokens, by_images, atol=2e-3)
        ids, lengths = with_tokens.tokens, with_tokens.lengths
        assert torch.allclose(model.logits(by_tokens, ids, lengths), model.logits(by_images, ids, lengths), atol=1e-2)


@pytest.mark.usefixtures("own_copy")
def test_a_fixed_ratio_is_trained_and_scored_on_it_too(r: Path) -> None:
    """BERT-r, beside ARC and MDC of every other test here: its training and its scores are jobs like theirs."""
    found = values((0, 1))
    found["tables"]["table2"]["also"] = {"on-clip": {"alt": ["arc", "mdc", "bert_60"]}}
    write_params(Path(), found)
    more = Plan(validate(found))
    do_jobs(more, ["runs/alt/on-clip/bert_60/s0", "scores/alt/on-clip/bert_60/s0/last"])
    run, manifest = open_run(r / "runs/alt/on-clip/bert_60/s0")
    assert isinstance(run.job.backbone, FrozenEncoderBackbone) and run.job.method.t_range == (0.6, 0.6)
    assert manifest["inputs"][ENCODED] == sha256_file(r / ENCODED / "encoded.json")
    start = build_for(run.job, run.vocabulary.size)
    same = {name for name, value in run.load().state_dict().items() if torch.equal(value, start.state_dict()[name])}
    assert not same, "every weight of the decoder is trained"
    scores = parquet.read_table(r / "scores/alt/on-clip/bert_60/s0/last/scores.parquet").to_pylist()
    assert {row["estimator"] for row in scores} == {"fixed_ratio", "pseudo_likelihood"}
    assert all(np.isfinite(row["score"]) for row in scores)


def test_its_weights_are_the_decoders_alone(r: Path) -> None:
    run, manifest = open_run(r / RUN)
    model = run.load()
    names = set(model.state_dict())
    assert names == {
        n for n in names if n.startswith(("encoder.projection", "encoder.positions", "encoder.norm", "text", "head"))
    }
    assert "encoded/clip/alt" in manifest["inputs"]
    assert manifest["inputs"]["encoded/clip/alt"] == sha256_file(r / ENCODED / "encoded.json")


@pytest.mark.usefixtures("own_copy")
def test_a_killed_job_goes_on_with_the_arrays_that_are_whole(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = read_json(r / ENCODED / "encoded.json")
    files = [one["file"] for listed in told["splits"].values() for one in listed]
    assert len(files) == 3  # 64 to train on in shards of 40, 16 held out
    out = Path("again")
    encode_corpus.main(_call(r, out))
    before = {file: (sha256_file(out / file), (out / file).stat().st_mtime_ns) for file in files}
    assert [one["sha256"] for listed in told["splits"].values() for one in listed] == [b[0] for b in before.values()]
    assert not (out / "done.jsonl").exists()

    # as a kill leaves it: the first two arrays whole, the second one damaged since, the list cut short
    identity = _identity(r, out)
    lines = [identity, *(json.dumps({file: before[file][0]}) for file in files[:2]), '{"val-0000']
    (out / "done.jsonl").write_text("\n".join(lines))
    (out / "encoded.json").unlink()
    (out / files[1]).write_bytes((out / files[1]).read_bytes()[:-4])
    (out / files[2]).unlink()
    encode_corpus.main(_call(r, out))
    assert {file: sha256_file(out / file) for file in files} == {file: one[0] for file, one in before.items()}
    assert (out / files[0]).stat().st_mtime_ns == before[files[0]][1]
    assert (out / files[1]).stat().st_mtime_ns != before[files[1]][1]

    # arrays that another encoder left do not count
    (out / "done.jsonl").write_text("\n".join(["0" * 64, json.dumps({files[0]: before[files[0]][0]})]))
    encode_corpus.main(_call(r, out))
    assert (out / files[0]).stat().st_mtime_ns != before[files[0]][1]


def _identity(r: Path, out: Path) -> str:
    """What the job writes first into its list, read from a job that cannot go on."""

    class Stop(Exception):
        pass

    def stop(*_: object, **__: object) -> None:
        raise Stop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beside_shards.BesideShards, "_split", stop)
        with pytest.raises(Stop):
            encode_corpus.main(_call(r, out))
    return (out / "done.jsonl").read_text().splitlines()[0]


def test_tokens_of_other_shards_are_refused(r: Path) -> None:
    index = read_index(r / "data/corpora/half/index.json", verify="auto", kind="corpus")
    with pytest.raises(UserError, match="was made of other shards than half, split train, has"):
        PrecomputedTokens(r / ENCODED / "encoded.json", index, "train")


@pytest.mark.usefixtures("own_copy")
@pytest.mark.parametrize("damage", ["cut", "missing", "pickle", "shape"])
def test_damaged_tokens_are_one_line(r: Path, damage: str) -> None:
    index = read_index(r / "data/corpora/alt/index.json", verify="auto", kind="corpus")
    file = r / ENCODED / "train-000001.npy"
    if damage == "cut":
        put(file, file.read_bytes()[:-10])
    elif damage == "missing":
        file.unlink()
    elif damage == "pickle":
        file.unlink()
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    else:
        file.unlink()
        np.save(file, np.zeros((24, 16, 31), dtype=np.float16))
    with pytest.raises(UserError, match=r"train-000001\.npy: (nothing can be read|holds float16)"):
        PrecomputedTokens(r / ENCODED / "encoded.json", index, "train")


@pytest.mark.usefixtures("own_copy")
def test_another_encoder_in_its_place_is_refused(r: Path) -> None:
    """A run stands on one encoder; if that was imported anew from something else, its predictors say so."""
    path = r / "encoders/clip/encoder.json"
    config = {**read_json(path), "config_sha256": "0" * 64}
    write_json(path, config)
    run, _ = open_run(r / RUN)
    with pytest.raises(UserError, match="another configuration than encoders/clip needs"):
        run.load()


def test_the_encoder_is_a_row_of_reference_and_of_no_seed(r: Path) -> None:
    lines = (r / "table1/table1.md").read_text().splitlines()
    (row,) = [line for line in lines if "frozen, its own feature" in line and "our CLIP" in line]
    assert row.startswith("| *none* | *our CLIP* |")
    # the same features as the run's own probe, so the same result
    own, frozen = (read_json(r / f"probe/{name}/probe.json") for name in ("alt/ViT-T-12/clip/s0", "frozen/clip"))
    for probe in ("shape", "colour"):
        assert frozen["probes"][probe]["value"] == own["probes"][probe]["value"]
    assert frozen["training"] is None


def test_scores_and_captions_come_from_images_never_stored(r: Path) -> None:
    """Choice sets and test images are not encoded beforehand; a predictor looks at them with the encoder itself."""
    scores = parquet.read_table(r / "scores/alt/on-clip/mdc/s0/last/scores.parquet").to_pylist()
    assert {row["estimator"] for row in scores} == {"monte_carlo", "heuristic", "monte_carlo_range", "parallel"}
    own = [row["score"] for row in scores if row["estimator"] == "heuristic"]
    other = [row["others"][0] for row in scores if row["estimator"] == "heuristic"]
    assert any(a != b for a, b in zip(own, other, strict=True))
    found = parquet.read_table(r / "captions/described/on-clip/mdc/s0/best/on_clip/captions.parquet").to_pylist()
    assert len(found) == 8 and all(len(row["pieces"]) == 6 for row in found)


@pytest.mark.usefixtures("own_copy")
def test_a_run_without_its_encoder_says_so(r: Path) -> None:
    shutil.rmtree(r / "encoders")
    run, _ = open_run(r / RUN)
    with pytest.raises(UserError, match=r"encoders/clip/encoder\.json"):
        run.load()


def test_it_is_the_first_seeds_encoder_for_every_seed() -> None:
    jobs = plan((0, 1)).jobs
    assert jobs["encoders/clip"].inputs == ["runs/alt/ViT-T-12/clip/s0"]
    for seed in (0, 1):
        assert jobs[f"runs/alt/on-clip/mdc/s{seed}"].backbone.frozen.job == "encoders/clip"  # type: ignore[attr-defined]
    assert not [name for name in jobs if "/on-clip/clip/" in name]


def test_the_tower_looks_the_same_alone_and_among_others(r: Path) -> None:
    run, _ = open_run(r / RUN)
    assert isinstance(run.job.backbone, FrozenEncoderBackbone)
    tower = read_tower(r / "encoders/clip/encoder.json", run.job.backbone.frozen)
    images = torch.randint(0, 256, (20, 3, 48, 48), dtype=torch.uint8)
    encoder = run.load().encoder
    together = encoder.prepared(images)
    with torch.no_grad():
        alone = torch.cat([tower(tower.prepared(images[n : n + 1]))[1] for n in range(20)])
    assert torch.allclose(together, alone, atol=2e-3)
