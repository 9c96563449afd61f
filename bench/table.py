"""The one table of speed, of all rows that the benches have kept: results/bench/bench.csv, .html and .png.

python bench/table.py
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rows
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined
from rows import Row

from mdc.plan.records import UserError, write_text
from mdc.report.csv_file import csv_text
from mdc.report.figures.drawing import drawing, headline
from mdc.report.figures.styles import PALETTE

TITLE = "Speed, held against peers that ran beside it"
#: bench → what it is about, in the order of the table; benches about one thing stand together
AREAS = {
    "step": "Training",
    "clip_step": "Training",
    "diffuse": "Mask-and-replace diffusion",
    "resilience": "Surviving a kill",
    "reading": "Reading shards",
    "loader": "Reading shards",
    "start": "Reading shards",
    "download": "Downloading",
    "plan": "Downloading",
    "million": "Downloading",
    "shards": "Writing shards",
    "probe": "Probing",
    "score": "Scoring",
    "zero_shot": "Scoring",
    "score_variance": "Scoring",
    "caption": "Writing captions",
    "pipeline": "The whole pipeline",
}
COLUMNS = (
    *(
        "area",
        "what",
        "unit",
        "ours",
        "peer",
        "theirs",
        "ratio",
        "low",
        "high",
        "repeats",
        "machine",
        "setting",
        "missing",
    ),
    *("load", "measured", "command", "versions"),
)
Kept = tuple[str, Row]  # the area, and one of its rows


def read(folder: Path) -> list[Kept]:
    """All rows, by area, and within it as the benches wrote them; UserError if there are none."""
    kept_rows: dict[str, list[Row]] = {}
    for path in sorted((folder / "rows").glob("*.json")):
        if path.stem not in AREAS:
            raise UserError(f"{path}: no bench is called so; allowed: {', '.join(AREAS)}")
        kept_rows[path.stem] = rows.read(path)
    if not any(kept_rows.values()):
        raise UserError(f"{folder / 'rows'}: no rows; `make bench` measures them")
    order = list(dict.fromkeys(AREAS.values()))
    kept = [(area, row) for bench, area in AREAS.items() for row in kept_rows.get(bench, [])]
    return sorted(kept, key=lambda one: order.index(one[0]))


def number(value: float | None) -> str:
    """Three digits, and no exponent: 0.123, 12.3, 1,230."""
    if value is None:
        return ""
    rounded = float(f"{value:.3g}")
    digits = 0 if rounded >= 100 else 1 if rounded >= 10 else 2 if rounded >= 1 else 2 - math.floor(math.log10(rounded))
    return f"{rounded:,.{digits}f}"


def write_csv(kept: Sequence[Kept], path: Path) -> None:
    """Everything that a row says, unrounded."""
    lines = []
    for area, row in kept:
        values = row.model_dump() | {
            "area": area,
            "versions": "; ".join(f"{name} {version}" for name, version in sorted(row.versions.items())),
        }
        lines.append({name: "" if values[name] is None else str(values[name]) for name in COLUMNS})
    write_text(path, csv_text(lines, list(COLUMNS)))


def write_html(kept: Sequence[Kept], path: Path) -> None:
    """One page in the style of the project's tables."""
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(Path(__file__).parent), PackageLoader("mdc.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = number
    commands = dict.fromkeys(row.command for _, row in kept)
    versions = dict.fromkeys(tuple(sorted(row.versions.items())) for _, row in kept)
    machines = {
        name: max(row.load for _, row in kept if row.machine == name) for name in sorted({r.machine for _, r in kept})
    }
    page = environment.get_template("table.html.j2").render(
        title=TITLE, kept=kept, commands=commands, versions=versions, machines=machines
    )
    write_text(path, page)


def write_png(kept: Sequence[Kept], path: Path) -> bool:
    """A line for each comparison, the greatest ratio above; nothing, and False, if nothing was compared."""
    compared = sorted((row for _, row in kept if row.ratio is not None), key=lambda row: row.ratio or 0.0)
    if not compared:
        return False
    machines = list(dict.fromkeys(row.machine for row in compared))
    with drawing(11.5, 0.44 * len(compared) + 1.5, [path]) as figure:
        panel = figure.subplots()
        panel.set_xscale("log")
        panel.axvline(1, color="#333333", linewidth=1.2)
        for place, row in enumerate(compared):
            colour, marker = PALETTE[machines.index(row.machine) % len(PALETTE)]
            assert row.low is not None and row.high is not None and row.ratio is not None
            panel.plot([row.low, row.high], [place, place], color=colour, linewidth=1.6, solid_capstyle="butt")
            panel.plot([row.ratio], [place], color=colour, marker=marker, markersize=5.5, linestyle="none")
        panel.set_yticks(range(len(compared)), [f"{_cut(row.what)}\nagainst {row.peer}" for row in compared])
        panel.tick_params(axis="y", length=0, labelsize=8)
        panel.grid(axis="y", visible=False)
        panel.set_ylim(-0.6, len(compared) - 0.4)
        least = min(min(row.low or 1 for row in compared), 1)
        greatest = max(max(row.high or 1 for row in compared), 1)
        panel.set_xlim(least / 1.15, greatest * 1.15)
        _ticks(panel, least, greatest)
        panel.set_xlabel(
            "times as good as the peer (right of 1: ours is better); the bar: least and greatest of the rounds"
        )
        numbers = panel.secondary_yaxis("right")
        numbers.set_yticks(range(len(compared)), [f"{number(row.ratio)} ×" for row in compared])
        numbers.tick_params(length=0, labelsize=8)
        numbers.spines["right"].set_visible(False)
        _legend(figure, panel, machines, list(PALETTE))
        lacking = sum(bool(row.missing) for _, row in kept)
        note = f"{lacking} more could not be measured; bench.html says why" if lacking else ""
        headline(figure, TITLE, note)
    return True


def _cut(text: str, limit: int = 78) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _ticks(panel: Any, least: float, greatest: float) -> None:
    """Plain numbers, few enough to be read."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    steps = (1, 2, 5) if greatest / least < 1e4 else (1,)
    marks = [step * 10.0**power for power in range(-4, 7) for step in steps]
    panel.xaxis.set_major_locator(FixedLocator([mark for mark in marks if least / 1.15 <= mark <= greatest * 1.15]))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def _legend(figure: Any, panel: Any, machines: Sequence[str], styles: Sequence[tuple[str, str]]) -> None:
    from mdc.report.figures.drawing import line_handle

    handles = [line_handle(styles[place % len(styles)], name, "-") for place, name in enumerate(machines)]
    figure.legend(handles=handles, loc="outside lower left", ncols=2)


def write(folder: Path) -> None:
    """All three files, and the table on the screen."""
    kept = read(folder)
    write_csv(kept, folder / "bench.csv")
    drawn = write_png(kept, folder / "bench.png")
    write_html(kept, folder / "bench.html")
    above = ""
    for area, row in kept:
        if area != above:
            print(f"\n{area}")
        print(f"  {rows.line(row)}")
        above = area
    print(f"\n{folder / 'bench.csv'}, bench.html{', bench.png' if drawn else ''}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=rows.FOLDER, help="default: results/bench")
    try:
        write(parser.parse_args().results)
    except UserError as error:
        raise SystemExit(f"bench/table.py: {error}") from None


if __name__ == "__main__":
    main()
