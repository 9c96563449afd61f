"""The job of a run, finetuned or not, from its manifests to its own, with no other objective's code; when its patience ends."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from data_samples import write_corpus

from mdc.data.loader.batch import CaptionBatch
from mdc.data.shards.index import ShardReader, read_index
from mdc.extensions.neighbours.superclass.frequencies import document_frequencies
from mdc.methods.masked.loss import on_canvas
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob, Start
from mdc.plan.records import UserError, read_json, read_json_lines, sha256_file, write_json
from mdc.training.corpus import Corpus
from mdc.training.filled import filled_length
from mdc.training.objectives.objective import Needs
from mdc.training.run import main
from mdc.training.trainer import learning_rate


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, its vocabulary and a runtime."""
    place = tmp_path_factory.mktemp("run")
    source = {"kind": "scenes", "style": "alt", "train": 40, "val": 10, "seed": 1, "pixels": 16}
    write_corpus("alt", source, place / "data/corpora/alt", place)
    index = place / "data/corpora/alt/index.json"
    vocabulary = Vocabulary.corpus(read_index(index)["pieces"])
    write_json(place / "data/vocabularies/alt/vocabulary.json", vocabulary.to_json())
    write_json(place / "data/frequencies/alt/frequencies.json", document_frequencies(index, 77))
    write_json(place / "runtime.json", {"workers": 0, "log_every": 1, "save_every": 0})
    return place


def _call(folder: Path, name: str, method: str = "mdc", **recipe: Any) -> Call:
    inputs = ["data/corpora/alt", "data/vocabularies/alt", *["data/frequencies/alt"] * (method == "superclass")]
    names = {"job": "runs/alt/toy/m/s0", "corpus": "alt", "vocabulary": "alt", "inputs": inputs}
    job = toy.job(toy.ALL_METHODS[method], toy.recipe(**{"epochs": 2, "validate_every": 4, **recipe}), **names)
    out, state = folder / name / "out", folder / name / "state"
    return Call(job, ScaleFolder(folder), out, runtime=folder / "runtime.json", state=state)


@pytest.mark.parametrize("method", ["clip", "arc", "mdc", "superclass", "dropped", "bicaptioning"])
def test_a_run_and_its_manifest(method: str, folder: Path) -> None:
    call = _call(folder, method, method)
    told = main(call)
    run, job = read_json(call.out / "run.json"), call.job
    assert isinstance(job, PretrainJob)
    assert run["kind"] == "run" and run["id"] == job.job
    assert run["config"] == job.config() and run["config_sha256"] == job.sha256
    assert run["inputs"] == {name: sha256_file(path) for name, path in call.manifests.items()}
    kept = ("checkpoint.safetensors", "best.safetensors")
    assert run["outputs"] == {name: sha256_file(call.out / name) for name in kept}
    assert (run["pairs"], run["steps"], run["samples_seen"]) == (40, 10, 80)
    (segment,) = run["segments"]
    assert (segment["first_step"], segment["last_step"], segment["device"]) == (1, 10, "cpu")
    log = read_json_lines(call.out / "log.jsonl")
    rates = [(line["step"], line["lr"]) for line in log if "loss" in line]
    assert rates == [(step, learning_rate(step - 1, 10, 3e-3, warmup=2, final=0.0)) for step in range(1, 11)]
    assert [line["step"] for line in log if "validation_loss" in line] == [4, 8, 10]
    assert run["loss"] == log[-2]["loss"] and run["validation_loss"] == log[-1]["validation_loss"]
    assert told["log_sha256"] == sha256_file(call.out / "log.jsonl") and told["device"] == "cpu"
    assert {path.name for path in call.state.iterdir()} == {"lock"}
    again = _call(folder, f"{method} again", method)
    main(again)
    for name in ("run.json", "checkpoint.safetensors"):
        assert (again.out / name).read_bytes() == (call.out / name).read_bytes()


def test_a_run_with_a_profile_leaves_the_same_files(folder: Path) -> None:
    plain, looked = _call(folder, "plain"), replace(_call(folder, "looked at"), profile=2)
    main(plain)
    main(looked)
    assert {path.name for path in (looked.state / "profile").iterdir()} == {"trace.json", "operations.txt"}
    left = {path.name for path in looked.state.iterdir()} - {path.name for path in plain.state.iterdir()}
    assert left == {"profile"}
    for name in ("run.json", "checkpoint.safetensors", "best.safetensors"):
        assert (looked.out / name).read_bytes() == (plain.out / name).read_bytes()


def test_inputs_that_cannot_be_read_are_one_line(folder: Path) -> None:
    with pytest.raises(UserError, match=r"none/data/corpora/alt/index.json: no such file"):
        main(replace(_call(folder, "missing"), folder=ScaleFolder(folder / "none")))
    write_json(folder / "bad.json", {"workers": -1, "log_every": 1, "save_every": 0})
    with pytest.raises(UserError, match=r"bad.json: workers"):
        main(replace(_call(folder, "bad runtime"), runtime=folder / "bad.json"))
    with pytest.raises(UserError, match="40 training samples are fewer than one batch of 64"):
        main(_call(folder, "few", batch_size=64))


def test_document_frequencies_are_those_of_the_training_captions(folder: Path) -> None:
    found = read_json(folder / "data/frequencies/alt/frequencies.json")
    reader = ShardReader(folder / "data/corpora/alt", "train")
    captions = [caption for number in range(len(reader)) for caption in reader.read(number)[2]["captions"]]
    assert found["captions"] == len(captions) == 40
    for piece, count in found["pieces"].items():
        assert count == sum(int(piece) in clip_pieces(caption) for caption in captions)
    assert {piece for caption in captions for piece in clip_pieces(caption)} == set(map(int, found["pieces"]))


def test_a_run_whose_patience_ends_tells_the_steps_it_made_and_its_best_validation(folder: Path) -> None:
    before, call = _call(folder, "before"), _call(folder, "early", lr=1e-30, validate_every=2, snapshots=[0.1, 0.9])
    main(replace(before, out=folder / before.job.job))
    start = Start(run=before.job.job, config_sha256=before.job.sha256, weights="last", patience=1, canvas=None)
    more = {"job": "runs/alt/toy/m/s0/ft-x", "inputs": [*call.job.inputs, start.run], "start": start}
    main(replace(call, job=call.job.model_copy(update=more)))
    run = read_json(call.out / "run.json")
    # so small a rate moves nothing: the second validation is no better than the first
    assert (run["steps"], run["samples_seen"], run["snapshots"]) == (4, 32, [1])
    assert run["best"] == {"step": 2, "validation_loss": run["validation_loss"]}


# --- what it reads off its corpus -------------------------------------------------------------------------------------


def test_it_is_the_least_multiple_of_eight_that_holds_them() -> None:
    for lengths, places in (
        ({7: 1000}, 8),  # seven pieces and EOT
        ({8: 1000}, 16),
        ({7: 995, 40: 5}, 8),  # 99.5 % are held
        ({7: 994, 40: 6}, 48),
        ({7: 500, 14: 495, 15: 1, 40: 4}, 16),
        ({300: 3}, 76),  # no more than the context leaves beside SOT
    ):
        assert filled_length(lengths, 77) == places


def _corpus(captions: dict[str, Any], **recipe: int) -> Corpus:
    found: Any = object.__new__(Corpus)
    protocol = SimpleNamespace(data=SimpleNamespace(context_length=77))
    found.needs = Needs(filled=True)
    found.job = SimpleNamespace(protocol=protocol, recipe=SimpleNamespace(**recipe))
    found.index = {"captions": captions}
    return found


def test_a_caption_whose_end_has_a_place_is_not_cut() -> None:
    """Seven pieces and EOT fill eight places."""
    one = _corpus({"per_split": {"train": {"histogram": {"3": 500, "7": 496, "8": 3, "40": 1}}}})
    assert (one.length, one.cut) == (8, 4)


@pytest.mark.parametrize(("batch", "share"), [(1, 0.1), (16, 0.1), (17, 0.2), (32, 0.2), (64, 0.3), (65, 0.3)])
def test_the_share_of_duplicates_is_that_of_the_next_larger_batch(batch: int, share: float) -> None:
    assert _corpus({"duplicate_share": {"16": 0.1, "32": 0.2, "64": 0.3}}, batch_size=batch).duplicate_share == share


# --- a finetuned one --------------------------------------------------------------------------------------------------


START = Start(run="runs/a/b/mdc/s0", config_sha256="0" * 64, weights="last", patience=2, canvas=None)


def _train(state: Path, losses: list[float], kill_at: int | None = None, start: Start | None = START) -> int:
    """Train up to 40 steps with a validation every 2, whose losses are given; returns the last step."""
    asked = [0]

    def batch(step: int, _: object) -> CaptionBatch:
        asked.append(step)
        return toy.batch(8, seed=step)

    def validate() -> dict[str, float]:
        return {"loss": losses[(asked[-1] + 1) // 2 - 1]}

    by = toy.recipe(validate_every=2)
    found = toy.trained(state, "mdc", 40, by, kill_at=kill_at, batch_of=batch, validate=validate, start=start)
    return int(found.segments[-1]["last_step"])


LOSSES = [3.0, 2.0, 2.5, 1.9, 2.1, 1.9, *[1.0] * 20]  # equal is not better: over after the sixth, at step 12


def test_a_run_ends_when_its_patience_does(tmp_path: Path) -> None:
    assert _train(tmp_path / "a", LOSSES) == 12
    lines = read_json_lines(tmp_path / "a/log.jsonl")
    assert [line["validation_loss"] for line in lines if "validation_loss" in line] == LOSSES[:6]
    patient = START.model_copy(update={"patience": 30})
    assert _train(tmp_path / "b", LOSSES, start=patient) == 40
    assert _train(tmp_path / "c", LOSSES, start=None) == 40


@pytest.mark.parametrize("kill_at", [3, 6, 9, 11])
def test_a_killed_run_ends_where_it_would_have(tmp_path: Path, kill_at: int) -> None:
    with pytest.raises(toy.Killed):
        _train(tmp_path, LOSSES, kill_at=kill_at)
    assert _train(tmp_path, LOSSES) == 12
    # and one that had ended does not go on
    assert _train(tmp_path, LOSSES) == 12


def test_a_caption_on_a_canvas_is_of_any_length_up_to_it() -> None:
    batch = toy.batch(8, longest=10)
    seen: dict[int, set[int]] = {row: set() for row in range(8)}
    for draw in range(400):
        uniforms = batch.uniforms.clone()
        uniforms[:, 0] = (draw + 0.5) / 400
        found = on_canvas(replace(batch, uniforms=uniforms), 12)
        assert torch.equal(found.tokens, batch.tokens)
        for row, length in enumerate(found.lengths.tolist()):
            seen[row].add(length)
    for row, length in enumerate(batch.lengths.tolist()):
        assert seen[row] == set(range(length, 14)), "SOT and 12 tokens at most"
    assert bool((batch.tokens[:, -1] == toy.EOT).all())
    longer = on_canvas(batch, 2)
    assert torch.equal(longer.lengths, batch.lengths), "a caption longer than the canvas stays"
