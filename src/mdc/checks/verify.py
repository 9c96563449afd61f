"""The verb ``mdc verify``: walk the chain from the tables down and name the first link that does not hold."""

from __future__ import annotations

import argparse
from pathlib import Path

from mdc.checks.checks import CHECKS, made_anew
from mdc.checks.copies import check_copies
from mdc.checks.place import Place
from mdc.checks.walk import Walk
from mdc.plan.config.read import load
from mdc.plan.jobs.accepted import read_accepted
from mdc.plan.jobs.plan import Plan
from mdc.plan.verbs import VERBS
from mdc.report.index_page import copied_scale

#: what is counted besides the records of each verb → how it is called in the summary
_BESIDE = {
    "files made anew": "of their files made anew from the records, equal to the byte",
    "shards": "shards",
    "parts": "parts",
    "arrays": "arrays of tokens",
}


def main(args: argparse.Namespace) -> None:
    """``args``: params (file), scale (name or None), deep. Raises Broken at the first link that does not hold."""
    from mdc.plan.progress import progress

    place = place_of(args.params, args.scale)
    print(f"{place.folder.root}:")
    walk = Walk(place, CHECKS, args.deep)
    artefacts = [name for name in place.shown if place.record(name).is_file()]
    for name in artefacts:
        walk.own(name, place.jobs[name].inputs)
    # tables and figures first, then what no table was made from yet
    for job in [*place.shown, *place.jobs]:
        if not place.record(job).is_file() and not _left_behind(place, job):
            continue
        for _ in progress(walk.jobs(job), desc=job, unit=" jobs", leave=False):
            pass
    copies = sum(check_copies(place, name) for name in artefacts)
    # last, because it takes longer
    for name in progress(artefacts, desc="made anew", unit=" tables and figures", leave=False):
        made_anew(walk, name)
    for name in place.shown:
        if name not in artefacts:
            print(f"  {name}: not made")
            continue
        scale = copied_scale(place.results, name)
        if scale not in (None, place.scale):
            print(f"  {name}: its copies at {place.results} are of scale {scale}")
    for what, words in [*((name, verb.counted) for name, verb in reversed(VERBS.items())), *_BESIDE.items()]:
        if walk.good[what]:
            print(f"  {walk.good[what]} {words}: good")
    if copies:
        print(f"  {copies} copies at {place.results}: good")
    print(f"  {walk.summary()}" if walk.good else "  nothing is made yet")


def place_of(params_file: str, scale: str | None) -> Place:
    """The place of a scale, by default the one that the parameter file names."""
    params = load(params_file, scale)
    plan = Plan(params, read_accepted(Path(params_file).parent))
    elsewhere = scale is not None and scale != load(params_file).scale
    return Place(plan, elsewhere)


def _left_behind(place: Place, job: str) -> bool:
    """Whether a table or figure has files but no record."""
    folder = place.record(job).parent
    return job in place.shown and any((folder / name).is_file() for name in place.shown[job].files)
