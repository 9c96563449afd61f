"""The data of a run: training and validation batches."""

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from mdc.data.loader.batch import CaptionBatch
from mdc.data.loader.batches import CaptionBatches, validation_batches
from mdc.data.loader.draws import MoreDraws
from mdc.data.loader.precomputed_tokens import PrecomputedTokens
from mdc.data.shards.index import read_index
from mdc.models.text import Vocabulary
from mdc.models.visual_context import count_of_tokens
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.pretrain import Blocks
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.processes.group import Group
from mdc.plan.records import UserError
from mdc.training.filled import caption_lengths, filled_length
from mdc.training.objectives.objective import Objective, needs_of
from mdc.training.prefetch import prefetch_to_device


class Corpus:
    """The shards of ``job``'s corpus (``manifest``: their index.json), read by one process of ``group``."""

    def __init__(
        self,
        job: PretrainJob,
        manifest: Path,
        vocabulary: Vocabulary,
        workers: int,
        group: Group,
        inputs: Mapping[str, Path] | None = None,
    ) -> None:
        """``inputs``: the manifests of all inputs of the run, by job. If a frozen encoder's precomputed tokens are among them,
        they are used instead of images."""
        self.job, self.manifest, self.vocabulary = job, manifest, vocabulary
        self.needs = needs_of(job.method)
        self.workers, self.group, self.inputs = workers, group, inputs or {}
        self.encoded = self.input_below("encoded")
        self.index: dict[str, Any] = read_index(manifest, verify="auto", kind="corpus")
        if self.steps == 0:
            raise UserError(
                f"{manifest}: {self.pairs} training samples are fewer than one batch of {job.recipe.batch_size}; "
                "lower recipe.batch_size or add data"
            )

    def input_below(self, layer: str) -> Path | None:
        """The manifest of the run's input of a layer, as ``encoded``; None if it has none."""
        return next((path for name, path in self.inputs.items() if name.startswith(f"{layer}/")), None)

    @property
    def pairs(self) -> int:
        """Samples to train on."""
        return int(self.index["splits"]["train"]["samples"])

    @property
    def held_out(self) -> int:
        """Samples to validate on."""
        return int(self.index["splits"].get("val", {}).get("samples", 0))

    @property
    def steps(self) -> int:
        """Whole batches in an epoch, times epochs."""
        return self.job.recipe.epochs * (self.pairs // self.job.recipe.batch_size)

    @property
    def length(self) -> int | None:
        """The fixed number of places of a caption, of a method that fills captions up; None of any other."""
        if not self.needs.filled:
            return None
        return filled_length(caption_lengths(self.index), self.job.protocol.data.context_length)

    @property
    def cut(self) -> int | None:
        """How many training captions are truncated to ``length`` places."""
        length = self.length
        if length is None:
            return None
        return sum(count for pieces, count in caption_lengths(self.index).items() if pieces + 1 > length)

    @property
    def least_tokens(self) -> int:
        """The least token width of a batch: the canvas or the fixed length of captions, if any, plus SOT."""
        start = self.job.start
        canvas = start.canvas if start is not None else None
        return max(canvas or 0, self.length or 0) + 1 if canvas or self.length else 0

    @property
    def _more(self) -> MoreDraws | None:
        backbone, kept = self.job.backbone, self.needs.patches
        vectors = count_of_tokens(backbone) if kept or isinstance(backbone, FrozenEncoderBackbone) else 0
        return MoreDraws(self.job.protocol.data.context_length, vectors) if kept or self.length is not None else None

    @property
    def duplicate_share(self) -> float:
        """The corpus's share of duplicate captions for the smallest listed batch size that is at least this run's."""
        listed = {int(size): share for size, share in self.index["captions"]["duplicate_share"].items()}
        enough = [size for size in listed if size >= self.job.recipe.batch_size]
        return float(listed[min(enough) if enough else max(listed)])

    def batches(self, start: int) -> Iterator[CaptionBatch]:
        """This process's part of the training batches from step ``start`` on."""
        protocol, order = self.job.protocol, self.job.recipe.order
        return iter(
            CaptionBatches(
                self.manifest,
                "train",
                self.vocabulary,
                image_size=self.job.backbone.image_size,
                batch_size=self.job.recipe.batch_size,
                seed=self.job.seed,
                steps=self.steps,
                start_step=start,
                crop_scale=protocol.pretrain.crop_scale,
                crop_ratio=protocol.pretrain.crop_ratio,
                context_length=protocol.data.context_length,
                rank=self.group.rank,
                world=self.group.world,
                workers=self.workers,
                least_tokens=self.least_tokens,
                tokens=self._tokens("train"),
                more=self._more,
                buffer=order.blocks.buffer if isinstance(order, Blocks) else None,
            )
        )

    def validation(self) -> Iterator[CaptionBatch]:
        """This process's held-out batches, with the same crops, captions and noise every time."""
        batch_size = self.job.recipe.batch_size
        return validation_batches(
            self.manifest,
            "val",
            self.vocabulary,
            image_size=self.job.backbone.image_size,
            batch_size=batch_size,
            # full batches only: a contrastive loss depends on the batch's size
            limit=self.held_out // batch_size * batch_size or None,
            context_length=self.job.protocol.data.context_length,
            rank=self.group.rank,
            world=self.group.world,
            least_tokens=self.least_tokens,
            tokens=self._tokens("val"),
            more=self._more,
            workers=self.workers,
        )

    def _tokens(self, split: str) -> PrecomputedTokens | None:
        return PrecomputedTokens(self.encoded, self.index, split) if self.encoded is not None else None


def validate(corpus: Corpus, objective: Objective, device: torch.device) -> dict[str, float]:
    """A run's objective on the held-out split of its corpus; ``loss``: the mean in nats."""
    total, count = 0.0, 0.0
    for batch in prefetch_to_device(corpus.validation(), partial(objective.prepare, held_out=True), device):
        part, number = objective.evaluate(batch.prepared)
        total, count = total + float(part), count + float(number)
    sums = torch.tensor([total, count], dtype=torch.float64, device=device)
    total, count = corpus.group.sum(sums).tolist()
    return {"loss": total / max(count, 1.0)}
