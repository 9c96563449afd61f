"""The data of a run: batches to train on, and the held-out ones that its objective is measured on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from mdc.jobs.model import PretrainJob
from mdc.loader.batch import CaptionBatch
from mdc.loader.batches import CaptionBatches, validation_batches
from mdc.loader.stored import StoredTokens
from mdc.objectives.objective import Objective
from mdc.processes.group import Group
from mdc.records import UserError
from mdc.shards.index import read_index
from mdc.text import Vocabulary


class Corpus:
    """The shards of ``job``'s corpus (``manifest`` is their index.json) as one process of ``group`` reads them."""

    def __init__(
        self,
        job: PretrainJob,
        manifest: Path,
        vocabulary: Vocabulary,
        workers: int,
        group: Group,
        encoded: Path | None = None,
    ) -> None:
        """``encoded``: the manifest of a frozen encoder's tokens of this corpus, which stand in the images' place."""
        self.job, self.manifest, self.vocabulary = job, manifest, vocabulary
        self.workers, self.group, self.encoded = workers, group, encoded
        self.index: dict[str, Any] = read_index(manifest, verify="auto", kind="corpus")
        if self.steps == 0:
            raise UserError(
                f"{manifest}: {self.pairs} training samples are fewer than one batch of {job.recipe.batch_size}; "
                "lower recipe.batch_size or add data"
            )

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
    def least_tokens(self) -> int:
        """How many token places a batch has at least: those of the canvas, where there is one, and SOT's."""
        start = self.job.start
        return start.canvas + 1 if start is not None and start.canvas is not None else 0

    @property
    def duplicate_share(self) -> float:
        """The corpus's share of duplicate captions in the smallest batch listed that is no smaller than ours."""
        listed = {int(size): share for size, share in self.index["captions"]["duplicate_share"].items()}
        enough = [size for size in listed if size >= self.job.recipe.batch_size]
        return float(listed[min(enough) if enough else max(listed)])

    def batches(self, start: int) -> Iterator[CaptionBatch]:
        """This process's part of the training batches from step ``start`` on."""
        protocol = self.job.protocol
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
            )
        )

    def validation(self) -> Iterator[CaptionBatch]:
        """This process's turns of the held-out batches, with the same crops, captions and noise every time."""
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
        )

    def _tokens(self, split: str) -> StoredTokens | None:
        return StoredTokens(self.encoded, self.index, split) if self.encoded is not None else None


@dataclass(frozen=True)
class Validation:
    """A run's own objective on its corpus's held-out split."""

    corpus: Corpus
    objective: Objective
    device: torch.device

    def __call__(self) -> dict[str, float]:
        """``loss``: the mean in nats."""
        total, count = 0.0, 0.0
        for batch in self.corpus.validation():
            part, number = self.objective.evaluate(batch.to(self.device))
            total, count = total + float(part), count + float(number)
        sums = torch.tensor([total, count], dtype=torch.float64, device=self.device)
        total, count = self.corpus.group.sum(sums).tolist()
        return {"loss": total / max(count, 1.0)}
