"""The README of a model on the Hugging Face hub, made from a run's record and from the tables that show it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.app.export.open_clip_model import feature
from mdc.app.export.results import Results
from mdc.plan.config.kinds.backbones import Backbone
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.registry.datasets import REGISTRY
from mdc.report.frame import POOLINGS
from mdc.report.tables.render import escape_markdown, write_page
from mdc.report.words import TOGETHER, claimed

#: a data file of the package that this module depends on
DATA_FILES = ("report/templates/model_card.md.j2",)
#: licence → its id on the hub; any other needs "other", a name and a link, here to the card itself
_HUB_LICENCES = {
    "MIT License": "mit",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-NC 4.0": "cc-by-nc-4.0",
    "Apache License 2.0": "apache-2.0",
}


@dataclass(frozen=True)
class Data:
    """A run's training data: the corpus's name, source and licence."""

    corpus: str
    source: str
    licence: str
    note: str


@dataclass(frozen=True)
class Stage:
    """A training: a run's ``manifest``, its ``job``, and its ``data``."""

    manifest: dict[str, Any]
    job: PretrainJob
    data: Data

    @property
    def recipe(self) -> dict[str, Any]:
        """Its recipe, as the scale has it, with the learning rate that was chosen."""
        chosen = {"lr": self.manifest["lr"]} if "lr" in self.manifest else {}
        return self.job.recipe.model_dump(mode="json", exclude_none=True) | chosen


def data_of(index: dict[str, Any]) -> Data:
    """From a corpus's index. Data outside the registry is the user's own, with an unknown licence."""
    source = index["source"]
    name = "scenes" if source["kind"] == "scenes" else source.get("dataset")
    if name not in REGISTRY:
        texts = ", ".join(f"{key} {value}" for key, value in sorted(source.items()) if isinstance(value, str))
        return Data(
            index["name"],
            escape_markdown(f"own data ({texts})"),
            "not known to this project",
            "Whoever publishes this model has to say under which licence these files are.",
        )
    entry = REGISTRY[name]
    link = f"[{entry.label}]({entry.url})" if entry.url else f"{entry.label}: {entry.reference}"
    return Data(index["name"], link, entry.licence, entry.licence_note)


def write_model_card(
    path: Path,
    stages: Sequence[Stage],
    metadata: dict[str, Any],
    missing: dict[str, str],
    results: Results,
    scale_label: str,
) -> None:
    """Write the card of a run. ``stages``: its trainings, its own the last; ``metadata``: what the folder says of the run;
    ``missing``: which library cannot load it, and why; ``results``: what tables say of it; ``scale_label``: what its scale is,
    in words."""
    job = stages[-1].job
    backbone = job.backbone
    assert isinstance(backbone, Backbone)
    licences = list(dict.fromkeys(stage.data.licence for stage in stages))
    clip = job.method.embeds_captions
    write_page(
        path,
        "model_card.md.j2",
        name=job.job.removeprefix("runs/"),
        stages=stages,
        manifest=stages[-1].manifest,
        job=job,
        backbone=backbone,
        clip=clip,
        metadata=metadata,
        missing=missing,
        feature=feature(clip),
        width=backbone.embed_dim if clip else backbone.width,
        licence=_HUB_LICENCES.get(licences[0], "other") if len(licences) == 1 else "other",
        results=results,
        several=any(int(result.row["seeds"]) > 1 for result in results.numbers),
        gained=any(result.gain for result in results.numbers),
        marks=_marks([result.interval for result in results.numbers if result.row["low"]]),
        poolings=POOLINGS,
        claimed=claimed,
        together=TOGETHER,
        scale=scale_label,
    )


def _marks(intervals: Sequence[str]) -> dict[str, str]:
    """A footnote's mark for each kind of interval in a table."""
    return {kind: f" <sup>{chr(ord('a') + place)}</sup>" for place, kind in enumerate(dict.fromkeys(intervals))}
