"""Runs and exports of earlier versions, whose configurations have keys that this version no longer has."""

import json
from pathlib import Path
from typing import Any

import pytest
import toy
from safetensors.torch import save_file

import mdc
from mdc.app.export import open_clip_model
from mdc.methods.masked.method import Masked
from mdc.models.runs import RunModel
from mdc.models.text import Vocabulary
from mdc.models.weights import CHECKPOINT, WEIGHTS_FORMAT, save_weights
from mdc.plan.jobs.read import GONE, read_job
from mdc.plan.records import UserError, sha256_file, write_json

WORDS = Vocabulary.corpus(range(toy.V - 3))
JOB = toy.job(toy.METHODS["mdc"], toy.recipe(), inputs=["data/corpora/toy", "data/vocabularies/toy"])
FORMAT = {"format": WEIGHTS_FORMAT}
EARLIER = {"masks": 4, "masking": "suffix"}


def _config(**more: Any) -> dict[str, Any]:
    config = JOB.config()
    return config | {"method": config["method"] | more}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder in its scale's."""
    folder = tmp_path / "toy" / JOB.job
    folder.mkdir(parents=True)
    save_weights(
        folder / CHECKPOINT, toy.build_model(JOB.method, toy.BACKBONE, toy.PROTOCOL, WORDS.size, 77, 0), FORMAT
    )
    outputs = {CHECKPOINT: sha256_file(folder / CHECKPOINT)}
    write_json(folder / "run.json", {"id": JOB.job, "outputs": outputs, "config": _config(**EARLIER)})
    (tmp_path / "toy/data/vocabularies/toy").mkdir(parents=True)
    write_json(tmp_path / "toy/data/vocabularies/toy/vocabulary.json", WORDS.to_json())
    return folder


def test_a_run_with_keys_that_are_gone_is_loaded_without_them(run: Path) -> None:
    with pytest.warns(UserWarning, match="this version has no such key") as told:
        model = mdc.load(run)
    wheres = [f"{run / 'run.json'}: method.{key} = {value!r}: ignored" for key, value in EARLIER.items()]
    assert [str(one.message).rpartition(",")[0] for one in told] == wheres
    assert model.job.method == JOB.method and model.run.load()


def test_so_is_an_export(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    facts = {"run": JOB.job, "weights": "last", "pieces": list(WORDS.pieces or ())}
    config, tensors = open_clip_model.parts(RunModel(run / CHECKPOINT, JOB, WORDS), facts)
    config["mdc"]["config"] = _config(**EARLIER)
    (out / open_clip_model.CONFIG).write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, out / open_clip_model.WEIGHTS)
    with pytest.warns(UserWarning, match="this version has no such key"):
        assert mdc.load(out).job.method == JOB.method


def test_other_keys_and_a_job_to_be_run_are_refused(run: Path, tmp_path: Path) -> None:
    write_json(tmp_path / "job.json", _config(masking="suffix"))
    with pytest.raises(UserError, match="masking = 'suffix': no such key of objective 'masked'"):
        read_job(tmp_path / "job.json", "pretrain")
    manifest = json.loads((run / "run.json").read_text())
    write_json(run / "run.json", manifest | {"config": _config(maskings="suffix")})
    with pytest.raises(UserError, match="maskings = 'suffix': no such key of objective 'masked'"):
        mdc.load(run)


def test_what_is_gone_is_gone() -> None:
    own = [path.removeprefix("method.") for path in GONE["pretrain"] if path.startswith("method.")]
    assert own and not set(own) & set(Masked.model_fields)
