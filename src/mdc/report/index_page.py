"""The page that a reader opens first: every table and figure of a scale with a thumbnail, its caption, and what it took.

A copy at ``results/`` stays until the same table or figure is made at another scale, so the page says whose each copy is, and
shows those of other scales that its own scale does not name.

It shows what is there and says what is missing. Links are relative and lead into the scale's own folder, so the page needs no
server, and none of it is loaded from elsewhere. It reads records and small files alone; nothing is computed anew.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mdc.plan.artefacts import Artefact, declared
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import UserError, read_json, write_text
from mdc.plan.verbs import VERBS, verb_of
from mdc.report.claimed import as_markdown, claimed
from mdc.report.csv_file import write_csv
from mdc.report.frame import CLAIMS, read_claims
from mdc.report.tables.render import write_page

#: files below the package that decide what is written here
DATA_FILES = ("report/templates/index.html.j2",)
_ROWS, _COLUMNS = 6, 7  # of a table's thumbnail


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
    sections: dict[str, list[dict[str, Any]]] = {"Tables": [], "Figures": []}
    for name, artefact in named.items():
        card = _card(artefact, folder, to_root, scale, copied_scale(root.parent, name), asked.get(name))
        sections[artefact.category].append(card)
    for artefact, other in _copies(root.parent) if others else ():
        there = root.parent / other
        if artefact.name not in named and other != scale and ScaleFolder(there).record(artefact.name, "make").is_file():
            card = _card(artefact, ScaleFolder(there), _relative(there, page.parent), other, other, None)
            sections[artefact.category].append(card)
    cards = [card for section in sections.values() for card in section]
    missing = [card["name"] for card in cards if not card["made"]]
    own = [card["name"] for card in cards if card["made"] and card["scale"] == scale]
    total = told(times(folder, {job for name in own for job in behind(folder, name)}))
    if others:
        rows = [row for name, one in named.items() for row in read_claims(folder.job(name), one.files)]
        write_csv(root / "claims.csv", rows, CLAIMS)
        write_text(root / "claims.md", as_markdown(rows))
    claims = [(card, claim) for card in cards if card["made"] for claim in card["made"]["claims"]]
    write_page(
        page, "index.html.j2", claims=claims, scale=scale, label=label, sections=sections, missing=missing, total=total
    )
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


def times(folder: ScaleFolder, jobs: set[str]) -> dict[str, tuple[float, int]]:
    """By layer, the seconds that these jobs took where they ran and how many they are, as far as they say it."""
    found: dict[str, tuple[float, int]] = dict.fromkeys((verb.stage for verb in VERBS.values()), (0.0, 0))
    for job in jobs:
        host = folder.host(job)
        if host.is_file():
            stage = VERBS[verb_of(job)].stage
            seconds, count = found[stage]
            found[stage] = seconds + float(read_json(host).get("seconds", 0.0)), count + 1
    return {stage: one for stage, one in found.items() if one[1]}


def told(found: Mapping[str, tuple[float, int]]) -> str:
    """``12 min, one job after the other: trainings 8 min (3), …``"""
    each = [f"{stage} {duration(seconds)} ({count})" for stage, (seconds, count) in found.items()]
    total = duration(sum(seconds for seconds, _ in found.values()))
    return f"{total}, one job after the other: {', '.join(each)}" if each else ""


def writing(folder: ScaleFolder, name: str) -> list[tuple[str, int, float]]:
    """Each system of a table of captions, in its order, with the captions of all datasets and seeds, and the seconds that
    writing them took without reading the images; a system of which no job says it is left out."""
    systems = read_json(folder.record(name, "make"))["config"].get("systems", [])
    # a system that captions several datasets is named once
    labels = {one["system"]: str(one["method"]["label"]) for one in systems if "system" in one}
    found = dict.fromkeys(labels, (0, 0.0))
    for job in behind(folder, name) if labels else ():
        host = folder.host(job)
        if verb_of(job) == "write-captions" and host.is_file():
            for system, one in read_json(host).get("writing", {}).items():
                if system in labels:
                    captions, seconds = found[system]
                    found[system] = captions + int(one["captions"]), seconds + float(one["seconds"])
    return [(labels[system], *one) for system, one in found.items() if one[0]]


def a_caption(seconds: float) -> str:
    """What one caption took: ``3.4 ms``, ``120 ms``, ``2.1 s``."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1000 * seconds:.{1 if seconds < 0.01 else 0}f} ms"


def duration(seconds: float) -> str:
    """As a person says it: ``40 s``, ``12 min``, ``3.4 h``."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _card(
    artefact: Artefact, folder: ScaleFolder, to_root: str, scale: str, copies: str | None, asked: str | None
) -> dict[str, Any]:
    """What the template shows of a table or figure that was made at ``scale``. ``brief``: its title where there is little
    room; ``copies``: the scale of the copies at ``results/``, if there are any; ``made``: what there is of it, if anything."""
    number, _, what = artefact.title.partition(": ")
    brief = number if any(map(str.isdigit, number)) or not what else what[0].upper() + what[1:]
    card = {"name": artefact.name, "title": artefact.title, "brief": brief, "scale": scale, "copies": copies}
    made = _made(artefact, folder, to_root, asked)
    return {**card, "caption": artefact.caption.format(scale=scale), "made": made}


def _made(artefact: Artefact, folder: ScaleFolder, to_root: str, asked: str | None) -> dict[str, Any] | None:
    """``files``: (name, place seen from the page); ``image``, of ``size`` pixels, or else ``preview``: its thumbnail; ``opens``:
    what a click on it opens; ``time``: what it took, in words; ``stale``: made with other values or code; ``writing``: of
    captions, what each system took; ``claims``: what was named beforehand, and what was found of it."""
    name, own = artefact.name, folder.job(artefact.name)
    record = folder.record(name, "make")
    files = [file for file in artefact.files if (own / file).is_file()]
    if not record.is_file() or not files:
        return None
    host = folder.host(name)
    took = f"{duration(float(read_json(host).get('seconds', 0.0)))} to make" if host.is_file() else ""
    before = told(times(folder, behind(folder, name) - {name}))
    claims = [claimed(row) for row in read_claims(own, artefact.files)]
    image = next((file for file in files if file.endswith(".png")), None)
    return {
        "files": [(file, f"{to_root}{name}/{file}") for file in (*files, record.name)],
        "image": image and f"{to_root}{name}/{image}",
        "size": image and _size(own / image),
        "preview": None if image else _preview(own / artefact.files[0], {claim.label for claim in claims}),
        "opens": f"{to_root}{name}/{next((file for file in files if file.endswith('.html')), files[0])}",
        "time": "; ".join(part for part in (took, before and f"before it {before}") if part),
        "stale": asked is not None and read_json(record).get("config_sha256") != asked,
        "writing": [(label, a_caption(seconds / count), count) for label, count, seconds in writing(folder, name)],
        "claims": claims,
    }


def _size(image: Path) -> tuple[int, int]:
    """Width and height, so that a page that has not loaded it yet leaves room for it; (0, 0) if it cannot be read."""
    from PIL import Image

    try:
        with Image.open(image) as opened:
            return opened.size
    except OSError:
        return 0, 0


def _preview(path: Path, claimed: set[str]) -> dict[str, Any] | None:
    """The top left of a table in the paper's layout, and how many rows and columns it has: of those that tell its first rows
    apart the ones of words, then those that something is ``claimed`` of."""
    if path.suffix != ".csv" or not path.is_file():
        return None
    import pandas as pd  # here: it takes half a second to import

    whole = pd.read_csv(path, dtype=str, keep_default_na=False)
    top = whole.head(_ROWS)
    differ = [label for place, label in enumerate(map(str, top)) if not place or top[label].nunique() > 1]
    # a column's name begins with its dataset where there are several
    first = [label for label in differ if label in claimed or label.partition(" ")[2] in claimed]

    def words(label: str) -> bool:
        told = top[label][top[label] != ""]
        return told.empty or bool(pd.to_numeric(told, errors="coerce").isna().any())

    labels = itertools.takewhile(words, differ)
    head = list(dict.fromkeys([*labels, *first, *differ]))[:_COLUMNS]
    return {"head": head, "rows": top[head].to_numpy().tolist(), "lines": len(whole), "columns": whole.shape[1]}


def _relative(root: Path, start: Path) -> str:
    """``mini/`` for results/mini seen from results, "" for the folder itself; UserError if it does not lie below."""
    try:
        # as they are named, since a results folder may be a link to a larger disk, and links on the page go by names
        named, below = (Path(os.path.abspath(one)) for one in (root, start))  # noqa: PTH100 — resolve follows links
        inner = named.relative_to(below).as_posix()
    except ValueError:
        raise UserError(f"{start}: the page has to lie in {root} or above it, since its links lead there") from None
    return "" if inner == "." else f"{inner}/"
