"""Embeddings of word pieces that others trained: brought once, and never trained."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from changed import put
from safetensors.torch import load_file
from test_mask_and_replace_objective import BACKBONE, batch, method
from tiny_clip import write_clip

from mdc.config import FrozenWords, Recipe, read_yaml, validate
from mdc.jobs.call import Call
from mdc.jobs.encoder_model import WordsJob
from mdc.jobs.folder import ScaleFolder
from mdc.jobs.ids import Run
from mdc.jobs.plan import Plan
from mdc.models.initial import count_parameters
from mdc.models.words import read_words
from mdc.objectives.mask_and_replace import build_model, build_objective
from mdc.precompute import import_words
from mdc.records import UserError, read_json
from mdc.text import Vocabulary
from mdc.training.optimizer import build_optimizer

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")


def _job(folder: Path, width: int) -> WordsJob:
    entry = {"label": "", "model": f"local-dir:{folder}", "weights": None, "width": width}
    values: dict[str, Any] = {"job": "words/clip", "verb": "import-words", "scale": "mini", "fingerprint": "0" * 64}
    return WordsJob.model_validate({**values, "inputs": [], "name": "clip", "entry": entry})


@pytest.fixture
def brought(tmp_path: Path) -> tuple[Path, torch.Tensor, WordsJob]:
    """The manifest of a small CLIP's embeddings, and the embeddings themselves."""
    folder = write_clip(tmp_path)
    weight = load_file(folder / "open_clip_model.safetensors")["token_embedding.weight"]
    job = _job(folder, weight.shape[1])
    import_words.main(Call(job, ScaleFolder(tmp_path), tmp_path / "words"))
    return tmp_path / "words/words.json", weight, job


def _asked(job: WordsJob) -> FrozenWords:
    return FrozenWords(job=job.job, config_sha256=job.sha256, width=job.entry.width)


def test_each_class_has_the_embedding_of_its_piece(brought: tuple[Path, torch.Tensor, WordsJob]) -> None:
    manifest, weight, job = brought
    some = Vocabulary.corpus([5, 320, 40_000])
    assert torch.equal(read_words(manifest, _asked(job), some), weight[[5, 320, 40_000, 49_407]])
    whole = read_words(manifest, _asked(job), Vocabulary.full())
    # all pieces, and EOT where SOT would stand
    assert torch.equal(whole, torch.cat([weight[:49_406], weight[49_407:]]))
    assert read_json(manifest)["width"] == weight.shape[1]


def test_other_or_damaged_embeddings_are_one_line(brought: tuple[Path, torch.Tensor, WordsJob], tmp_path: Path) -> None:
    manifest, weight, job = brought
    other = _asked(job).model_copy(update={"config_sha256": "1" * 64})
    with pytest.raises(UserError, match="made with another configuration than words/clip has now"):
        read_words(manifest, other, Vocabulary.full())
    file = manifest.parent / "words.safetensors"
    file.write_bytes(file.read_bytes()[:-4] + b"0000")
    with pytest.raises(UserError, match=r"not the embeddings that .* names"):
        read_words(manifest, _asked(job), Vocabulary.full())
    narrow = _job(tmp_path / "tiny", weight.shape[1] + 1)
    with pytest.raises(UserError, match=r"words\.clip: .* has embeddings of shape .*; needed: \(49408, "):
        import_words.main(Call(narrow, ScaleFolder(tmp_path), tmp_path / "narrow"))


def test_they_are_not_trained() -> None:
    model = build_model(method(), BACKBONE, None, 12, 20, 0)  # type: ignore[arg-type]
    before = count_parameters(model)
    words = torch.randn(11, 16, generator=torch.Generator().manual_seed(0))
    model.text.stand_on(words)
    assert torch.equal(model.text.token_embedding.weight[:11], words)
    assert before - count_parameters(model) == 12 * 16, "[MASK]'s too"
    objective = build_objective(model, method(), None, 12, 6, "fp32", length=8)  # type: ignore[arg-type]
    recipe = Recipe.model_validate(VALUES["scales"]["mini"]["pretrain"]["recipe"])
    optimizer = build_optimizer(model, recipe, validate(copy.deepcopy(VALUES)).protocol.pretrain)
    objective.backward(objective.prepare(batch()))
    optimizer.step()
    assert torch.equal(model.text.token_embedding.weight[:11], words)
    assert model.head.weight.grad is not None and model.text.token_embedding.weight.grad is None


def test_a_run_on_them_names_them() -> None:
    words = {"clip": {"label": "x", "model": "ViT-B-32", "weights": "openai", "width": 96}}
    values = put(copy.deepcopy(VALUES), ("scales", "mini", "words"), words)
    values = put(values, ("scales", "mini", "pretrain", "backbones", "on-codes", "words"), "clip")
    plan = Plan(validate(values))
    job = plan.pretrain(Run("described", "on-codes", "mcd", 0))
    assert "words/clip" in job.inputs and job.backbone.words.width == 96  # type: ignore[union-attr]
    assert list(plan.jobs).index("words/clip") < list(plan.jobs).index(job.job)
    plain = Plan(validate(copy.deepcopy(VALUES))).pretrain(Run("described", "on-codes", "mcd", 0))
    assert "words" not in plain.config()["backbone"]
    for path, to, said in (
        (("words", "clip", "width"), 64, "words = clip: of width 64, and the decoder's is 96"),
        (("pretrain", "backbones", "on-codes", "words"), "x", "no entry of words is named 'x'; allowed: clip"),
        (("mc_diffusion", "systems", "mdc_codes", "backbone"), "on-codes", "which only mask_and_replace takes"),
    ):
        with pytest.raises(UserError) as caught:
            validate(put(copy.deepcopy(values), ("scales", "mini", *path), to))
        assert said in str(caught.value)
