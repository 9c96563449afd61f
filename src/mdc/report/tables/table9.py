"""Table 9: the licences of all datasets, generated from the registry, beside what the paper prints."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mdc.records import write_text
from mdc.registry.entry import RegistryEntry, size
from mdc.report.tables.layout import Row, Table, csv_text, write_html, write_latex, write_markdown

FILES = ("table9.csv", "table9_long.csv", "table9.html", "table9.md", "table9.tex")

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


def ordered(entries: Iterable[RegistryEntry]) -> list[RegistryEntry]:
    """The paper's rows in the paper's order, then the others in the registry's."""
    order = list(PAPER)
    return sorted(entries, key=lambda e: order.index(e.paper_label) if e.paper_label in PAPER else len(order))


def build(entries: Iterable[RegistryEntry], out: Path, scale_label: str) -> None:
    """Write all of ``FILES`` into ``out``."""
    rows = ordered(entries)
    write_text(out / "table9.csv", csv_text(_short(rows), ("dataset", "license", "in_paper")))
    long = [_long(entry) for entry in rows]
    write_text(out / "table9_long.csv", csv_text(long, tuple(long[0])))
    table = _table(rows, scale_label)
    write_html([table], out / "table9.html")
    write_markdown([table], out / "table9.md")
    write_latex(table, out / "table9.tex")


def _shown(entry: RegistryEntry) -> str:
    """The paper's name in a row of the paper, else our own."""
    return entry.paper_label or entry.label


def _short(entries: list[RegistryEntry]) -> list[dict[str, str]]:
    return [{"dataset": _shown(e), "license": e.licence, "in_paper": "yes" if e.paper_label else "no"} for e in entries]


def _long(entry: RegistryEntry) -> dict[str, str | int]:
    printed = PAPER.get(entry.paper_label or "")
    return {
        "name": entry.name,
        "label": entry.label,
        "used_for": "; ".join(entry.used_for),
        "licence": entry.licence,
        "its_own_page": entry.licence_note,
        "citation": entry.citation,
        "reference": entry.reference,
        "source": entry.url,
        "from": entry.origin,
        "items": items(entry),
        "bytes": "" if entry.size_bytes is None else entry.size_bytes,
        "in_paper": "yes" if entry.paper_label else "no",
        "paper_label": entry.paper_label or "",
        "paper_licence": printed or "",
        "equal": "" if printed is None else ("yes" if printed == entry.licence else "no"),
        "note": entry.note,
    }


def items(entry: RegistryEntry) -> str:
    """``train 5,000; test 8,000``."""
    return "; ".join(f"{split} {count:,}" for split, count in entry.items.items())


def _table(entries: list[RegistryEntry], scale_label: str) -> Table:
    """One row a dataset; what its own page says stands below, by number."""
    rows, notes = [], []
    for number, entry in enumerate(entries, 1):
        block = "paper" if entry.paper_label else "others"
        name = _shown(entry) if entry.paper_label else f"{_shown(entry)} *"
        count = f"{sum(entry.items.values()):,}" if entry.items else ""
        labels = (f"{number}", f"{name} ({entry.citation})", entry.licence, ", ".join(entry.used_for), count)
        rows.append(Row((*labels, size(entry.size_bytes)), (), block=block))
        notes.append(f"{number} {_shown(entry)}: {entry.licence_note}")
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
