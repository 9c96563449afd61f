"""What `mdc config RUN --memory` says a step holds, against real steps of real models; and what no start loads."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from mdc.app.cli import main
from mdc.data.loader.batch import CaptionBatch
from mdc.models.recomputing import recompute_layers
from mdc.models.text import Vocabulary
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import UserError, write_json
from mdc.training import memory
from mdc.training.average import AveragedWeights
from mdc.training.memory import Captions, Live, held, operations
from mdc.training.trainer import build_optimizer

ROOT = Path(__file__).resolve().parents[3]
METHODS = toy.ALL_METHODS
WORDS = Vocabulary.corpus(range(toy.V - 2))
BATCH, WIDTH = 8, 16


def batch(longest: int = 14) -> CaptionBatch:
    """As the loader yields it, with the draws of every objective."""
    return toy.batch(BATCH, longest=longest, width=WIDTH, draws=True)


def tokens_of(method: str, longest: int = 14) -> int:
    """Of a caption of that batch: the mean, or, where captions are filled up, all that there is room for."""
    return WIDTH if method == "mcd" else round(float(batch(longest).lengths.float().mean()))


def asked(method: str, **recipe: Any) -> PretrainJob:
    return toy.job(METHODS[method], toy.recipe(batch_size=BATCH, **recipe))


def real(job: PretrainJob) -> tuple[Any, Any]:
    """The run's model and objective, with numbers."""
    model = toy.model(job.method)
    objective = toy.objective(job.method, model, job.recipe.precision)
    if job.recipe.activation_checkpointing:
        recompute_layers(model)
    return model, objective


def size(tensors: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@pytest.mark.parametrize("method", METHODS)
def test_weights_gradients_and_optimiser_are_exact(method: str) -> None:
    job = asked(method, average={"decay": 0.9, "every": 1})
    told = held(job, Captions(WORDS, 9, ""))
    model, objective = real(job)
    optimizer = build_optimizer(model, job.recipe, job.protocol.pretrain)
    objective.backward(objective.prepare(batch()))
    # fused AdamW makes its state for parameters with a gradient; [CLS]'s norm and CLIP's class token have theirs too
    for parameter in model.parameters():
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    assert told.weights == size([*model.parameters(), *model.buffers()])
    assert told.gradients == size(p.grad for p in model.parameters())
    assert told.adam == size(value for state in optimizer.state.values() for value in state.values())
    assert told.average == size(AveragedWeights(model, job.recipe.average).weights.values())  # type: ignore[arg-type]
    assert held(asked(method), Captions(WORDS, 9, "")).average == 0


@pytest.mark.parametrize("method", METHODS)
def test_activations_and_the_most_at_a_time_are_those_of_a_real_step(method: str) -> None:
    """Within 15 %: a real batch's captions differ in length, and a mean is all that is known beforehand."""
    jobs = asked(method), asked(method, precision="bf16", activation_checkpointing=True)
    whole, less = (held(job, Captions(WORDS, tokens_of(method, 12), "")) for job in jobs)
    for job, told in zip(jobs, (whole, less), strict=True):
        model, objective = real(job)
        shown = objective.prepare(batch(12))
        batch_tensors = [leaf for leaf in tree_leaves(shown) if isinstance(leaf, torch.Tensor)]
        live = Live([*model.parameters(), *model.buffers(), *batch_tensors])
        with live, torch.autograd.graph.saved_tensors_hooks(live.keep, lambda tensor: tensor):
            objective.backward(shown)
        assert told.activations == pytest.approx(live.kept, rel=0.15)
        assert told.peak_transient == pytest.approx(live.peak, rel=0.15)
        assert told.activations <= told.peak_transient < told.all
        assert live.now >= told.gradients, "the gradients stay"
    assert less.activations < 0.5 * whole.activations


@pytest.mark.parametrize("method", METHODS)
def test_operations_are_those_of_a_real_step(method: str) -> None:
    """A real step of captions that are all as long; and neither parts nor recomputing add to what a step needs."""
    job = asked(method)
    whole = toy.batch(BATCH, longest=4, width=WIDTH, draws=True)
    objective = toy.objective(job.method, toy.model(job.method))
    with FlopCounterMode(display=False) as counter:
        objective.backward(objective.prepare(whole))
    told = operations(job, Captions(WORDS, tokens_of(method, 4), ""))
    assert told == pytest.approx(counter.get_total_flops(), rel=0.05)
    assert (
        operations(
            asked(method, activation_checkpointing=True, accumulation=2), Captions(WORDS, tokens_of(method, 4), "")
        )
        == told
    )
    half = operations(asked(method, processes=2), Captions(WORDS, tokens_of(method, 4), ""))
    assert half == pytest.approx(told / 2, rel=0.02)


@pytest.mark.parametrize("method", ["clip", "mdc"])
def test_micro_batches_and_processes_share_the_activations(method: str) -> None:
    whole = held(asked(method), Captions(WORDS, 9, ""))
    parts = held(asked(method, accumulation=4), Captions(WORDS, 9, ""))
    shared = held(asked(method, processes=4), Captions(WORDS, 9, ""))
    for smaller in (parts, shared):
        assert smaller.activations < 0.6 * whole.activations and smaller.weights == whole.weights
    assert shared.batch < 0.5 * whole.batch and parts.batch == pytest.approx(whole.batch, rel=0.2)
    assert whole.sums == 0 and shared.sums == 0
    assert shared.peak_transient > shared.gradients + shared.activations, "DDP keeps room for all gradients"
    assert held(asked(method, processes=4, reduce="bf16"), Captions(WORDS, 9, "")).sums == whole.gradients // 2


def test_pretrained_word_embeddings_are_not_trained() -> None:
    job = asked("mcd")
    frozen = job.model_copy(update={"method": job.method.but(words="clip")})
    ours, theirs = (held(one, Captions(WORDS, WIDTH, "")) for one in (job, frozen))
    words = size([toy.model(job.method).text.token_embedding.weight])
    assert theirs.gradients == ours.gradients - words and theirs.weights == ours.weights
    assert theirs.adam == ours.adam - 2 * words - 4


def test_how_long_captions_are(tmp_path: Path) -> None:
    job = asked("mdc")
    unknown = memory.captions_of(job, tmp_path, 0)
    assert unknown.tokens == job.protocol.data.context_length and unknown.vocabulary == Vocabulary.full()
    write_json(tmp_path / f"data/vocabularies/{job.vocabulary}/vocabulary.json", WORDS.to_json())
    counts = {"captions": {"per_split": {"train": {"histogram": {"4": 1, "6": 3, "900": 0}}}}}
    write_json(tmp_path / f"data/corpora/{job.corpus}/index.json", counts)
    found = memory.captions_of(job, tmp_path, 0)
    assert found.tokens == round(7.5) and found.vocabulary == WORDS and job.corpus in found.why
    assert memory.captions_of(job, tmp_path, 5).tokens == 5
    # a finetuning's captions have any length between their own and the canvas's, SOT besides
    on_canvas = job.model_copy(update={"start": SimpleNamespace(canvas=12)})
    assert memory.captions_of(on_canvas, tmp_path, 0).tokens == round((6 + 13 + 3 * (8 + 13)) / 8)
    filled = memory.captions_of(asked("mcd"), tmp_path, 0)
    assert filled.tokens == 1 + 8 and "filled up to 9 tokens" in filled.why
    for wrong in (2, -1, job.protocol.data.context_length + 1):
        with pytest.raises(UserError, match="a caption has 3 to"):
            memory.captions_of(job, tmp_path, wrong)


def test_the_command_line_says_it_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    params = ["--params", str(ROOT / "params.yaml"), "--scale", "mini"]
    monkeypatch.chdir(tmp_path)
    assert main(["config", "runs/alt/ViT-T-12/mdc/s0", "--memory", "20", *params]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert all(said in line for said in ("alt/ViT-T-12/mdc/s0 in fp32", "captions of 20 tokens", "in each process"))
    for job, why in (("table1", "of trainings alone"), ("runs/alt/ViT-T-12/nobody/s0", "no job")):
        assert main(["config", job, "--memory", *params]) == 2
        assert why in capsys.readouterr().err


@pytest.mark.slow
def test_a_large_model_of_the_paper_takes_no_memory() -> None:
    """ViT-B/32 has 0.15 billion parameters, 0.6 GB; what Python takes for them here must stay below 150 MB."""
    script = """
import resource, sys
from pathlib import Path
import torch._dynamo
from mdc.plan.config.read import load
from mdc.plan.jobs.plan import Plan
from mdc.models.open_clip_parts import load as parts
from mdc.training import memory
parts("transformer")
job = Plan(load(sys.argv[1], "paper")).jobs["runs/cc12m/ViT-B-32/mdc/s0"]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
memory.main(job, Path("nowhere"), 0)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    call = [sys.executable, "-c", script, str(ROOT / "params.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=True)
    line, grown = done.stdout.splitlines()
    assert int(grown) < 150, line
    assert "on each GPU (1 of them)" in line and "activations of 1024 images" in line


# --- what no start loads ----------------------------------------------------------------------------------------------


PROGRAM = """
import sys, torch
before = set(sys.modules)
def loaded():
    heavy = {"transformers", "torchvision", "torch._dynamo", "triton", "mdc.models.fused_cross_entropy"}
    return heavy & (set(sys.modules) - before)
import mdc.evaluation.probe
assert not loaded(), loaded()
from mdc.models.cross_entropy import weighted_cross_entropy_sum
hidden, matrix = torch.randn(4, 3, requires_grad=True), torch.randn(5, 3)
weighted_cross_entropy_sum(hidden, matrix, torch.tensor([0, 1, 2, 4]), torch.ones(4)).backward()
sys.path.insert(0, "tests/support")
import toy
toy.model("mdc")
assert not loaded(), loaded()
"""


def test_no_compiler_and_no_library_of_models_is_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
