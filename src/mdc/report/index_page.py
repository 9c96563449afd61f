"""The index page: every table and figure of a scale with a thumbnail, its caption, and the time that it took.

A copy at ``results/`` stays until the same table or figure is made at another scale, so the page says of which scale each copy
is, and shows those of other scales that its own scale does not name.

Cards with a picture come first. A card also has the claims and the warnings of its table; what is missing has a line. Links are
relative and lead into the scale's own folder, so the page needs no server and loads nothing from elsewhere. It reads records and
small files only; nothing is recomputed.
"""

import csv
import itertools
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from mdc.plan.artefacts import Artefact, declared
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, write_text
from mdc.plan.verbs import VERBS, verb_of
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS, OtherVersion, read_claims
from mdc.report.tables.render import escape_markdown, write_page
from mdc.report.words import TOGETHER, claimed

#: files of the package that the output depends on
DATA_FILES = ("report/templates/index.html.j2",)
_HEADS = ("claim", "difference", "direction (scope)", "size", "minimum detectable", "seeds", "groups")
_ROWS = 6  # of a table's thumbnail
_CHARACTERS = 34  # beside the row's name there, so that no column is cut on a screen of 400 pixels


def write_index(
    root: Path,
    scale: str,
    label: str,
    named: Mapping[str, Artefact],
    page: Path,
    expected: Mapping[str, str],
    others: bool = False,
) -> list[str]:
    """Write the ``page`` of a scale whose folder is ``root``, and ``claims.csv`` with all its claims; returns the names of
    missing tables and figures.

    ``named``: the tables and figures to show. ``expected``: sha256 of each one's present configuration; one made with another is
    marked as stale. ``others``: also show copies of other scales. UserError if the page is not in ``root`` or above it.
    """
    folder, to_root = ScaleFolder(root), _relative(root, page.parent)
    cards = []
    for name, artefact in named.items():
        cards.append(_card(artefact, folder, to_root, scale, copied_scale(root.parent, name), expected.get(name)))
    for artefact, other in _copies(root.parent) if others else ():
        place = ScaleFolder(root.parent / other)
        if artefact.name not in named and other != scale and place.record(artefact.name, "make").is_file():
            cards.append(_card(artefact, place, _relative(root.parent / other, page.parent), other, other, None))
    sections: dict[str, list[dict[str, Any]]] = {"Figures": [], "Tables": [], "empty": [], "missing": []}
    for card in cards:
        sections[_section(card)].append(card)
    missing = [card["name"] for card in sections["missing"]]
    own = [card["name"] for card in cards if card["made"] and card["scale"] == scale]
    total = time_text(times(folder, {job for name in own for job in behind(folder, name)}))
    if others:
        stale = {card["name"]: card["made"]["stale"] for card in cards if card["made"] and card["scale"] == scale}
        rows = [row | {"stale": str(stale[name])} for name in stale for row in _claims(folder, name) or ()]
        write_csv(root / "claims.csv", rows, (*CLAIMS, "stale"))
        write_text(root / "claims.md", as_markdown(rows))
    claims = Counter(claim.direction for card in cards if card["name"] in own for claim in card["made"]["claims"])
    values = {"claims": claims, "together": TOGETHER, "scale": scale, "label": label, "total": total}
    lines = {"empty": sections.pop("empty"), "missing": sections.pop("missing"), "sections": sections}
    write_page(page, "index.html.j2", listed=f"{to_root}claims.csv" if others else "", **lines, **values)
    return missing


def _section(card: Mapping[str, Any]) -> str:
    """The section of a card; ``empty`` and ``missing`` ones have no card but share a line."""
    made = card["made"]
    if not made:
        return "missing"
    if made["image"]:
        return "Figures"
    return "empty" if made["preview"] and not made["preview"]["rows"] else "Tables"


def _claims(folder: ScaleFolder, name: str) -> list[dict[str, str]] | None:
    """The claims of a table or figure; None if another version of the code wrote them."""
    try:
        return read_claims(folder.job(name), read_json(folder.record(name, "make")).get("outputs", {}))
    except OtherVersion:
        return None


def copied_scale(results: Path, artefact: str) -> str | None:
    """The scale of the copies of a table or figure at ``results``, from their record; None without a record."""
    try:
        return str(read_json(results / f"{artefact}.json")["config"]["scale"])
    except (UserError, KeyError, TypeError):
        return None


def _copies(results: Path) -> list[tuple[Artefact, str]]:
    """The tables and figures with copies at ``results``, each with the copies' scale."""
    copies = []
    for path in sorted(results.glob("*.json")):
        scale = copied_scale(results, path.stem)
        config = read_json(path)["config"] if scale is not None else {}
        with suppress(KeyError, TypeError):  # of another version, or no table's
            copies.append((declared(config["artefact"], config.get("kind"), config.get("title")), str(scale)))
    return copies


def behind(folder: ScaleFolder, job: str) -> set[str]:
    """A job and all jobs that it depends on, directly or through others, from their records."""
    jobs_behind: set[str] = set()
    waiting = [job]
    while waiting:
        name = waiting.pop()
        if name in jobs_behind:
            continue
        jobs_behind.add(name)
        record = folder.record(name, verb_of(name))
        if record.is_file():
            inputs = read_json(record).get("inputs", {})
            waiting += list(inputs) if isinstance(inputs, dict) else []
    return jobs_behind


def times(folder: ScaleFolder, jobs: set[str]) -> dict[str, tuple[float, int]]:
    """By stage, the seconds that these jobs took and their number, as far as it is recorded."""
    by_stage: dict[str, tuple[float, int]] = dict.fromkeys((verb.stage for verb in VERBS.values()), (0.0, 0))
    for job in jobs:
        host = folder.host(job)
        if host.is_file():
            stage = VERBS[verb_of(job)].stage
            seconds, count = by_stage[stage]
            by_stage[stage] = seconds + float(read_json(host).get("seconds", 0.0)), count + 1
    return {stage: total for stage, total in by_stage.items() if total[1]}


def time_text(by_stage: Mapping[str, tuple[float, int]]) -> str:
    """``12 min, one job after the other: trainings 8 min (3), …``"""
    each = [f"{stage} {duration(seconds)} ({count})" for stage, (seconds, count) in by_stage.items()]
    total = duration(sum(seconds for seconds, _ in by_stage.values()))
    return f"{total}, one job after the other: {', '.join(each)}" if each else ""


def decoding_times(folder: ScaleFolder, name: str) -> list[tuple[str, int, float]]:
    """Each system of a table of captions with its number of captions, over all datasets and seeds, and the seconds of decoding
    without reading images; systems without recorded times are left out."""
    systems = read_json(folder.record(name, "make"))["config"].get("systems", [])
    # a system that captions several datasets is named once
    captioners = [system["method"] for system in systems if system.get("estimator") == "captions"]
    labels = {method["key"]: str(method["label"]) for method in captioners}
    by_system = dict.fromkeys(labels, (0, 0.0))
    for job in behind(folder, name) if labels else ():
        host = folder.host(job)
        if verb_of(job) == "write-captions" and host.is_file():
            for system, measured in read_json(host).get("writing", {}).items():
                if system in labels:
                    captions, seconds = by_system[system]
                    by_system[system] = captions + int(measured["captions"]), seconds + float(measured["seconds"])
    return [(labels[system], *total) for system, total in by_system.items() if total[0]]


def a_caption(seconds: float) -> str:
    """Time per caption: ``3.4 ms``, ``120 ms``, ``2.1 s``."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.{1 if seconds < 0.01 else 0}f} ms"


def duration(seconds: float) -> str:
    """A time in words: ``40 s``, ``12 min``, ``3.4 h``."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _card(
    artefact: Artefact, folder: ScaleFolder, to_root: str, scale: str, copies: str | None, expected: str | None
) -> dict[str, Any]:
    """The template's values for a table or figure at ``scale``. ``brief``: its short title; ``copies``: the scale of the copies
    at ``results/``, if any; ``made``: see :func:`_made`, None if it was not made."""
    number, _, rest = artefact.title.partition(": ")
    brief = number if any(map(str.isdigit, number)) or not rest else rest[0].upper() + rest[1:]
    card = {"name": artefact.name, "title": artefact.title, "brief": brief, "scale": scale, "copies": copies}
    made = _made(artefact, folder, to_root, expected)
    return {**card, "caption": artefact.caption.format(scale=scale), "made": made}


def _made(artefact: Artefact, folder: ScaleFolder, to_root: str, expected: str | None) -> dict[str, Any] | None:
    """``files``: (name, link); ``image``, of ``size`` pixels, and a table's ``preview``: its thumbnails; ``opens``: the link of
    a thumbnail; ``time``: how long it took, in words; ``stale``: made with another configuration or code; ``writing``: each
    system's decoding time; ``claims``: the claims with their verdicts, ``verdicts``: how many of each; ``warnings``: those of
    its record, a sentence each."""
    name, own = artefact.name, folder.job(artefact.name)
    record = folder.record(name, "make")
    files = [file for file in artefact.files if (own / file).is_file()]
    if not record.is_file() or not files:
        return None
    host = folder.host(name)
    took = f"{duration(float(read_json(host).get('seconds', 0.0)))} to make" if host.is_file() else ""
    time_before = time_text(times(folder, behind(folder, name) - {name}))
    rows = _claims(folder, name)
    claims = [claimed(row) for row in rows or ()]
    image = next((file for file in files if file.endswith(".png")), None)
    return {
        "files": [(file, f"{to_root}{name}/{file}") for file in (*files, record.name)],
        "image": image and f"{to_root}{name}/{image}",
        "size": image and _size(own / image),
        "preview": _preview(own / artefact.files[0], rows or ()) if artefact.category == "Tables" else None,
        "opens": f"{to_root}{name}/{next((file for file in files if file.endswith('.html')), files[0])}",
        "time": "; ".join(part for part in (took, time_before and f"before it {time_before}") if part),
        "stale": rows is None or (expected is not None and read_json(record).get("config_sha256") != expected),
        "writing": [(label, a_caption(time / count), count) for label, count, time in decoding_times(folder, name)],
        "claims": claims,
        "verdicts": Counter(claim.direction for claim in claims),
        "warnings": read_json(record).get("warnings", []),
    }


def _size(image: Path) -> tuple[int, int]:
    """Width and height, so that a page that has not loaded it yet leaves room for it; (0, 0) if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(image) as opened:
            return opened.size
    except OSError:
        return 0, 0


def _preview(path: Path, claims: Sequence[Mapping[str, str]]) -> dict[str, Any] | None:
    """The top of a table in the paper's layout: ``name``, ``beside`` it the other labels, and in ``head`` every column that the
    ``claims`` are about, then those others that fit and have a value. ``rows``: the same of the first rows; ``lines``,
    ``columns``: how many the table has."""
    if path.suffix != ".csv" or not path.is_file():
        return None
    lines = _read(path)
    columns = {head: [line[head] for line in lines] for head in (lines[0] if lines else ()) if head != "scale"}
    filled = [head for head in columns if any(columns[head])]
    # headings of labels are in lower case; so may be those of numbers, as of a corpus "small"
    labels = list(itertools.takewhile(str.islower, filled))
    while labels and all(re.fullmatch(r"[-+.\de]*", text) for text in columns[labels[-1]]):
        labels.pop()
    if len(labels) in (0, len(filled)):  # a table of words
        labels = filled[:1]
    about = _claimed(path, claims)
    others = sorted((head for head in filled if head not in labels), key=lambda head: head not in about)
    widths = (2 + max(map(len, " ".join([head, *columns[head][:_ROWS]]).split())) for head in others)
    fit = sum(width <= _CHARACTERS for width in itertools.accumulate(widths))
    name = "method" if "method" in labels else "".join(labels[-1:])
    beside = [label for label in labels if label != name]
    shown = others[: max(fit, sum(head in about for head in others))]
    return {
        "name": name,
        "beside": beside,
        "head": shown,
        "rows": [
            (
                line[name],
                [line[label] for label in beside if line[label] not in ("", "–", "none")],
                [line[head] for head in shown],
            )
            for line in lines[:_ROWS]
        ],
        "lines": len(lines),
        "columns": len(columns),
        "claimed": bool(about & {*others}),
    }


def _claimed(path: Path, claims: Sequence[Mapping[str, str]]) -> set[str]:
    """The columns of a table that ``claims`` are about: named by what is measured, by the dataset, or by both."""
    tidy = path.with_name(f"{path.stem}_long.csv")
    datasets = {line["dataset"] for line in _read(tidy)} if claims and tidy.is_file() else set()
    names = {row["label"] for row in claims}
    for row in claims:
        # a claim over several datasets names none of them
        for dataset in {row["dataset"], row["second_dataset"]} & datasets or datasets:
            names |= {dataset, f"{dataset} {row['label']}"}
    return names


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _relative(root: Path, start: Path) -> str:
    """``mini/`` for results/mini seen from results, "" for the folder itself; UserError if it does not lie below."""
    try:
        # as they are named, since a results folder may be a link to a larger disk, and links on the page go by names
        named, below = (Path(os.path.abspath(path)) for path in (root, start))  # noqa: PTH100 — resolve follows links
        inner = named.relative_to(below).as_posix()
    except ValueError:
        raise UserError(f"{start}: the page has to lie in {root} or above it, since its links lead there") from None
    return "" if inner == "." else f"{inner}/"


def as_markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """The claims of a scale as Markdown, one table for each table and figure, for the pages of the documentation."""
    lines = [TOGETHER, ""] if rows else []
    for (artefact, stale), group in itertools.groupby(rows, key=lambda row: (row["artefact"], row.get("stale"))):
        lines += [
            f"### {artefact}{' (stale)' * (stale == 'True')}",
            "",
            f"| {' | '.join(_HEADS)} |",
            f"|{'---|' * len(_HEADS)}",
        ]
        for row in group:
            claim = claimed(row)
            verdict = claim.about, claim.size or "–", claim.detectable
            cells = (claim.comparison, claim.difference, *verdict, row["seeds"], row["groups"])
            lines.append(f"| {' | '.join(map(escape_markdown, cells))} |")
        lines.append("")
    return "\n".join(lines)
