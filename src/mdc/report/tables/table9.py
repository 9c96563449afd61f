"""Table 9: the licences of all datasets, as the registry says them, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.sizes import size
from mdc.plan.jobs.shown import LicencesJob
from mdc.report.csv_file import names, write_csv
from mdc.report.tables.render import write_html, write_latex, write_markdown
from mdc.report.tables.table import Row, Table

SHOWN = {
    "artefacts": {"table9": {"title": "Table 9: licences"}},
    "files": ".csv _long.csv .html .md .tex",
    "caption": "The licences of datasets at scale {scale}, as the paper's Table 9 prints them and as each dataset's own page "
    "has them.",
    "config": "tables.LicenceTable",
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


_SHORT = ("dataset", "license", "in_paper", "scale")
_LONG = (
    *names("name label used_for licence its_own_page citation reference source from items bytes"),
    *names("in_paper paper_label paper_licence equal note scale"),
)


def make(job: LicencesJob, given: Mapping[str, Path], out: Path) -> None:
    """Write the table's files into ``out``. Nothing is ``given``: the job holds the registry's entries."""
    entries = ordered(entry.model_dump(mode="json") for entry in job.entries)
    for name, line, columns in (("table9", _short, _SHORT), ("table9_long", _long, _LONG)):
        write_csv(out / f"{name}.csv", [{**line(entry), "scale": job.scale} for entry in entries], columns)
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
        "in_paper": bool(entry["paper_label"]),
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
        "items": sum(count for _, count in entry["items"]) or None,
        "bytes": entry["size_bytes"],
        "in_paper": bool(entry["paper_label"]),
        "paper_label": entry["paper_label"],
        "paper_licence": printed,
        "equal": None if printed is None else printed == entry["licence"],
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
            f"* not in the paper's table. Scale {scale_label}."
            if entries
            else f"Scale {scale_label} uses no dataset of the registry.",
        ),
        labels=("No.", "Dataset", "License", "Used for", "Items", "Size"),
        columns=(),
        rows=tuple(rows),
        footnotes=tuple(notes),
    )
