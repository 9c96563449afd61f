"""A file imports from lower floors only, and never in a circle."""

from __future__ import annotations

import graphlib

from read_table import read_table

from mdc.plan.fingerprint import ROOT, imports

# the house, from the ground up; a folder's files may also import each other
FLOORS = read_table(__file__, "floors")
FLOOR = {part: floor for floor, parts in FLOORS.items() for part in parts}


def _modules() -> list[str]:
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(["mdc", *(p for p in parts if p != "__init__")]))
    return names


def _part(module: str) -> str:
    return module.split(".")[1]


def test_every_file_stands_on_a_floor() -> None:
    assert {_part(m) for m in _modules() if m != "mdc"} == set(FLOOR)


def test_imports_go_down() -> None:
    wrong = [
        f"{module} (floor {FLOOR[_part(module)]}) imports {other} (floor {FLOOR[_part(other)]})"
        for module in _modules()
        if module != "mdc"
        for other in imports(module) - {"mdc"}
        if _part(module) != _part(other) and FLOOR[_part(other)] >= FLOOR[_part(module)]
    ]
    assert not wrong, wrong


def test_no_circles() -> None:
    packages = {m for m in _modules() if any(o.startswith(m + ".") for o in _modules())}
    graph = {m: imports(m) - packages - {m} for m in _modules() if m not in packages}
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
