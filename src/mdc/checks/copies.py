"""The copies of tables and figures at ``results/`` against the scale's own."""

from __future__ import annotations

from mdc.checks.place import Broken, Place
from mdc.plan.records import sha256_file
from mdc.report.index_page import copied_scale


def copy_again(place: Place, artefact: str) -> str:
    """The command that copies an artefact's files anew."""
    return f"{place.snakemake(artefact)} --forcerun {artefact}"


def check_copies(place: Place, artefact: str) -> int:
    """How many copies are good; none are looked at if they are another scale's. Raises Broken at one that differs."""
    scale = copied_scale(place.results, artefact)
    if scale not in (None, place.scale):
        return 0
    own_folder = place.record(artefact).parent
    good = 0
    for name in (*place.shown[artefact].files, f"{artefact}.json"):
        copy, own = place.results / name, own_folder / name
        if not copy.exists() and scale is None:
            continue
        mend = f"to mend: {copy_again(place, artefact)}"
        if not copy.is_file():
            raise Broken(f"{copy}: missing; {own} is copied there; {mend}")
        if sha256_file(copy) != sha256_file(own):
            raise Broken(f"{copy}: not the copy of {own}; {mend}")
        good += 1
    return good
