"""The verb ``mdc verify``: walk the records from the tables down and name the first broken link."""

import argparse
from contextlib import closing
from pathlib import Path

from mdc.checks.place import Broken, Place
from mdc.checks.rebuild import rebuilt
from mdc.checks.walk import Walk
from mdc.plan.config.read import load
from mdc.plan.config.yaml_core import read_yaml
from mdc.plan.jobs.accepted import read_accepted
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import sha256_file
from mdc.plan.verbs import VERBS
from mdc.report.index_page import copied_scale


def main(args: argparse.Namespace) -> None:
    """``args``: params (file), scale (name or None), deep. Raises Broken at the first broken link."""
    from mdc.plan.progress import progress

    place = place_of(args.params, args.scale)
    print(f"{place.folder.root}:")
    artefacts = [name for name in place.shown if place.record(name).is_file()]
    with closing(Walk(place, args.deep)) as walk:
        # tables and figures first, then what no table was made from yet
        made = [job for job in [*place.shown, *place.jobs] if place.record(job).is_file() or _left_behind(place, job)]
        walk.begin(made)
        for job in made:
            for _ in progress(walk.jobs(job), desc=job, unit=" jobs", leave=False):
                pass
    copies = sum(check_copies(place, name) for name in artefacts)
    # last, because it takes longer
    bar = progress(rebuilt(walk, artefacts), total=len(artefacts), desc="rebuilt", unit=" tables", leave=False)
    equal = sum(bar)
    if missing := [name for name in place.shown if name not in artefacts]:
        print(f"  not made: {', '.join(missing)}")
    for name in artefacts:
        scale = copied_scale(place.results, name)
        if scale not in (None, place.scale):
            print(f"  {name}: its copies at {place.results} are of scale {scale}")
    kinds = {name: f"records in {verb.layer}/" if verb.layer else verb.stage for name, verb in VERBS.items()}
    counted = [(walk.good[name], kinds[name]) for name in reversed(VERBS)]
    counted += [(len(walk.hashed), "files that these name, by their sha256")]
    counted += [(equal, "files of tables and figures rebuilt from the records, equal to the byte")]
    counted += [(copies, f"copies at {place.results}")]
    for count, words in counted:
        if count:
            print(f"  {count} {words}: good")
    print(f"  {walk.summary()}" if walk.good else "  nothing is made yet")


def place_of(params_file: str, scale: str | None) -> Place:
    """The place of a scale, by default of the parameter file's."""
    params = load(params_file, scale)
    plan = Plan(params, read_accepted(Path(params_file).parent))
    elsewhere = scale is not None and scale != read_yaml(params_file).get("scale")
    return Place(plan, elsewhere)


def check_copies(place: Place, artefact: str) -> int:
    """The number of good copies at ``results/``; copies of another scale are skipped. Raises Broken at one that differs."""
    scale = copied_scale(place.results, artefact)
    if scale not in (None, place.scale):
        return 0
    good = 0
    for name in (*place.shown[artefact].files, f"{artefact}.json"):
        copy, own = place.results / name, place.record(artefact).with_name(name)
        if not copy.exists() and scale is None:
            continue
        if not copy.is_file():
            raise Broken(f"{copy}: missing; {own} is copied there; to mend: {place.copy_again(artefact)}")
        if sha256_file(copy) != sha256_file(own):
            raise Broken(f"{copy}: not the copy of {own}; to mend: {place.copy_again(artefact)}")
        good += 1
    return good


def _left_behind(place: Place, job: str) -> bool:
    """Whether a table or figure has files but no record."""
    folder = place.record(job).parent
    return job in place.shown and any((folder / name).is_file() for name in place.shown[job].files)
