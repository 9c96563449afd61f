"""Trains every method for some steps on toy batches, alone or as one of several processes: `run_cases.py OUT PROCESSES`.

The first process saves the weights of each case, and its log, in OUT/<case>. Accumulation is for several processes
only: alone each case is the whole batch at once.
"""

import contextlib
import math
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import torch
import toy

from mdc.data.loader.batch import CaptionBatch
from mdc.plan.config.method import Method
from mdc.plan.config.methods import method
from mdc.plan.processes.group import Group, process_group
from mdc.plan.processes.interrupts import Interrupted
from mdc.plan.records import UserError
from mdc.training import metrics
from mdc.training.state import Segment
from mdc.training.trainer import Training, train

STEPS, BATCH = 20, 8


class Stopped(Exception):
    """Stands for a kill."""


PARALLEL = method(
    label="MDC (w/o t)",
    objective="masked",
    pooling="patch_mean",
    t_range=(0.1, 1.0),
    weight="none",
    normaliser="masked_tokens",
)
# name: method, micro-batches, share of duplicate captions in the corpus (above 0.05 they are masked)
CASES: dict[str, tuple[Method, int, float]] = {
    "clip": (toy.METHODS["clip"], 1, 0.0),
    "clip, accumulation": (toy.METHODS["clip"], 2, 0.0),
    "clip, duplicates masked": (toy.METHODS["clip"], 1, 1.0),
    "clip, duplicates masked, accumulation": (toy.METHODS["clip"], 2, 1.0),
    "arc": (toy.METHODS["arc"], 1, 0.0),
    "mdc": (toy.METHODS["mdc"], 1, 0.0),
    "mdc, accumulation": (toy.METHODS["mdc"], 2, 0.0),
    "masked tokens": (PARALLEL, 1, 0.0),
}

# runs that a signal ends on the way: how late is read what their steps measured
INTERRUPTED = {"interrupted": 0, "interrupted, read late": 4}


def global_batch(step: int) -> CaptionBatch:
    """A batch with two equal captions, in different halves of it."""
    batch = toy.batch(BATCH, seed=step)
    first, second = step % 4, 4 + (step // 4) % 4
    for values in (batch.tokens, batch.lengths, batch.caption_hash):
        values[second] = values[first]
    return batch


def part(batch: CaptionBatch, rank: int, world: int) -> CaptionBatch:
    """The rows of one process, as the loader gives them: every ``world``-th, no wider than the longest caption of them needs."""
    own = CaptionBatch(**{n: v[rank::world] if v is not None else None for n, v in vars(batch).items()})
    width = min(-(-int(own.lengths.max()) // 8) * 8, own.tokens.shape[1])
    return replace(own, tokens=own.tokens[:, :width], uniforms=own.uniforms[:, :width])


def run_case(
    name: str,
    group: Group,
    state: Path,
    stop_at: int | None = None,
    spoil_at: int | None = None,
    signal_at: int | None = None,
    behind: int = 0,
    segments: list[Segment] | None = None,
) -> dict[str, torch.Tensor]:
    """The weights after STEPS steps; the log lies in ``state``. Stopped, it raises Stopped; spoilt, the last rank's
    weights turn to NaN; ``signal_at`` a step SIGTERM reaches the last rank alone. ``behind``: steps after which is read what a
    step measured, as on a GPU. ``segments`` takes what the steps were computed with.
    """
    method, accumulation, duplicates = CASES[name]
    # the paper's learning rate. Keys' biases have no gradient in truth (softmax does not see them), so AdamW makes
    # steps of pure rounding out of theirs: a larger rate shows as a larger difference there, and nowhere else.
    recipe = toy.recipe(accumulation=accumulation if group.world > 1 else 1, processes=group.world, lr=5e-4)
    model = toy.model(method)
    objective = toy.build_objective(model, method, toy.PROTOCOL, toy.MASK, BATCH, "fp32", duplicates, group)

    def batches(start: int) -> Iterator[CaptionBatch]:
        for step in range(start, STEPS):
            if step == stop_at:
                raise Stopped
            if step == spoil_at and group.rank == group.world - 1:
                with torch.no_grad():
                    next(model.parameters()).fill_(math.nan)
            if step == signal_at and group.rank == group.world - 1:
                signal.raise_signal(signal.SIGTERM)
            yield part(global_batch(step), group.rank, group.world)

    job = toy.job(method, recipe)
    training = Training(job, model, objective, toy.Data(STEPS, batches), torch.device("cpu"), None, group)
    with (
        patch("mdc.training.trainer.Saver", toy.FifthSteps),
        patch.dict(vars(metrics), {"max_lag": lambda device: behind}),
    ):
        found = train(training, toy.states(state, job), toy.RUNTIME)
    if segments is not None:
        segments.extend(found.segments)
    return {key: value.clone() for key, value in model.state_dict().items()}


def main(out: Path, processes: int) -> None:
    """All cases; `resumed` and `there and back` resume from the states that lie there, and the second stops again."""
    torch.set_num_threads(1)
    with process_group(processes, torch.device("cpu")) as group:
        for folder in [*CASES, "resumed"]:
            weights = run_case("mdc" if folder == "resumed" else folder, group, out / folder)
            sums = group.gather_objects({name: float(tensor.double().sum()) for name, tensor in weights.items()})
            assert all(found == sums[0] for found in sums), f"{folder}: the ranks have parted"
            if group.rank == 0:
                torch.save(weights, out / folder / "weights.pt")
        with contextlib.suppress(Stopped):
            run_case("mdc", group, out / "there and back", stop_at=14)
        for folder, behind in INTERRUPTED.items():
            try:
                run_case("mdc", group, out / folder, signal_at=7, behind=behind)
            except Interrupted as left:
                (out / folder / f"left{group.rank}").write_text(f"{left.number}: {left}")
            weights = run_case("mdc", group, out / folder)
            if group.rank == 0:
                torch.save(weights, out / folder / "weights.pt")
        try:
            run_case("clip", group, out / "spoilt", spoil_at=7)
        except UserError as error:
            (out / f"spoilt{group.rank}").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
