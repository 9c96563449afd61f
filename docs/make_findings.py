"""docs/findings/: what was found, from the claims of results that were run, without a number typed by hand.

``make findings`` collects the claims of all tables and figures that lie in ``results/`` into ``evidence/SCALE.csv``, with the
sha256 of each table's record and the commit. Then it writes the overview, and the generated part and the picture of each page,
from ``questions.yaml`` and these csv files alone. Evidence of more seeds is never replaced by evidence of fewer.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, sha256_file, write_text
from mdc.report.claimed import claimed
from mdc.report.csv_file import write_csv
from mdc.report.figures.drawing import drawing, error_bars, rows_axis
from mdc.report.frame import CLAIMS, read_claims
from mdc.report.tables.render import escape_markdown

FINDINGS = Path(__file__).parent / "findings"
BEGIN, END = "<!-- made by `make findings` -->", "<!-- end of what is made -->"
COLUMNS = (*(column for column in CLAIMS if column != "records"), "record", "commit")
LOOKS = {"methods": ("#0072B2", "o"), "splits": ("#0072B2", "s"), "checkpoints": ("#9AA3AB", "o")}
Row = Mapping[str, str]


@dataclass(frozen=True)
class Shown:
    """One claim of a text and the verdicts that bear on it. ``untested``: why nothing does; ``missing``: what was not run."""

    says: str
    source: str
    untested: str
    rows: Sequence[Row]
    missing: Sequence[str]


def collect(results: Path, evidence: Path, commit: str) -> list[str]:
    """Bring the claims of ``results`` into ``evidence``; says of each table what was done with it."""
    told = []
    for scale in sorted(path for path in results.iterdir() if path.is_dir()) if results.is_dir() else ():
        kept: dict[str, Sequence[Row]] = {
            name: list(rows)
            for name, rows in groupby(_read(evidence / f"{scale.name}.csv"), lambda row: row["artefact"])
        }
        for name, rows in _made(scale, commit):
            fewer = name in kept and _seeds(rows) < _seeds(kept[name])
            told.append(f"{scale.name}/{name}: {'kept, for it has more seeds' if fewer else f'{len(rows)} claims'}")
            kept[name] = kept[name] if fewer else rows
        if kept:
            write_csv(evidence / f"{scale.name}.csv", [row for name in sorted(kept) for row in kept[name]], COLUMNS)
    return told


def _made(scale: Path, commit: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Each table and figure of a scale's folder that claims something, with its claims."""
    folder = ScaleFolder(scale)
    for path in sorted(one for one in scale.iterdir() if one.is_dir()):
        record = folder.record(path.name, "make")
        if record.is_file() and (rows := read_claims(path, sorted(read_json(record)["outputs"]))):
            yield path.name, [{**row, "record": sha256_file(record), "commit": commit} for row in rows]


def _seeds(rows: Sequence[Row]) -> int:
    return min(int(row["seeds"] or 0) for row in rows)


def _read(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pages(source: Path, out: Path) -> list[Path]:
    """Write the overview, the pages and their pictures into ``out``, from the questions and the evidence in ``source``, in which
    also lies what is written by hand; returns the files.

    UserError for a page without its two marks.
    """
    evidence = {path.stem: _read(path) for path in sorted((source / "evidence").glob("*.csv"))}
    asked = yaml.safe_load((source / "questions.yaml").read_text(encoding="utf-8"))
    written, overview = [], []
    for page, told in asked.items():
        shown = [_shown(one, evidence) for one in told["claims"]]
        rows = [row for one in shown for row in one.rows]
        if rows:
            written.append(out / f"{page}.png")
            draw(rows, written[-1])
        text = _between(source / f"{page}.md", _part(page, shown, rows))
        written.append(out / f"{page}.md")
        write_text(written[-1], text)
        overview += [line for one in shown for line in _overview(one, page, told["question"])]
    head = "| a text says | we find | direction | scope, seeds | scale | page |\n|---|---|---|---|---|---|\n"
    written.append(out / "README.md")
    write_text(written[-1], _between(source / "README.md", head + "".join(overview)))
    return written


def _shown(asked: Mapping[str, Any], evidence: Mapping[str, Sequence[Row]]) -> Shown:
    rows: list[Row] = []
    missing = []
    for one in asked.get("shown", ()):
        found = [row for row in evidence.get(one["scale"], ()) if row["artefact"] == one["artefact"]]
        if not found:
            missing.append(f"`{one['artefact']}` at `{one['scale']}`")
        rows += [row for row in found if all(fnmatch(row[side], one.get(side, "*")) for side in ("first", "second"))]
    return Shown(asked["says"], asked["source"], asked.get("untested", ""), rows, missing)


def _between(page: Path, made: str) -> str:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"{page}: has no lines {BEGIN} and {END}, between which the claims belong")
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


def _part(page: str, shown: Sequence[Shown], rows: Sequence[Row]) -> str:
    """What is made of a page: its scope, the claims of the texts, the picture, the verdicts."""
    parts = []
    if not any(row["scope"] in ("methods", "splits") for row in rows):
        parts.append("**No verdict on this page is about methods:** none rests on three seeds.")
    parts += [f"> {one.says} ({one.source})" for one in shown]
    if rows:
        parts.append(f"![Each claim's difference with its 95 % interval; grey: of scope checkpoints]({page}.png)")
        lines = [
            "| scale | claim | difference | direction | size | scope, seeds | record |",
            "|---|---|---|---|---|---|---|",
        ]
        for row in rows:
            one = claimed(row)
            record = f"[{row['record'][:10]}](evidence/{row['scale']}.csv)"
            told = map(escape_markdown, (one.what, one.found, _direction(row), row["size"] or "–", _scope(row)))
            where = f"`{row['scale']}`, `{row['artefact']}`"
            lines.append(f"| {' | '.join((where, *told, record))} |")
        parts.append("\n".join(lines))
    if missing := [name for one in shown for name in one.missing]:
        parts.append(f"Not run yet with three seeds: {', '.join(dict.fromkeys(missing))}.")
    parts += [f"Not tested: {one.untested}." for one in shown if one.untested]
    return "\n\n".join(parts) + "\n"


def _direction(row: Row) -> str:
    """The verdict; of an inconclusive one also what could have been detected."""
    least = f", detectable {float(row['detectable']):.2g}" if row["detectable"] else ""
    return row["direction"] + least


def _scope(row: Row) -> str:
    return f"{row['scope']}, {row['seeds']}"


def _overview(one: Shown, page: str, question: str) -> Iterator[str]:
    says, link = escape_markdown(f"{one.says} ({one.source})"), f"[{escape_markdown(question)}]({page}.md)"
    for number, row in enumerate(one.rows):
        found = claimed(row)
        told = map(escape_markdown, (f"{found.what}: {found.found}", row["direction"], _scope(row), row["scale"]))
        yield f"| {' | '.join(('' if number else says, *told, link))} |\n"
    if not one.rows:
        why = f"not tested: {one.untested}" if one.untested else "not run yet with three seeds"
        yield f"| {says} | {why} | | | | {link} |\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The differences of ``rows`` with their intervals, a panel for each unit."""
    panels = [
        (unit, list(group))
        for unit, group in groupby(sorted(rows, key=lambda row: row["unit"]), lambda row: row["unit"])
    ]
    with drawing(8.6, 0.55 * len(panels) + 0.32 * len(rows) + 0.3, [path]) as figure:
        ratios = [len(group) + 1 for _, group in panels]
        axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
        for panel, (unit, group) in zip(axes, panels, strict=True):
            rows_axis(panel, [f"{claimed(row).what} · {row['scale']}, {row['seeds']}" for row in group])
            panel.axvline(0, color="#22262A", linewidth=0.8)
            panel.set_xlabel(f"difference, {unit}")
            for place, row in enumerate(group):
                value, low, high = (float(row[key]) if row[key] else float("nan") for key in ("value", "low", "high"))
                error_bars(panel, [place], [(value, low, high)], LOOKS[row["scope"]], across=True)


def _commit(root: Path) -> str:
    """The commit of the working tree, with a + if it was changed since."""
    git = ["git", "-C", str(root)]
    found = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "-uno"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return found + ("+" if changed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--results", type=Path, default=FINDINGS.parent.parent / "results", help="folder of the scales' results"
    )
    args = parser.parse_args()
    for line in collect(args.results, FINDINGS / "evidence", _commit(args.results.resolve().parent)):
        print(line)
    for path in pages(FINDINGS, FINDINGS):
        print(path)


if __name__ == "__main__":
    main()
