"""Tables of whole systems for Table 3 and similar tables: the variety of captions, and the model."""

from collections.abc import Iterator

from mdc.plan.jobs.shown import System
from mdc.report.caption_numbers import Captioned
from mdc.report.frame import dataset, job_cells
from mdc.report.tables.table import REFERENCE, Cell, Column, Row, Table

#: numbers of a whole set of captions, without interval: key in the records → label, factor, decimals
SETS = {
    "vocabulary": ("different words", 1, 0),
    "distinct_1": ("distinct-1", 100, 1),
    "distinct_2": ("distinct-2", 100, 1),
    "self_bleu": ("self-BLEU", 100, 1),
}


def label_of(system: System) -> str:
    """A system's name without its length, which has a column of its own."""
    return system.method.label.removesuffix(f" · {system.more['length']}")


def set_lines(results: Captioned) -> Iterator[dict[str, object]]:
    """A line of the csv file for each system and seed; one without a seed, if one record is of all seeds."""
    for system in results.job.systems:
        one = len(set(system.records)) == 1 < len(results.job.seeds)
        lines = list(zip(results.job.seeds, system.records, results.entries(system), strict=True))
        for seed, record, entry in [(None, *lines[0][1:])] if one else lines:
            line: dict[str, object] = {**job_cells(results.job), "dataset": dataset(system)}
            line |= {"system": system.key, "method": system.method.label, "seed": seed, "record": record}
            yield line | {key: entry[key] * factor if key in entry else None for key, (_, factor, _) in SETS.items()}


def models(results: Captioned) -> Table:
    """The model of each system: its size, training steps, and loss on held-out pairs."""
    systems = [(system, results.first(system)) for system in results.job.systems if system.role != "control"]
    known = [(system, entry) for system, entry in systems if entry.get("parameters") is not None]
    most = max((entry["parameters"]["trained"] for _, entry in known), default=0)
    unit, size = ("million", 1e6) if most >= 1e7 else ("thousand", 1e3)
    rows = []
    for system, entry in known:
        trained, frozen = entry["parameters"]["trained"], entry["parameters"]["frozen"]
        loss, length = entry["held_out"]["loss"], entry["held_out"]["length"]
        cells = (
            Cell(trained / size),
            Cell((trained + frozen) / size),
            Cell(entry["weights_step"], decimals=0),
            Cell(loss, decimals=2),
            Cell(loss * length if loss is not None and length is not None else None),
        )
        rows.append(Row((dataset(system), label_of(system), system.more["length"]), cells, system.backbone.label))
    return Table(
        title=f"Models, {results.scale_text}",
        caption=("Of the first seed.",),
        labels=("Dataset", "Method", "Length"),
        columns=(
            Column("trained", "Parameters", unit),
            Column("all", "Parameters", unit),
            Column("steps", "", ""),
            Column("held-out loss", "", "nats per token"),
            Column("bound", "", "nats per caption"),
        ),
        rows=tuple(rows),
        footnotes=(
            "All: with those of a frozen encoder. Steps: after which the weights were kept. Held-out losses of different methods "
            "are losses of different things. Bound: on −log p of a caption, of diffusion, which writes on a fixed-length canvas.",
        ),
    )


def variety(results: Captioned) -> Table:
    """Variety of whole sets of captions, means over seeds."""
    rows = []
    for system in sorted(results.job.systems, key=lambda system: system.role in REFERENCE):
        cells = []
        for key, (_, factor, decimals) in SETS.items():
            values = [entry[key] * factor for entry in results.entries(system) if key in entry]
            cells.append(Cell(sum(values) / len(values) if values else None, decimals=decimals))
        labels = (dataset(system), label_of(system), system.more["length"])
        rows.append(
            Row(
                labels,
                tuple(cells),
                "baselines" if system.role in REFERENCE else "",
                reference=system.role in REFERENCE,
            )
        )
    return Table(
        title=f"Variety of captions, {results.scale_text}",
        caption=("Of all captions of a system together; the mean over seeds.",),
        labels=("Dataset", "Method", "Length"),
        columns=tuple(Column(label) for label, _, _ in SETS.values()),
        rows=tuple(rows),
        footnotes=(
            "Distinct-n: different n-grams per 100. Self-BLEU × 100: BLEU-4 of each caption with all others as its references; "
            "100 if all are alike.",
        ),
    )
