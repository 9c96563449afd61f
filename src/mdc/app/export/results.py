"""What a scale's tables say of one run, if they are up to date."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, sha256_file
from mdc.plan.verbs import verb_of
from mdc.report.frame import CLAIMS, LEVELS, POOLINGS, RUNS, read_rows
from mdc.report.words import Claimed, claimed

Row = dict[str, str]
#: files of a table and their columns
_READ = {"runs": RUNS, "long": LEVELS, "contrasts": CLAIMS}


@dataclass(frozen=True)
class Result:
    """A number of a ``table``: ``row``, its line of levels; ``what`` it is; ``gain``, the line of differences to its control;
    ``level``: of its interval."""

    table: str
    row: Row
    what: str
    gain: Row | None
    level: float

    @property
    def interval(self) -> str:
        """How its interval was made: ``95 %, seeds and items``."""
        return f"{100 * self.level:g} %, {self.row['interval'].replace('_', ' ')}"


@dataclass(frozen=True)
class Results:
    """``numbers`` of a run; ``claims`` that it is a side of, each with its table; (name, reason) of tables that are left out."""

    numbers: list[Result]
    claims: list[tuple[str, Claimed]]
    left_out: list[tuple[str, str]]


def results_of(scale: Path, run: str, weights: set[str]) -> Results:
    """What the tables in the ``scale``'s folder say of the run ``run`` (its id without "runs/"), by one of ``weights`` (last,
    best): of probes every number, of scores and captions the average, or without one what is claimed; a number that several
    tables show once. A table is left out if its records, by sha256, do not lead to the run as it is now."""
    results: dict[tuple[str, ...], Result] = {}
    claims, left_out = list[tuple[str, Claimed]](), list[tuple[str, str]]()
    link = _link_to(folder := ScaleFolder(scale), f"runs/{run}")
    # Table 1 first
    for runs in sorted(scale.glob("*/*_runs.csv"), key=lambda path: (not path.name.startswith("table"), path)):
        table = runs.parent.name
        try:
            record = read_json(folder.record(table, "make"))
            outputs = record.get("outputs", {})
            files = {runs.with_name(f"{table}_{what}.csv"): columns for what, columns in _READ.items()}
            of_runs, levels, differences = (
                read_rows(file, outputs, columns) if file.name in outputs else [] for file, columns in files.items()
            )
        except UserError as error:
            left_out.append((table, str(error).removeprefix(f"{scale}/")))
            continue
        systems = {row["system"] for row in of_runs if row["run"] == run}
        numbers = [row for row in levels if row["system"] in systems and _shows(row, weights)]
        records = (row["record"] for row in of_runs if row["run"] == run)
        gone = next((job for job in records if job and not folder.record(job, verb_of(job)).is_file()), None)
        if numbers and (problem := f"{gone} has no record" if gone else link(table)) != "":
            left_out.append((table, problem or f"no record links it to runs/{run}"))
            continue
        gains = {(row["first"], row["column"]): row for row in differences if row["kind"] == "gain"}
        primary = [row for row in differences if row["primary"] == "True"]
        every = {row["column"] for row in numbers}
        columns = every & ({"average"} if "average" in every else {row["column"] for row in primary}) or every
        for row in numbers:
            if row["column"] in columns or row["pooling"] in POOLINGS:
                gain = gains.get((row["system"], row["column"]))
                key = _what(row), row["value"], row["low"], row["n"], gain["value"] if gain else ""
                results.setdefault(key, Result(table, row, _what(row), gain, record["config"]["statistics"]["level"]))
        sides = {row["system"] for row in numbers}
        claims += [(table, claimed(row)) for row in primary if sides & {row["first"], row["second"]}]
    return Results(list(results.values()), claims, left_out)


def _shows(row: Row, weights: set[str]) -> bool:
    # a table that names no weights is of the last ones, as probes are; costs are no results; nor are controls
    of_weights = (row.get("weights") or "last") in weights and row["metric"] != "cost"
    own = row.get("shown", "own") == "own" and not row["system"].endswith("/debiased")
    return of_weights and own and row.get("is_control", "False") == "False"


def _what(row: Row) -> str:
    details = [row[name] for name in ("dataset", "method", "length")] if "length" in row else []
    details += [row["estimator"].replace("_", " "), row.get("per", "")]
    return ", ".join([row["label"], *(detail for detail in details if detail not in ("", "–"))])


def _link_to(folder: ScaleFolder, run: str) -> Callable[[str], str | None]:
    """A function of a job: "" if records link it to ``run`` as it is now, None if they do not link it at all, else why not."""

    @cache
    def link(job: str) -> str | None:
        record, found = folder.record(job, verb_of(job)), "" if job == run else None
        for name, sha256 in (read_json(record).get("inputs", {}) if record.is_file() and job != run else {}).items():
            if (below := link(name)) is not None:
                manifest = folder.manifest(name, verb_of(name))
                same = manifest.is_file() and sha256_file(manifest) == sha256
                found = found or below or ("" if same else f"{name} has been rebuilt since")
        return found

    return link
