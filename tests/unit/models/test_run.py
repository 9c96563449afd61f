"""The job of a run, from its manifests to its own: whatever the objective, and with no other objective's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import toy
from calls import Call
from data_samples import write_corpus
from pydantic import ValidationError

from mdc.config import Method
from mdc.fingerprint import closure
from mdc.jobs.model import PretrainJob, Start
from mdc.parts import OBJECTIVES
from mdc.records import UserError, read_json, read_json_lines, sha256_file, write_json
from mdc.shards.index import read_index
from mdc.text import Vocabulary
from mdc.training.run import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, its vocabulary and a runtime."""
    place = tmp_path_factory.mktemp("run")
    source = {"kind": "scenes", "style": "alt", "train": 40, "val": 10, "seed": 1, "pixels": 16}
    write_corpus("alt", source, place / "alt", place)
    write_json(place / "vocabulary.json", Vocabulary.corpus(read_index(place / "alt")["pieces"]).to_json())
    write_json(place / "runtime.json", {"workers": 0, "log_every": 1, "save_every": 0})
    return place


def _call(folder: Path, name: str, method: str = "mdc", **recipe: Any) -> Call:
    inputs = {"data/corpora/alt": folder / "alt/index.json", "data/vocabularies/alt": folder / "vocabulary.json"}
    names = {"job": "runs/alt/toy/m/s0", "corpus": "alt", "vocabulary": "alt", "inputs": list(inputs)}
    job = toy.job(toy.METHODS[method], toy.recipe(**{"epochs": 2, "validate_every": 4, **recipe}), **names)
    return Call(job, folder / name / "out", inputs, folder / "runtime.json", folder / name / "state")


@pytest.mark.parametrize("method", ["clip", "arc", "mdc"])
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
    assert [line["step"] for line in log if "loss" in line] == list(range(1, 11))
    assert [line["step"] for line in log if "validation_loss" in line] == [4, 8, 10]
    assert run["loss"] == log[-2]["loss"] and run["validation_loss"] == log[-1]["validation_loss"]
    assert told["log_sha256"] == sha256_file(call.out / "log.jsonl") and told["device"] == "cpu"
    assert call.state is not None
    assert {path.name for path in call.state.iterdir()} == {"lock", "log.jsonl", "tensorboard"}
    again = _call(folder, f"{method} again", method)
    main(again)
    for name in ("run.json", "checkpoint.safetensors"):
        assert (again.out / name).read_bytes() == (call.out / name).read_bytes()


def test_a_run_with_a_profile_leaves_the_same_files(folder: Path) -> None:
    plain, looked = _call(folder, "plain"), _call(folder, "looked at")
    main(plain)
    looked.profile = 2
    main(looked)
    assert looked.state is not None and plain.state is not None
    assert {path.name for path in (looked.state / "profile").iterdir()} == {"trace.json", "operations.txt"}
    left = {path.name for path in looked.state.iterdir()} - {path.name for path in plain.state.iterdir()}
    assert left == {"profile"}
    for name in ("run.json", "checkpoint.safetensors", "best.safetensors"):
        assert (looked.out / name).read_bytes() == (plain.out / name).read_bytes()


def test_inputs_that_cannot_be_read_are_one_line(folder: Path) -> None:
    call = _call(folder, "missing")
    call.manifests["data/corpora/alt"] = folder / "none/index.json"
    with pytest.raises(UserError, match=r"none/index.json: no such file"):
        main(call)
    write_json(folder / "bad.json", {"workers": -1, "log_every": 1, "save_every": 0})
    call = _call(folder, "bad runtime")
    call.runtime = folder / "bad.json"
    with pytest.raises(UserError, match=r"bad.json: workers"):
        main(call)


def test_too_few_samples(folder: Path) -> None:
    call = _call(folder, "few", batch_size=64)
    with pytest.raises(UserError, match="40 training samples are fewer than one batch of 64"):
        main(call)


def test_a_run_covers_the_code_of_its_own_objective_alone() -> None:
    shared = set(closure("mdc.training.run"))
    own = {name: set(closure(module)) for name, module in OBJECTIVES.items()}
    for name, module in OBJECTIVES.items():
        assert module not in shared, f"a changed {name} would rerun every run"
        assert not any(module in others for other, others in own.items() if other != name)


def test_an_objective_that_is_none() -> None:
    with pytest.raises(ValidationError, match="no objective is named 'tea'; allowed: masked, autoregressive, contr"):
        Method(label="T", objective="tea", pooling="cls")


def test_a_run_whose_patience_ends_tells_the_steps_it_made_and_its_best_validation(folder: Path) -> None:
    before, call = _call(folder, "before"), _call(folder, "early", lr=1e-30, validate_every=2)
    main(before)
    start = Start(run="runs/alt/toy/m/s0", config_sha256=before.job.sha256, weights="last", patience=1, canvas=None)
    more = {"job": "runs/alt/toy/m/s0/ft-x", "inputs": [*call.job.inputs, start.run], "start": start}
    call.job = call.job.model_copy(update=more)
    call.manifests[start.run] = before.out / "run.json"
    main(call)
    run = read_json(call.out / "run.json")
    # so small a rate moves nothing: the second validation is no better than the first
    assert (run["steps"], run["samples_seen"]) == (4, 32)
    assert run["best"] == {"step": 2, "validation_loss": run["validation_loss"]}
