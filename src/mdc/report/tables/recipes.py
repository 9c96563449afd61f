"""Tables 6 to 8: the recipes of a backbone's models, from the resolved configurations of the runs.

One column for each corpus. A row has the common value of the ranked methods. Methods that differ have a row of their own, as ARC
with ViT-L/14 on CC12M, which clips gradients (paper, Table 8). Methods that are shown but not ranked (CLIP-LB) are in a note.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mdc.plan.config.pretrain import Optimisation
from mdc.plan.config.types import Name, Parameters, Strict
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.csv_file import write_csv
from mdc.report.tables.render import write_pages
from mdc.report.tables.table import Row, Table

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context

SHOWN = {
    "kind": "recipes",
    "artefacts": {
        "table6": {"title": "Table 6: hyper-parameters"},
        "table7": {"title": "Table 7: hyper-parameters"},
        "table8": {"title": "Table 8: hyper-parameters"},
    },
    "files": ".csv .html .md .tex",
    "caption": "How the runs of one backbone are trained at scale {scale}, read from their own resolved configurations (the "
    "paper's Tables 6 to 8).",
    "config": "Block",
    "values": "Values",
}

_SHORT = {"autoregressive": "AR", "contrastive": "CLIP", "masked": "MDC"}  # as the paper's Table 8 calls the first
NOTHING = "-"


def scientific(value: float | None) -> str:
    """5e-4, as the paper writes a learning rate; None: it was selected."""
    if value is None:
        return "selected"
    mantissa, exponent = f"{value:e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


#: the paper's rows in its order: label, key of the recipe, format
ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("optimizer", "optimizer", str),
    ("base lr", "lr", scientific),
    ("warmup steps", "warmup_steps", "{:,}".format),
    ("weight decay", "weight_decay", "{:g}".format),
    ("β_1", "beta1", "{:g}".format),
    ("β_2", "beta2", "{:g}".format),
    ("batch size", "batch_size", str),
    ("lr schedule", "lr_schedule", str.capitalize),
    ("epochs", "epochs", str),
    ("grad norm", "clip_norm", str),
)


class Block(Parameters):
    """Tables 6 to 8: how Table 1's runs of one backbone are trained."""

    backbone: Name

    sections = ("pretrain",)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        table1 = params.tables.get("table1")
        if table1 is None or self.backbone not in table1.backbones:
            there = f"allowed: {', '.join(table1.backbones)}" if table1 else "there is none"
            yield f"{where}.backbone = {self.backbone}: must be one of table1's; {there}"


class Recipe(Optimisation):
    """How a run is trained."""

    label: str
    objective: str
    ranked: bool
    optimizer: str
    lr_schedule: str


class Corpus(Strict):
    """The runs on a corpus."""

    label: str
    runs: Annotated[list[Recipe], Field(min_length=1)]


class Values(Strict):
    """The label of the backbone, and its runs by corpus."""

    backbone: str
    corpora: Annotated[list[Corpus], Field(min_length=1)]


def rows(plan: "Context", name: str, block: Block) -> dict[str, Any]:
    """How Table 1's runs of one backbone are trained, from their own configurations."""
    scale, table1 = plan.scale, plan.scale.tables["table1"]
    backbone = block.backbone
    seed = scale.training.seeds[0]

    def run_of(corpus: str, key: str) -> dict[str, Any]:
        job, method = plan.pretrain(Run(corpus, backbone, key, seed)), plan.params.methods[key]
        protocol, recipe = job.protocol.pretrain, job.recipe
        return {
            **recipe.model_dump(include={*Optimisation.model_fields}),
            "label": method.label,
            "objective": method.objective,
            "ranked": method.ranked,
            "optimizer": protocol.optimizer,
            "lr_schedule": recipe.lr_schedule or protocol.lr_schedule,
        }

    corpora = [
        {"label": scale.label_of(corpus), "runs": [run_of(corpus, key) for key in methods]}
        for corpus, methods in table1.corpora.items()
    ]
    return {"jobs": {}, "backbone": scale.training.backbones[backbone].label, "corpora": corpora}


def make(job: ArtefactJob, manifests: Mapping[str, Path], out: Path) -> None:
    """Write the artefact's csv, HTML, Markdown and LaTeX into ``out``. Nothing is ``manifests``: the job holds all values."""
    name, labels = job.artefact, [corpus["label"] for corpus in job.more["corpora"]]
    ranked = [[run for run in corpus["runs"] if run["ranked"]] for corpus in job.more["corpora"]]
    numbered = f"Table {name.removeprefix('table')}. Hyperparameters"
    table = Table(
        title=f"{job.title or numbered}, {job.more['backbone']}",
        caption=(f"Used to train models with {job.more['backbone']}, scale {job.scale_label}.",),
        labels=("config", *labels),
        columns=(),
        rows=tuple(Row(line, ()) for line in settings(ranked)),
        footnotes=tuple(notes([corpus["runs"] for corpus in job.more["corpora"]])),
    )
    columns = ("config", *labels, "scale")
    lines = [dict(zip(columns, (*row.labels, job.scale), strict=True)) for row in table.rows]
    write_csv(out / f"{name}.csv", lines, columns)
    write_pages([table], out, name)


def _text(run: Mapping[str, Any], key: str, shown: Callable[[Any], str]) -> str:
    value = run[key]
    return NOTHING if value is None else shown(value)


def _usual(texts: Sequence[str]) -> str:
    """The most common value, the first of equals; ``NOTHING`` without runs."""
    return Counter(texts).most_common(1)[0][0] if texts else NOTHING


def settings(corpora: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[str, ...]]:
    """(label, value for each corpus, …) from the ranked runs of each corpus, without empty rows."""
    lines = []
    for name, key, shown in ROWS:
        texts_by_corpus = [[_text(run, key, shown) for run in runs] for runs in corpora]
        common = [_usual(texts) for texts in texts_by_corpus]
        others: dict[str, list[str]] = {}  # who differs → value by corpus
        for number, (runs, texts) in enumerate(zip(corpora, texts_by_corpus, strict=True)):
            for text in dict.fromkeys(value for value in texts if value != common[number]):
                who = _who([run for run, value in zip(runs, texts, strict=True) if value == text])
                others.setdefault(who, [NOTHING] * len(corpora))[number] = text
        if set(common) != {NOTHING}:
            lines.append((name, *common))
        lines += [(f"{name} (for {who} only)", *values) for who, values in others.items()]
    return lines


def _who(runs: Sequence[Mapping[str, Any]]) -> str:
    """The names of the methods that differ: a single one by its objective's short name, if it has one."""
    return (
        _SHORT.get(runs[0]["objective"], runs[0]["label"])
        if len(runs) == 1
        else ", ".join(run["label"] for run in runs)
    )


def notes(corpora: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The differences of each method that is not ranked to the ranked ones of its corpus."""
    lines: dict[str, None] = {}
    for runs in corpora:
        for run in (run for run in runs if not run["ranked"]):
            differs = [
                f"{name} {text}"
                for name, key, shown in ROWS
                if (text := _text(run, key, shown))
                != _usual([_text(other, key, shown) for other in runs if other["ranked"]])
            ]
            lines[f"{run['label']}: {', '.join(differs) or 'the same'}."] = None
    return list(lines)
