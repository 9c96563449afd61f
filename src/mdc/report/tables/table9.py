"""Table 9: the licences of all datasets, as the registry says them, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.sizes import size
from mdc.plan.jobs.shown import LicencesJob
from mdc.plan.records import write_text
from mdc.report.frame import csv_text
from mdc.report.tables.render import write_html, write_latex, write_markdown
from mdc.report.tables.table import Row, Table

SHOWN = {
    "artefacts": {"table9": {"title": "Table 9: licences"}},
    "files": ".csv _long.csv .html .md .tex",
    "caption": "The licence of every dataset, as the paper's Table 9 prints it and as the dataset's own page has it. The same at "
    "every scale.",
    "config": "tables.Plain",
    "plan": "artefact_plans.licences",
    "job": "shown.LicencesJob",
}

#: what the registry says of a dataset, as JSON
Entry = Mapping[str, Any]

_RESEARCH, _GOOGLE = "Custom (Non-commercial, research only)", "Custom (Use with attribution to Google LLC)"
#: Table 9 of "Masked Diffusion Captioning for Visual Feature Learning", typed in; it prints "SugarCreep"
PAPER: dict[str, str] = {
    "ImageNet-1k": _RESEARCH,
    "STL-10": "BSD License",
    "Food101": "MIT License",
    "VOC2007": "CC BY 4.0",
    "CIFAR-10": "MIT License",
    "CIFAR-100": "MIT License",
    "Flowers": "CC BY 4.0",
    "Pets": "CC BY 4.0",
    "MSCOCO": "CC BY 4.0",
    "Flickr30k": "Custom (Academic use only)",
    "ARO": "MIT License",
    "SugarCrepe": "MIT License",
    "CC3M": _GOOGLE,
    "CC12M": _GOOGLE,
    "Recap-DataComp-10M": "CC BY 4.0",
}


def make(job: LicencesJob, given: Mapping[str, Path], out: Path) -> None:
    """Write the table's files into ``out``. Nothing is ``given``: the job holds the registry's entries."""
    entries = ordered(entry.model_dump(mode="json") for entry in job.entries)
    for name, lines in (("table9", map(_short, entries)), ("table9_long", map(_long, entries))):
        shown = [{**line, "scale": job.scale} for line in lines]
        write_text(out / f"{name}.csv", csv_text(shown, tuple(shown[0])))
    table = _table(entries, job.scale_label)
    write_html([table], out / "table9.html")
    write_markdown([table], out / "table9.md")
    write_latex(table, out / "table9.tex")


def ordered(entries: Iterable[Entry]) -> list[Entry]:
    """The paper's rows in the paper's order, then the others in the registry's."""
    order = list(PAPER)
    return sorted(entries, key=lambda e: order.index(e["paper_label"]) if e["paper_label"] in PAPER else len(order))


def _shown(entry: Entry) -> str:
    """The paper's name in a row of the paper, else our own."""
    return str(entry["paper_label"] or entry["label"])


def _short(entry: Entry) -> dict[str, Any]:
    return {
        "dataset": _shown(entry),
        "license": entry["licence"],
        "in_paper": "yes" if entry["paper_label"] else "no",
    }


def _long(entry: Entry) -> dict[str, Any]:
    printed = PAPER.get(entry["paper_label"] or "")
    return {
        "name": entry["name"],
        "label": entry["label"],
        "used_for": "; ".join(entry["used_for"]),
        "licence": entry["licence"],
        "its_own_page": entry["licence_note"],
        "citation": entry["citation"],
        "reference": entry["reference"],
        "source": entry["url"],
        "from": entry["origin"],
        "items": "; ".join(f"{split} {count:,}" for split, count in entry["items"]),
        "bytes": entry["size_bytes"],
        "in_paper": "yes" if entry["paper_label"] else "no",
        "paper_label": entry["paper_label"],
        "paper_licence": printed,
        "equal": None if printed is None else ("yes" if printed == entry["licence"] else "no"),
        "note": entry["note"],
    }


def _table(entries: list[Entry], scale_label: str) -> Table:
    """One row a dataset; what its own page says stands below, by number."""
    rows, notes = [], []
    for number, entry in enumerate(entries, 1):
        block = "paper" if entry["paper_label"] else "others"
        name = _shown(entry) if entry["paper_label"] else f"{_shown(entry)} *"
        count = f"{sum(count for _, count in entry['items']):,}" if entry["items"] else ""
        labels = (f"{number}", f"{name} ({entry['citation']})", entry["licence"], ", ".join(entry["used_for"]), count)
        rows.append(Row((*labels, size(entry["size_bytes"])), (), block=block))
        notes.append(f"{number} {_shown(entry)}: {entry['licence_note']}")
    return Table(
        title="Table 9. Licences of the datasets",
        caption=(
            "Licences as the paper prints them; what each dataset's own page or archive says stands below and is what holds.",
            f"* used by this project, not in the paper's table. The same at every scale; made at scale {scale_label}.",
        ),
        labels=("No.", "Dataset", "License", "Used for", "Items", "Size"),
        columns=(),
        rows=tuple(rows),
        footnotes=tuple(notes),
    )
