"""Tables 6 to 8: how the models of each backbone were trained, read from the resolved configurations of the runs.

One column a corpus. A row holds what the ranked methods have in common; where some differ, as ARC with ViT-L/14 on CC12M
clips its gradients (paper, Table 8), they have a row of their own. Methods that are shown but not ranked (CLIP-LB) stand
in a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.records import write_text
from mdc.report.tables.layout import Row, Table, csv_text, write_html, write_latex, write_markdown

Run = Mapping[str, Any]  # label, objective, ranked, training: the run's own values
ENDINGS = ("csv", "html", "md", "tex")
_SHORT = {"autoregressive": "AR", "contrastive": "CLIP", "masked": "MDC"}  # as the paper's Table 8 calls the first
NOTHING = "-"


def scientific(value: float) -> str:
    """5e-4, as the paper writes a learning rate."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _plain(value: float) -> str:
    return f"{value:g}"


#: the paper's rows in its order: what each is called, the run's value, how it is written
ROWS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("optimizer", "optimizer", str),
    ("base lr", "lr", scientific),
    ("warmup steps", "warmup_steps", "{:,}".format),
    ("weight decay", "weight_decay", _plain),
    ("β_1", "beta1", _plain),
    ("β_2", "beta2", _plain),
    ("batch size", "batch_size", str),
    ("lr schedule", "lr_schedule", str.capitalize),
    ("epochs", "epochs", str),
    ("grad norm", "clip_norm", str),
)


def rows(corpora: Sequence[Sequence[Run]]) -> list[tuple[str, ...]]:
    """(what, its value in each corpus, …) from the ranked runs of each corpus. A row of nothing is left out."""
    found = []
    for name, key, shown in ROWS:
        common: list[str] = []
        others: dict[str, list[str]] = {}  # who differs → value by corpus
        for number, runs in enumerate(corpora):
            values = [run["training"][key] for run in runs]
            usual = max(values, key=values.count)
            common.append(_text(usual, shown))
            for value in dict.fromkeys(values):
                if value != usual:
                    who = _who([run for run in runs if run["training"][key] == value])
                    others.setdefault(who, [NOTHING] * len(corpora))[number] = _text(value, shown)
        if set(common) != {NOTHING}:
            found.append((name, *common))
        found += [(f"{name} (for {who} only)", *values) for who, values in others.items()]
    return found


def _text(value: Any, shown: Callable[[Any], str]) -> str:
    return NOTHING if value is None else shown(value)


def _who(runs: Sequence[Run]) -> str:
    """Who differs: all of one objective by its short name, otherwise the methods by theirs."""
    objectives = {run["objective"] for run in runs}
    return _SHORT[objectives.pop()] if len(objectives) == 1 and len(runs) == 1 else ", ".join(r["label"] for r in runs)


def notes(corpora: Sequence[Sequence[Run]]) -> list[str]:
    """How each method that is not ranked differs from what its corpus's others have in common."""
    told: dict[str, None] = {}
    for runs in corpora:
        ranked = [run for run in runs if run["ranked"]]
        for run in runs:
            if run["ranked"]:
                continue
            differs = []
            for name, key, shown in ROWS:
                values = [other["training"][key] for other in ranked]
                if run["training"][key] != max(values, key=values.count):
                    differs.append(f"{name} {_text(run['training'][key], shown)}")
            told[f"{run['label']}: {', '.join(differs) or 'the same'}."] = None
    return list(told)


def build(spec: Mapping[str, Any], out: Path, scale_label: str) -> list[Path]:
    """Write one table (``spec``: key, backbone, corpora [{label, runs}]) into ``out``; the files that were written."""
    labels = [corpus["label"] for corpus in spec["corpora"]]
    ranked = [[run for run in corpus["runs"] if run["ranked"]] for corpus in spec["corpora"]]
    body = rows(ranked)
    number = spec["key"].removeprefix("table")
    table = Table(
        title=f"Table {number}. Hyperparameters, {spec['backbone']}",
        caption=(f"Used to train models with {spec['backbone']}, scale {scale_label}.",),
        labels=("config", *labels),
        columns=(),
        rows=tuple(Row(line, ()) for line in body),
        footnotes=tuple(notes([corpus["runs"] for corpus in spec["corpora"]])),
    )
    files = [out / f"{spec['key']}.{ending}" for ending in ENDINGS]
    columns = ("config", *labels)
    write_text(files[0], csv_text([dict(zip(columns, line, strict=True)) for line in body], columns))
    write_html([table], files[1])
    write_markdown([table], files[2])
    write_latex(table, files[3])
    return files
