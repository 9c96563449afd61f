"""The page that a reader opens first: every table and figure of a scale with a thumbnail, its caption, and what it took.

A copy at ``results/`` stays until the same table or figure is made at another scale, so the page says whose each copy is, and
shows those of other scales that its own scale does not name.

It shows what is there and says what is missing. Links are relative and lead into the scale's own folder, so the page needs no
server, and none of it is loaded from elsewhere. It reads records and small files alone; nothing is computed anew.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mdc.plan.artefacts import Artefact, declared
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, write_text
from mdc.plan.verbs import VERBS, verb_of
from mdc.report.claimed import Claimed, as_markdown, claimed
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS, read_claims
from mdc.report.tables.render import write_page

#: files below the package that decide what is written here
DATA_FILES = ("report/templates/index.html.j2",)
_ROWS, _COLUMNS = 6, 7  # of a table's thumbnail
_IMAGES = (".png",)


@dataclass(frozen=True)
class Preview:
    """The top of a table: its first rows, of these the first columns that tell them apart, and how many it has of both."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: int
    lines: int


@dataclass(frozen=True)
class Writing:
    """What writing took one system of a table of captions, without reading the images; of all datasets and seeds."""

    label: str
    captions: int
    seconds: float

    @property
    def each(self) -> str:
        """Of one caption: ``3.4 ms``, ``120 ms``, ``2.1 s``."""
        one = self.seconds / self.captions
        return f"{one:.1f} s" if one >= 1 else f"{1000 * one:.{1 if one < 0.01 else 0}f} ms"


@dataclass(frozen=True)
class Shown:
    """One table or figure.

    ``brief``: its title where there is little room; ``files``: (name, place seen from the page); ``image``, of ``size`` pixels,
    or ``preview``: its thumbnail, neither if it is not made; ``opens``: what a click on it opens; ``time``: what it took, in
    words; ``stale``: made with other values or code; ``scale``: the one that it was made at; ``copies``: the scale of the copies
    at ``results/``, None if there are none; ``writing``: of captions, what each system took; ``claims``: what was named
    beforehand, and what was found of it.
    """

    name: str
    title: str
    brief: str
    caption: str
    files: Sequence[tuple[str, str]]
    image: str | None
    size: tuple[int, int]
    preview: Preview | None
    opens: str | None
    time: str
    stale: bool
    scale: str
    copies: str | None
    writing: Sequence[Writing] = ()
    claims: Sequence[Claimed] = ()


@dataclass(frozen=True)
class Times:
    """Seconds and number of jobs, by layer."""

    seconds: Mapping[str, float]
    jobs: Mapping[str, int]

    @property
    def told(self) -> str:
        """``12 min, one job after the other: trainings 8 min (3), …``"""
        each = [f"{name} {duration(self.seconds[name])} ({self.jobs[name]})" for name in self.seconds]
        return f"{duration(sum(self.seconds.values()))}, one job after the other: {', '.join(each)}" if each else ""


def write_index(
    root: Path,
    scale: str,
    label: str,
    named: Mapping[str, Artefact],
    page: Path,
    asked: Mapping[str, str],
    others: bool = False,
) -> list[str]:
    """Write the ``page`` of a scale whose folder is ``root``, and return what it says is missing; and ``claims.csv``
    beside the tables and figures: what they claim, in one file.

    ``named``: what the tables and figures of the scale declare that it is to show. ``asked``: sha256 of
    the configurations that the scale and this code ask for now; one that was made with another is marked so. ``others``:
    also show copies of other scales.
    UserError if the page does not lie in ``root`` or above it.
    """
    folder, to_root = ScaleFolder(root), _relative(root, page.parent)
    sections: dict[str, list[Shown]] = {"Tables": [], "Figures": []}
    for name, artefact in named.items():
        one = _shown(artefact, folder, to_root, scale, copied_scale(root.parent, name), asked.get(name))
        sections[artefact.category].append(one)
    for artefact, other in _copies(root.parent) if others else ():
        there = root.parent / other
        if artefact.name not in named and other != scale and ScaleFolder(there).record(artefact.name, "make").is_file():
            one = _shown(artefact, ScaleFolder(there), _relative(there, page.parent), other, other, None)
            sections[artefact.category].append(one)
    shown = [one for section in sections.values() for one in section]
    missing = [one.name for one in shown if one.opens is None]
    own = [one for one in shown if one.scale == scale]
    every = {job for one in own if one.opens is not None for job in behind(folder, one.name)}
    total = times(folder, every).told
    if others:
        rows = [row for name, one in named.items() for row in read_claims(folder.job(name), one.files)]
        write_csv(root / "claims.csv", rows, CLAIMS)
        write_text(root / "claims.md", as_markdown(rows))
    write_page(page, "index.html.j2", scale=scale, label=label, sections=sections, missing=missing, total=total)
    return missing


def copied_scale(results: Path, artefact: str) -> str | None:
    """The scale that the copies of a table or figure at ``results`` are of, as their record says; None without a record."""
    try:
        return str(read_json(results / f"{artefact}.json")["config"]["scale"])
    except (UserError, KeyError, TypeError):
        return None


def _copies(results: Path) -> list[tuple[Artefact, str]]:
    """The tables and figures of which copies lie at ``results``, each with the scale that they are of."""
    found = []
    for path in sorted(results.glob("*.json")):
        scale = copied_scale(results, path.stem)
        config = read_json(path)["config"] if scale is not None else {}
        with suppress(KeyError, TypeError):  # of another version, or no table's
            found.append((declared(config["artefact"], config.get("kind"), config.get("title")), str(scale)))
    return found


def behind(folder: ScaleFolder, job: str) -> set[str]:
    """The jobs that a job was made from, and those that these were, as their records say; itself included."""
    found: set[str] = set()
    waiting = [job]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        record = folder.record(name, verb_of(name))
        if record.is_file():
            inputs = read_json(record).get("inputs", {})
            waiting += list(inputs) if isinstance(inputs, dict) else []
    return found


def times(folder: ScaleFolder, jobs: set[str]) -> Times:
    """What these jobs took where they ran, as far as they say it."""
    seconds: dict[str, float] = dict.fromkeys((verb.stage for verb in VERBS.values()), 0.0)
    counted: Counter[str] = Counter()
    for job in jobs:
        host = folder.host(job)
        if host.is_file():
            stage = VERBS[verb_of(job)].stage
            seconds[stage] += float(read_json(host).get("seconds", 0.0))
            counted[stage] += 1
    return Times({name: seconds[name] for name in seconds if counted[name]}, counted)


def writing(folder: ScaleFolder, name: str) -> list[Writing]:
    """What each system of a table of captions took to write, in the table's order; those of which no job says it are left out."""
    systems = read_json(folder.record(name, "make"))["config"].get("systems", [])
    # a system that captions several datasets is named once
    labels = {one["system"]: str(one["method"]["label"]) for one in systems if "system" in one}
    if not labels:
        return []
    captions: Counter[str] = Counter()
    seconds = dict.fromkeys(labels, 0.0)
    for job in behind(folder, name):
        host = folder.host(job)
        if verb_of(job) != "write-captions" or not host.is_file():
            continue
        for system, told in read_json(host).get("writing", {}).items():
            if system in labels:
                captions[system] += int(told["captions"])
                seconds[system] += float(told["seconds"])
    return [Writing(labels[one], captions[one], seconds[one]) for one in labels if captions[one]]


def duration(seconds: float) -> str:
    """As a person says it: ``40 s``, ``12 min``, ``3.4 h``."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _shown(
    artefact: Artefact, folder: ScaleFolder, to_root: str, scale: str, copies: str | None, asked: str | None
) -> Shown:
    name, title = artefact.name, artefact.title
    record = folder.record(name, "make")
    files = [file for file in artefact.files if (folder.job(name) / file).is_file()]
    number, _, what = title.partition(": ")
    brief = number if any(map(str.isdigit, number)) or not what else what[0].upper() + what[1:]
    caption = artefact.caption.format(scale=scale)
    if not record.is_file() or not files:
        return Shown(name, title, brief, caption, [], None, (0, 0), None, None, "", False, scale, copies)
    opens = next((file for file in files if file.endswith(".html")), files[0])
    image = next((file for file in files if file.endswith(_IMAGES)), None)
    own = folder.host(name)
    took = f"{duration(float(read_json(own).get('seconds', 0.0)))} to make" if own.is_file() else ""
    before = times(folder, behind(folder, name) - {name}).told
    found = [claimed(row) for row in read_claims(folder.job(name), artefact.files)]
    return Shown(
        name,
        title,
        brief,
        caption,
        [(file, f"{to_root}{name}/{file}") for file in (*files, record.name)],
        f"{to_root}{name}/{image}" if image is not None else None,
        _size(folder.job(name) / image) if image is not None else (0, 0),
        None if image is not None else _preview(folder.job(name), artefact, {claim.label for claim in found}),
        f"{to_root}{name}/{opens}",
        "; ".join(part for part in (took, f"before it {before}" if before else "") if part),
        asked is not None and read_json(record).get("config_sha256") != asked,
        scale,
        copies,
        writing(folder, name),
        found,
    )


def _size(image: Path) -> tuple[int, int]:
    """Width and height, so that a page that has not loaded it yet leaves room for it; (0, 0) if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(image) as opened:
            return opened.size
    except OSError:
        return 0, 0


def _preview(folder: Path, artefact: Artefact, claimed: set[str]) -> Preview | None:
    """The top left of a table in the paper's layout, with the columns that something is ``claimed`` of first."""
    path = folder / artefact.files[0]
    if path.suffix != ".csv" or not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file)) or [[]]
    top = rows[:_ROWS]
    differ = [column for column in range(len(head)) if not column or len({row[column] for row in top}) > 1]
    # a column's name begins with its dataset where there are several
    first = [column for column in differ if head[column] in claimed or head[column].partition(" ")[2] in claimed]
    numbers = next((place for place, column in enumerate(differ) if _number(top, column)), len(differ))
    differ = list(dict.fromkeys([*differ[:numbers], *first, *differ[numbers:]]))[:_COLUMNS]
    return Preview([head[c] for c in differ], [[row[c] for c in differ] for row in top], len(head), len(rows))


def _number(rows: Sequence[Sequence[str]], column: int) -> bool:
    """Whether a column holds numbers."""
    try:
        return bool([float(row[column]) for row in rows if row[column]])
    except ValueError:
        return False


def _relative(root: Path, start: Path) -> str:
    """``mini/`` for results/mini seen from results, "" for the folder itself; UserError if it does not lie below."""
    try:
        # as they are named, since a results folder may be a link to a larger disk, and links on the page go by names
        named, below = (Path(os.path.abspath(one)) for one in (root, start))  # noqa: PTH100 — resolve follows links
        inner = named.relative_to(below).as_posix()
    except ValueError:
        raise UserError(f"{start}: the page has to lie in {root} or above it, since its links lead there") from None
    return "" if inner == "." else f"{inner}/"
