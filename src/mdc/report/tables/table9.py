"""Table 9: the licences of all datasets from the registry, beside those printed in the paper."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdc.data.formats.sizes import size
from mdc.plan.config.types import Parameters, Strict
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.registry.datasets import REGISTRY
from mdc.report.csv_file import names, write_csv
from mdc.report.tables.table import Row, Table

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context

SHOWN = {
    "artefacts": {"table9": {"title": "Table 9: licences"}},
    "files": ".csv _long.csv .html .md .tex",
    "caption": "The licences of datasets at scale {scale}, as the paper's Table 9 prints them and as each dataset's own page "
    "has them.",
    "config": "Block",
    "values": "Values",
}

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
#: column of table9_long.csv → what a dataset is used for, as the registry says it
_USES = {
    f"for_{use.split()[0]}": use
    for use in ("pretraining", "probe", "captioning", "compositionality", "codes of images")
}
_LONG = (
    *names("name label license its_own_page citation reference source from items bytes"),
    *names("in_paper paper_label paper_license equal note"),
    *(*_USES, "scale"),
)


class Block(Parameters):
    """Table 9: the licences of the datasets that the scale uses, or of ``all`` that the registry knows."""

    all: bool = False


class Licence(Strict):
    """What the table shows of an entry of the registry. ``items``: counts by split."""

    name: str
    label: str
    used_for: list[str]
    licence: str
    licence_note: str
    citation: str
    reference: str
    url: str
    origin: str
    items: list[tuple[str, int]]
    size_bytes: int | None
    paper_label: str | None
    note: str


class Values(Strict):
    """``entries``: those of the registry, in its order."""

    entries: list[Licence]


def rows(plan: "Context", name: str, block: Block) -> dict[str, Any]:
    """See :class:`Values`."""
    data = plan.scale.data
    sources = [entry.source for group in (data.corpora, data.probes, data.choices) for entry in group.values()]
    # sources that render, or that read a dataset by themselves, are named by their kind
    used = {*data.datasets, *(getattr(s, key, None) for s in sources for key in ("kind", "dataset", "images_from"))}
    entries = [asdict(entry) for entry in REGISTRY.values() if block.all or entry.name in used]
    return {"jobs": {}, "entries": [{key: _plain(entry[key]) for key in Licence.model_fields} for entry in entries]}


def _plain(value: Any) -> Any:
    """``value`` for JSON; a mapping becomes its pairs, whose order sorted keys would lose."""
    if isinstance(value, Mapping):
        return [list(item) for item in value.items()]
    return list(value) if isinstance(value, tuple) else value


def make(job: ArtefactJob, manifests: Mapping[str, Path], out: Path) -> None:
    """Write the table's files into ``out``. Nothing is ``manifests``: the job holds the registry's entries."""
    from mdc.report.tables.render import write_pages

    # the paper's rows in the paper's order, then the others in the registry's
    places = {label: place for place, label in enumerate(PAPER)}
    entries = sorted(job.more["entries"], key=lambda entry: places.get(entry["paper_label"], len(places)))
    short = [
        {
            "dataset": entry["paper_label"] or entry["label"],
            "license": entry["licence"],
            "in_paper": bool(entry["paper_label"]),
            "scale": job.scale,
        }
        for entry in entries
    ]
    write_csv(out / "table9.csv", short, names("dataset license in_paper scale"))
    write_csv(out / "table9_long.csv", [{**_long(entry), "scale": job.scale} for entry in entries], _LONG)
    write_pages([_table(entries, job.scale_label)], out, "table9")


def _long(entry: Mapping[str, Any]) -> dict[str, Any]:
    printed = PAPER.get(entry["paper_label"])
    return {
        **entry,
        **{column: use in entry["used_for"] for column, use in _USES.items()},
        "license": entry["licence"],
        "its_own_page": entry["licence_note"],
        "source": entry["url"],
        "from": entry["origin"],
        "items": sum(count for _, count in entry["items"]) or None,
        "bytes": entry["size_bytes"],
        "in_paper": bool(entry["paper_label"]),
        "paper_license": printed,
        "equal": None if printed is None else printed == entry["licence"],
    }


def _table(entries: Sequence[Mapping[str, Any]], scale_label: str) -> Table:
    """One row for each dataset, with a numbered note of its own page's licence."""
    lines, notes = [], []
    for number, entry in enumerate(entries, 1):
        name, others = entry["paper_label"] or entry["label"], "" if entry["paper_label"] else " *"
        count = f"{sum(count for _, count in entry['items']):,}" if entry["items"] else ""
        cells = f"{name}{others} ({entry['citation']})", entry["licence"], ", ".join(entry["used_for"]), count
        lines.append(Row((f"{number}", *cells, size(entry["size_bytes"])), (), block=others))
        notes.append(f"{number} {name}: {entry['licence_note']}")
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
        rows=tuple(lines),
        footnotes=tuple(notes),
    )
