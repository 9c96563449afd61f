"""The job that measures captions: every row of its file holds its own image's numbers, in whatever order the images lie."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_samples import encoded

from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.scenes.oracle import judge
from mdc.data.scenes.world import COLOURS, Scene, SceneObject
from mdc.data.shards.corpus_job import write_corpus
from mdc.data.sources.source import Source
from mdc.evaluation import caption_metrics
from mdc.evaluation.metrics import metrics
from mdc.evaluation.metrics.java import java
from mdc.evaluation.metrics.metrics import METRICS, Measured, measure_all, tokens
from mdc.evaluation.metrics.words import FUNCTION_WORDS, content_recall
from mdc.plan.config.decoding import Captioning
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import CaptionMetricsJob
from mdc.plan.records import sha256_file, write_json

#: image → an object of MSCOCO's and what is drawn, its references; not in the order of their names
IMAGES = {
    "COCO_val2014_000000000007": ("dog", "red", "circle", ["a red circle beside a dog", "one red circle"]),
    "COCO_val2014_000000000003": ("cat", "blue", "star", ["a blue star over the cat and the cat again"]),
    "COCO_val2014_000000000005": ("horse", "green", "square", ["a green square on a big horse", "a square"]),
    "COCO_val2014_000000000001": ("cup", "pink", "heart", ["the pink heart in a cup"]),
}
SYSTEMS = {
    "z": ["a red circle beside a cat", "a blue cat over the star", "green", "the blue star"],
    "a": ["two dogs and a cat", "one red circle", "a green square on the big old horse", "one pink heart in xyzzy"],
}
CAPTIONS = {name: dict(zip(IMAGES, some, strict=True)) for name, some in SYSTEMS.items()}


def _scene(image: str) -> Scene:
    _, colour, shape, _ = IMAGES[image]
    return Scene("plain", (0, 0, 0), 0, (SceneObject(shape, colour, 60, 96, 96),))


class _Drawn(Source[RawSample]):
    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        for n, (key, (*_, references)) in enumerate(IMAGES.items()):
            yield RawSample(key, encoded(n), "png", tuple(references), _scene(key).to_json())


@contextlib.contextmanager
def _meteor() -> Iterator[Any]:
    """METEOR's program takes ten seconds to start; this one counts what no two captions have alike."""
    yield SimpleNamespace(
        _stat=lambda text, theirs: " ".join(str(len(text) + len(theirs[0]) % 7 + n) for n in range(23))
    )


def _spice(theirs: metrics.Texts, ours: metrics.Texts, program: Path) -> Measured:
    return Measured(10.0, np.array([len(text) + len(theirs[image][0]) / 100 for image, (text,) in ours.items()]))


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """What the job writes, by system and image."""
    return _measured(monkeypatch, tmp_path, {"calls": 4})


def _measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, more: dict[str, int]
) -> dict[tuple[str, str], dict[str, Any]]:
    """… of captions with ``more`` columns, each a number larger from caption to caption."""
    monkeypatch.setenv("MDC_DATA", str(tmp_path))
    monkeypatch.setattr(metrics, "_meteor", _meteor)
    monkeypatch.setattr(metrics, "_spice", _spice)
    write_corpus("c", _Drawn({"kind": "drawn"}), tmp_path / "data/corpora/c", splits=("train", "test"))
    things = [{"id": n, "name": thing} for n, (thing, *_) in enumerate(IMAGES.values())]
    seen = [{"image_id": int(key[-1]), "category_id": n} for n, key in enumerate(IMAGES)]
    images = [{"id": one["image_id"]} for one in seen]
    write_json(tmp_path / "instances.json", {"categories": things, "images": images, "annotations": seen})
    kept = tmp_path / "captions/x/captions.parquet"
    kept.parent.mkdir(parents=True)
    pq.write_table(
        pa.Table.from_pylist(
            [
                {"system": name, "image": key, "caption": caption, "clip_ids": None}
                | {column: first + place for column, first in more.items()}
                for name, some in CAPTIONS.items()
                for place, (key, caption) in enumerate(some.items())
            ]
        ),
        kept,
    )
    told: dict[str, Any] = dict.fromkeys(("training", "weights_step", "parameters", "held_out"))
    write_json(kept.with_suffix(".json"), told | {"config_sha256": "x", "outputs": {kept.name: sha256_file(kept)}})
    job = CaptionMetricsJob(
        job="metrics/c/s0",
        verb="measure-captions",
        scale="toy",
        fingerprint="f",
        inputs=["data/corpora/c", "captions/x"],
        captions="captions/x",
        captions_config_sha256="x",
        corpus="c",
        split="test",
        images=len(IMAGES),
        training="c",
        skip_metrics=[],
        instances="instances.json",
        clip=None,
        open_clip=None,
        context_length=77,
        captioning=Captioning(batch_tokens=128, precision="fp32", processes=1, threads=1, device="cpu"),
    )
    caption_metrics.main(Call(job, ScaleFolder(tmp_path), tmp_path / "out"))
    table = pq.read_table(tmp_path / "out/metrics.parquet").to_pylist()
    return {(row["system"], row["image"]): row for row in table}


def test_every_row_has_its_own_images_numbers(rows: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Measured again with the images in another order; what a caption alone decides, counted by hand."""
    assert list(rows) == [(system, image) for system in SYSTEMS for image in IMAGES]
    program = java()
    backwards = {name: dict(reversed(some.items())) for name, some in CAPTIONS.items()}
    split = tokens(program, backwards, {key: references for key, (*_, references) in IMAGES.items()})
    assert split is not None
    again = measure_all(split, program)
    trained = {one for *_, some in IMAGES.values() for one in some}
    for system, captions in backwards.items():
        for place, (image, caption) in enumerate(captions.items()):
            row, (text,), (thing, colour, *_) = rows[system, image], split.systems[system][image], IMAGES[image]
            for metric in METRICS:
                images = again[system][metric].images
                assert images is not None and row[metric] == pytest.approx(images[place]), (system, image, metric)
            for metric, counted in (("BLEU-4", "bleu_counts"), ("METEOR", "meteor_counts")):
                counts = again[system][metric].counts
                assert counts is not None and row[counted] == counts[place].tolist()
            words = caption.split()
            assert (row["words"], row["content_words"]) == (len(words), len({*words} - FUNCTION_WORDS))
            assert row["content_recall"] == content_recall(text, split.references[image])
            assert row["repeated"] == (caption in trained)
            named = {word.removesuffix("s") for word in words} & {thing for thing, *_ in IMAGES.values()}
            assert row["objects"] == [len(named), len(named - {thing})]
            verdict = judge(_scene(image), caption)
            tally = verdict.kinds["objects"]
            assert row["truth"][:4] == [tally.true, tally.stated, tally.told, tally.facts]
            assert row["unreadable"] == verdict.unreadable
            assert row["true_words"][:2] == [words.count(colour), sum(word in COLOURS for word in words)]
    # or a neighbour's number would go unseen
    for name in (*METRICS, "bleu_counts", "meteor_counts", "words", "content_recall", "objects", "truth"):
        for left, right in zip(list(IMAGES), [*list(IMAGES)[1:], next(iter(IMAGES))], strict=True):
            assert any(rows[system, left][name] != rows[system, right][name] for system in SYSTEMS), name


def test_model_calls_are_those_of_the_caption_and_unknown_in_files_of_before_they_were_counted(
    rows: dict[tuple[str, str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, some in CAPTIONS.items():
        assert [rows[name, key]["calls"] for key in some] == [4, 5, 6, 7]
    (tmp_path / "older").mkdir()
    older = _measured(monkeypatch, tmp_path / "older", {})
    assert {row["calls"] for row in older.values()} == {None}
    without = {key: {**row, "calls": None} for key, row in rows.items()}
    assert older == without
