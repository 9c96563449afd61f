"""docs/findings/: what was found, from the claims of results that were run, without a number typed by hand.

``make findings`` collects the claims of all tables and figures that lie in ``results/`` into ``evidence/SCALE.csv``, with the
seeds, the sha256 of each table's record and the commit at which it was collected. Then it writes the overview, and the generated
part and the picture of each page, from ``questions.yaml`` and these csv files alone. Evidence of more seeds is never replaced by
evidence of fewer.
"""

import argparse
import csv
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, sha256_file, write_text
from mdc.report.csv_file import write_csv
from mdc.report.figures.drawing import drawing, error_bars, rows_axis
from mdc.report.frame import CLAIMS, read_claims
from mdc.report.tables.render import escape_markdown
from mdc.report.words import Claimed, claimed

FINDINGS = Path(__file__).parent / "findings"
BEGIN, END = "<!-- made by `make findings` -->", "<!-- end of what is made -->"
COLUMNS = (*CLAIMS, "which_seeds", "record", "collected_at")
LOOKS = {
    "methods": ("#0072B2", "o", "blue"),
    "splits": ("#56B4E9", "s", "light blue"),
    "checkpoints": ("#9AA3AB", "o", "grey"),
}
Row = Mapping[str, str]


@dataclass(frozen=True)
class Shown:
    """One claim of a text and the ``rows`` that bear on it, each with a reservation or "". ``holds_if``: the direction or size
    that agrees with the text; ``untested``: why there is none; ``missing``: tables that were not run; ``left_out``: that will
    not be, and why."""

    says: str
    source: str
    holds_if: str
    untested: str
    rows: Sequence[tuple[Row, str]]
    missing: Sequence[str]
    left_out: Sequence[str]


def collect(results: Path, evidence: Path, commit: str) -> list[str]:
    """Bring the claims of ``results`` into ``evidence``; returns what was done with each table.

    UserError for a csv file that is not the one that its table's record names.
    """
    lines = []
    for scale in sorted(path for path in results.glob("*/") if _scale_file(path.name).is_file()):
        kept: dict[str, Sequence[Row]] = {
            name: list(rows)
            for name, rows in groupby(_read(evidence / f"{scale.name}.csv"), lambda row: row["artefact"])
        }
        for name, rows in _made(scale, commit):
            fewer = name in kept and _seeds(rows) < _seeds(kept[name])
            lines.append(f"{scale.name}/{name}: {'kept, for it has more seeds' if fewer else f'{len(rows)} claims'}")
            kept[name] = kept[name] if fewer else rows
        if kept:
            write_csv(evidence / f"{scale.name}.csv", [row for name in sorted(kept) for row in kept[name]], COLUMNS)
    return lines


def _scale_file(name: str) -> Path:
    return FINDINGS.parent.parent / "scales" / f"{name}.yaml"


def _made(scale: Path, commit: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Each table and figure of a scale's folder that claims something, with its claims."""
    folder = ScaleFolder(scale)
    for path in sorted(scale.glob("*/")):
        record = folder.record(path.name, "make")
        if not record.is_file():
            continue
        made = read_json(record)
        if rows := read_claims(path, made["outputs"]):
            seeds = " ".join(map(str, made["config"]["seeds"]))
            of_all = {"which_seeds": seeds, "record": sha256_file(record), "collected_at": commit}
            yield path.name, [{**row, **of_all} for row in rows]


def _seeds(rows: Sequence[Row]) -> int:
    return min((int(row["seeds"]) for row in rows if row["seeds"]), default=0)


def _read(path: Path) -> list[Row]:
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def pages(source: Path, out: Path) -> list[Path]:
    """Write the overview, the pages and their pictures into ``out``, from the questions and the evidence in ``source``, in which
    also lies what is written by hand; returns the files.

    UserError for a page without its two marks, for a claim that no row of its table has, and for a row that no page shows.
    """
    evidence = {path.stem: _read(path) for path in sorted((source / "evidence").glob("*.csv"))}
    questions = yaml.safe_load((source / "questions.yaml").read_text(encoding="utf-8"))
    written, overview = [], []
    hidden = {id(row): row for rows in evidence.values() for row in rows}
    for page, asked in questions.items():
        shown = [_shown(one, evidence) for one in asked["claims"]]
        rows = list({id(row): row for one in shown for row, _ in one.rows}.values())
        hidden = {key: row for key, row in hidden.items() if row not in rows}
        if drawn := [row for row in rows if row["value"]]:
            draw(drawn, out / f"{page}.png")
            written.append(out / f"{page}.png")
        text = _between(source / f"{page}.md", f"# {asked['question']}\n", _part(page, shown, rows, drawn))
        write_text(out / f"{page}.md", text)
        written.append(out / f"{page}.md")
        overview += [line for one in shown for line in _overview(one, page, asked["question"])]
    if hidden:
        named = sorted(
            {f"{row['scale']}/{row['artefact']}: {row['first']}, {row['second']}" for row in hidden.values()}
        )
        raise UserError(f"questions.yaml shows no claim of {'; '.join(named)}")
    head = "| source says | difference | verdict | scope | scale | source agrees? | page |\n|---|---|---|---|---|---|---|\n"
    write_text(out / "README.md", _between(source / "README.md", "# What was found\n", head + "".join(overview)))
    return [*written, out / "README.md"]


def _shown(asked: Mapping[str, Any], evidence: Mapping[str, Sequence[Row]]) -> Shown:
    rows: list[tuple[Row, str]] = []
    missing, left_out = [], []
    for one in asked.get("shown", ()):
        where = f"`{one['artefact']}` at `{one['scale']}`"
        of_table = [row for row in evidence.get(one["scale"], ()) if row["artefact"] == one["artefact"]]
        found = [
            row for row in of_table if all(map(fnmatch, _sides(row), (one.get(s, "*") for s in ("first", "second"))))
        ]
        if of_table and not found:
            raise UserError(f"questions.yaml: no claim of {where} matches {one}")
        rows += [(row, one.get("but", "")) for row in found]
        if not of_table and "left_out" in one:
            left_out.append(f"{where} ({one['left_out']})")
        elif not of_table:
            missing.append(where)
    holds_if, untested = asked.get("holds_if", "supported"), asked.get("untested", "")
    return Shown(asked["says"], asked["source"], holds_if, untested, rows, missing, left_out)


def _sides(row: Row) -> tuple[str, str]:
    """Both sides of a claim, the one that it predicts to be higher first."""
    return (row["second"], row["first"]) if row["predicted"] == "lower" else (row["first"], row["second"])


def _between(page: Path, title: str, made: str) -> str:
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or not before.startswith(title):
        raise UserError(
            f"{page}: must begin with {title!r} and have the lines {BEGIN} and {END}, between which claims belong"
        )
    return f"{before}{BEGIN}\n\n{made}\n{END}{after}"


def _part(page: str, shown: Sequence[Shown], rows: Sequence[Row], drawn: Sequence[Row]) -> str:
    """What is made of a page: its scope, each claim with its verdicts, the picture."""
    parts = []
    if not rows:
        parts.append("**No verdict yet:** nothing has been run under the [present rules](README.md#earlier-results).")
    elif (scopes := {row["scope"] for row in drawn}) and "methods" not in scopes:
        parts.append(f"**No verdict on this page is about methods:** all are about {' and '.join(sorted(scopes))}.")
    for one in shown:
        parts.append(f"> {escape_markdown(one.says)} ({one.source})")
        if one.rows:
            lines = ["| difference | value | verdict | source agrees? | scope | table |", "|---|---|---|---|---|---|"]
            for row, but in one.rows:
                found = claimed(row)
                table = (
                    f"`{row['artefact']}`, [`{row['scale']}`](evidence/{row['scale']}.csv), record {row['record'][:8]}"
                )
                cells = (
                    found.comparison,
                    found.difference,
                    _verdict(found),
                    bears(row, one.holds_if, but),
                    _scope(row),
                )
                lines.append(f"| {' | '.join((*map(escape_markdown, cells), table))} |")
            parts.append("\n".join(lines))
        if one.missing:
            parts.append(f"Not run under the present rules: {', '.join(one.missing)}.")
        if one.left_out:
            parts.append(f"Left out: {'; '.join(one.left_out)}.")
        if one.untested:
            parts.append(f"Not tested: {one.untested}.")
    if rows:
        parts.append("\n".join(f"    {line}" for line in _commands(rows)))
    if drawn:
        about = [scope for scope in LOOKS if scope in {row["scope"] for row in drawn}]
        colours = f". {'; '.join(f'{LOOKS[scope][2]}: about {scope}' for scope in about)}" if len(about) > 1 else ""
        parts.append(f"![Differences with 95 % intervals{colours}]({page}.png)")
    return "\n\n".join(parts) + "\n"


def _commands(rows: Sequence[Row]) -> list[str]:
    """The calls that make the tables and figures of ``rows``, one for each scale and choice of seeds."""
    calls: dict[str, list[str]] = {}
    for row in rows:
        options = [] if row["scale"] == "mini" else [f"scale={row['scale']}"]
        named = [int(seed) for seed in row["which_seeds"].split()]
        if named != yaml.safe_load(_scale_file(row["scale"]).read_text(encoding="utf-8"))["pretrain"]["seeds"]:
            options.append(f"'pretrain={{seeds: {named}}}'")
        target = f"results/{row['artefact']}.{'png' if 'figure' in row['artefact'] else 'csv'}"
        targets = calls.setdefault(f"--config {' '.join(options)}" if options else "", [])
        targets += [] if target in targets else [target]
    return [" ".join(("snakemake", *targets, "--cores all", options)).strip() for options, targets in calls.items()]


def bears(row: Row, holds_if: str, but: str) -> str:
    """Whether a verdict agrees with a text that holds if it is ``holds_if``: supported, reversed, equivalent or not worse.
    ``but``: a reservation, with which it agrees in part only, and a difference below the margin does not disagree."""
    answer = _agrees(row, holds_if)
    if not but or answer == "open" or row["direction"] == "reversed":
        return answer
    return f"{'open' if answer == 'no' else 'in part'} ({but})"


def _agrees(row: Row, holds_if: str) -> str:
    direction, size = row["direction"], row["size"]
    if holds_if == "not worse":
        if direction == "supported" or size == "equivalent":
            return "yes"
        return "no" if direction == "reversed" and size == "larger" else "open"
    if holds_if == "equivalent":
        return {"equivalent": "yes", "larger": "no"}.get(size, "open")
    if direction == holds_if:
        return "yes, by less than the margin" if size == "equivalent" else "yes"
    return "no" if direction in ("supported", "reversed") or size == "equivalent" else "open"


def _verdict(found: Claimed) -> str:
    """Direction and size; of an inconclusive one also what could have been detected."""
    if found.direction == "not tested":
        return "none: an earlier claim of the fixed order is not supported"
    size = f", size {found.size}" if found.size else ""
    return f"{found.direction}{size}" + (f" (detectable: {found.detectable})" if found.detectable else "")


def _scope(row: Row) -> str:
    return f"{row['scope']} ({_counted_seeds(row)})" if row["scope"] else "–"


def _counted_seeds(row: Row) -> str:
    return f"{row['seeds']} seed{'s' if row['seeds'] != '1' else ''}"


def _overview(one: Shown, page: str, question: str) -> Iterator[str]:
    says, link = escape_markdown(f"{one.says} ({one.source})"), f"[{escape_markdown(question)}]({page}.md)"
    lines = []
    for row, but in one.rows:
        found = claimed(row)
        text = f"{found.comparison}: {found.difference}"
        cells = (text, _verdict(found), _scope(row), row["scale"], bears(row, one.holds_if, but))
        lines.append(" | ".join(map(escape_markdown, cells)))
    if one.missing:
        lines.append(f"not run under the present rules: {', '.join(one.missing)} | | | | open")
    if one.left_out:
        lines.append(f"left out: {'; '.join(one.left_out)} | | | | open")
    if one.untested:
        lines.append(f"not tested: {one.untested} | | | | ")
    for number, line in enumerate(lines):
        yield f"| {'' if number else says} | {line} | {link} |\n"


def draw(rows: Sequence[Row], path: Path) -> None:
    """The differences of ``rows`` with their intervals, a panel for each unit."""
    panels = [
        (unit, list(group))
        for unit, group in groupby(sorted(rows, key=lambda row: row["unit"]), lambda row: row["unit"])
    ]
    with drawing(8.6, 0.55 * len(panels) + 0.42 * len(rows) + 0.3, [path]) as figure:
        ratios = [len(group) + 1 for _, group in panels]
        axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
        for panel, (unit, group) in zip(axes, panels, strict=True):
            labels = (f"{claimed(row).comparison} · {row['scale']}, {_counted_seeds(row)}" for row in group)
            rows_axis(panel, [textwrap.fill(label, 56) for label in labels])
            panel.axvline(0, color="#22262A", linewidth=0.8)
            panel.set_xlabel(f"difference, {unit}")
            for place, row in enumerate(group):
                value, low, high = (float(row[key]) if row[key] else float("nan") for key in ("value", "low", "high"))
                error_bars(panel, [place], [(value, low, high)], LOOKS[row["scope"]][:2], across=True)


def _commit(root: Path) -> str:
    """The commit of the working tree, with a + if it was changed since."""
    git = ["git", "-C", str(root)]
    found = subprocess.run(
        [*git, "rev-parse", "--short=12", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "-uno", "--", ":!docs"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return found + ("+" if changed else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--results", type=Path, default=FINDINGS.parent.parent / "results", help="folder of the scales' results"
    )
    args = parser.parse_args()
    try:
        for line in collect(args.results, FINDINGS / "evidence", _commit(args.results.resolve().parent)):
            print(line)
        for path in pages(FINDINGS, FINDINGS):
            print(path)
    except UserError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
