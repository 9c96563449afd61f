"""dvc.yaml covers what decides each layer: every field of a scale that changes a job is a parameter of its stage."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from fields import Others, Place, changed
from scale_files import SCALES, SHARED, scale_values

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

ROOT = Path(__file__).resolve().parents[2]
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
EXPECTED = yaml.safe_load(Path(__file__).with_name("fields.yaml").read_text())
VALUES = {name: scale_values(name) for name in SCALES}
OTHERS = Others(VALUES)
#: a job's layer is the first part of its name, and a layer's stage is
STAGE = {
    "data": "data",
    **dict.fromkeys(("runs", "tokenizers", "words", "encoders", "encoded", "image-tokens"), "pretrain"),
    "probe": "probe",
    **dict.fromkeys(("scores", "retrieval", "positions"), "score"),
    **dict.fromkeys(("captions", "metrics", "judged"), "caption"),
}
STAGE |= dict.fromkeys(ARTEFACTS, "artefact")
#: a scale may have no section `pretrain`, `probe` or `tables`, which DVC could not find: all stages but data list it whole
WHOLE = FILE = "scales/${scale}.yaml"

Edit = tuple[Place, dict[Any, Any]]  # a place, and keys of its instance with their other values


def _edited(values: dict[str, Any], edit: Edit) -> dict[str, Any]:
    place, keys = edit
    for key, value in keys.items():
        values = changed(values, (*place.path[:-1], key), value)
    return values


def _accepted(field: str) -> Iterator[Edit]:
    """The edits by which a field gets another value, each on its own."""
    for pattern, keys in EXPECTED["together"].items():
        for place in OTHERS.by_field[field] if re.fullmatch(pattern, field) else ():
            if _valid(_edited(VALUES[place.scale], (place, keys))):
                yield place, keys
    for place in OTHERS.where(field):
        for value, refusal in OTHERS.tried(place):
            if refusal is None:
                yield place, {place.path[-1]: value}


def _valid(values: dict[str, Any]) -> bool:
    try:
        validate(values)
    except UserError:
        return False
    return True


FIELDS = [field for field, there in OTHERS.by_field.items() if len(there[0].path) > 1 and not there[0].fixed]


@pytest.fixture(scope="module")
def edits() -> dict[str, Edit | None]:
    """An edit of each field; None where no other value was found."""
    return {field: next(_accepted(field), None) for field in FIELDS}


def _hashes(values: dict[str, Any]) -> dict[str, str]:
    return {name: job.sha256 for name, job in Plan(validate(values)).jobs.items()}


@cache
def _before(scale: str) -> dict[str, str]:
    return _hashes(VALUES[scale])


def _touched(values: dict[str, Any]) -> set[str]:
    """The stages of which some job's configuration is not as in the scale; a name that is gone or new counts too."""
    before, after = _before(values["scale"]), _hashes(values)
    return {STAGE[n.split("/")[0]] for n in before.keys() | after.keys() if before.get(n) != after.get(n)}


def _params(place: Place, stage: str) -> list[str]:
    """The parameters of a stage that hold a place: keys of params.yaml, or the scale's file or a key of that."""
    listed = DVC["stages"][stage].get("params", [])
    if place.path[0] in SHARED:
        path = ".".join(map(str, place.path))
        return [one for one in listed if isinstance(one, str) and f"{path}.".startswith(f"{one}.")]
    of_scale = [one[FILE] for one in listed if isinstance(one, dict)]
    return [WHOLE if keys is None else str(place.path[0]) for keys in of_scale if keys is None or place.path[0] in keys]


def _upstream(stage: str) -> set[str]:
    """The stages that this one is made from, directly or not, by its deps under results/."""
    found: set[str] = set()
    for dep in DVC["stages"][stage]["deps"]:
        for other, body in DVC["stages"].items():
            if dep.startswith("results/") and any(dep in out for out in body.get("outs", [])):
                found |= {other, *_upstream(other)}
    return found


def test_another_value_is_found_for_every_field_or_it_is_known_why_not(edits: dict[str, Edit | None]) -> None:
    for pattern, said in EXPECTED["refused"].items():
        fields = [field for field in FIELDS if re.fullmatch(pattern, field)]
        assert fields, pattern
        for field in fields:
            assert edits[field] is None, f"{field} takes {edits[field]}: no exception"
            told = [why for place in OTHERS.where(field) for _, why in OTHERS.tried(place) if why]
            assert any(said in why for why in told), f"{field}: {told}"
    untried = [f for f, edit in edits.items() if edit is None and not _matched("refused", f)]
    assert not untried, f"no other value of {untried} was found; fields.yaml may name one"


def test_what_a_stage_does_not_list_changes_no_job_of_it(edits: dict[str, Edit | None]) -> None:
    unlisted: dict[tuple[str, frozenset[str]], list[Edit]] = {}
    for edit in edits.values():
        if edit is not None:
            stages = frozenset(stage for stage in DVC["stages"] if stage != "index" and not _params(edit[0], stage))
            unlisted.setdefault((edit[0].scale, stages), []).append(edit)
    assert any("data" in stages for _, stages in unlisted)
    for (scale, stages), there in unlisted.items():
        for some in _batches(VALUES[scale], there):
            if _together(some) & stages:
                wrong = {edit[0].path: found for edit in some if (found := _together([edit]) & stages)}
                raise AssertionError(f"{wrong or some} change jobs of stages that do not list them")


def test_a_stage_lists_of_what_scales_share_what_it_lists_of_the_scale() -> None:
    for name, stage in DVC["stages"].items():
        (own,) = [one[FILE] for one in stage["params"] if isinstance(one, dict)]
        shared = [one for one in stage["params"] if isinstance(one, str) and one.split(".")[0] == "shared"]
        assert shared == (["shared"] if own is None else [f"shared.{key}" for key in own]), name


def _batches(values: dict[str, Any], edits: list[Edit]) -> Iterator[list[Edit]]:
    """The edits, as many at once as the schema takes: none of a place within that of another."""
    while edits:
        file, taken, left = values, list[Edit](), list[Edit]()
        for edit in edits:
            path = edit[0].path
            apart = all(path[: len(other.path)] != other.path[: len(path)] for other, _ in taken)
            if apart and _valid(after := _edited(file, edit)):
                file = after
                taken.append(edit)
            else:
                left.append(edit)
        assert taken
        yield taken
        edits = left


def _together(edits: list[Edit]) -> set[str]:
    """The stages that edits touch, made at once, or where a plan refuses this, in halves."""
    values = VALUES[edits[0][0].scale] if edits else VALUES["mini"]
    for edit in edits:
        values = _edited(values, edit)
    try:
        return _touched(values)
    except UserError:  # two runs would be the same
        half = len(edits) // 2
        return _together(edits[:half]) | _together(edits[half:]) if half else set()


def test_and_the_reverse_a_stage_lists_what_decides_it_or_what_it_is_made_from(edits: dict[str, Edit | None]) -> None:
    idle = {}
    for field in FIELDS:
        place = OTHERS.where(field)[0]
        stages = [one for one in DVC["stages"] if one != "index" and set(_params(place, one)) - {WHOLE, "scale"}]
        tried = itertools.chain([edits[field]], _accepted(field)) if stages else ()
        planned = (found for edit in tried if edit is not None and (found := _of_edit(edit)) is not None)
        for found in itertools.islice(planned, 3 if _matched("idle", field) else 30):
            idle[field] = [stage for stage in stages if not found & {stage, *_upstream(stage)}]
            if not idle[field]:
                break
        assert field in idle or not stages or _matched("refused", field), f"no edit of {field} could be planned"
    unexpected = {field: stages for field, stages in idle.items() if stages and not _matched("idle", field)}
    assert not unexpected, f"stages would run for fields that change none of their jobs: {unexpected}"
    for pattern in EXPECTED["idle"]:
        assert any(stages and re.fullmatch(pattern, field) for field, stages in idle.items()), (
            f"{pattern} is not needed"
        )


def _of_edit(edit: Edit) -> set[str] | None:
    """The stages that an edit touches, of one in a scale's data of that stage alone; None if two runs would be the same."""
    before = VALUES[edit[0].scale]
    values = _edited(before, edit)
    if edit[0].path[0] == "data":
        common = {key: values[key] for key in SHARED if key in values}
        plans = [_hashes({**common, "label": "", "data": one["data"]}) for one in (before, values)]
        return {"data"} if plans[0] != plans[1] else set()
    try:
        return _touched(values)
    except UserError:
        return None


def _matched(kind: str, field: str) -> bool:
    return any(re.fullmatch(pattern, field) for pattern in EXPECTED[kind])


def test_a_stage_a_layer_and_an_entry_of_the_matrix_an_artefact() -> None:
    stages = dict(DVC["stages"])
    assert list(stages) == [*dict.fromkeys(STAGE.values()), "index"]
    index = stages.pop("index")  # it has no outs: the page is made of what lies here, and says what that took
    # DVC has no list in the place of deps, so the page names what the tables and figures are made from
    assert "outs" not in index and index["deps"] == stages["artefact"]["deps"]
    assert index["params"] == stages["artefact"]["params"]
    assert stages["artefact"]["matrix"] == {"name": "${artefacts}"}
    declared = {name for values in VALUES.values() for name in validate(values).declared}
    assert set(VALUES["mini"]["artefacts"]) == declared, "each has a stage, and no stage has none"
    assert stages["artefact"]["cmd"] == "workflow/stage ${item.name} --scale ${scale}"
    for name, stage in stages.items():
        layers = ["${item.name}"] if name == "artefact" else [layer for layer, one in STAGE.items() if one == name]
        assert stage["outs"] == [{"results/${scale}/" + layer: {"persist": True}} for layer in layers]
    files = {"results/${scale}/" + f"{name}/{file}" for name, one in ARTEFACTS.items() for file in one.files}
    plotted = {file for plot in DVC["plots"] for body in plot.values() for file in body["y"]}
    assert {*DVC["metrics"], *plotted} <= files
