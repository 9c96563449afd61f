"""A file imports from lower floors only, and never in a circle."""

from __future__ import annotations

import graphlib
from pathlib import Path

from mdc.fingerprint import ROOT, imports

# the house, from the ground up; a folder's files may also import each other
FLOORS = {
    1: [
        "config",
        "fingerprint",
        "formats",
        "host",
        "job_configs",
        "jobs",
        "open_clip_parts",
        "processes",
        "records",
        "registry",
        "statistics",
        "text",
    ],
    2: ["scenes", "obtain"],
    3: ["sources"],
    4: ["shards"],
    5: ["loader", "models", "diffusion", "report"],
    6: ["objectives"],
    7: ["training"],
    8: ["predictors"],
    9: ["evaluation", "provenance"],
    10: ["cli"],
}
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
    assert Path(ROOT).name == "mdc"


def test_imports_go_down() -> None:
    wrong = []
    for module in _modules():
        if module == "mdc":
            continue
        for other in imports(module) - {"mdc", module}:
            same = _part(module) == _part(other)
            lower = FLOOR[_part(other)] < FLOOR[_part(module)] or FLOOR[_part(module)] == FLOOR[_part(other)] == 1
            if not (same or lower):
                wrong.append(f"{module} (floor {FLOOR[_part(module)]}) imports {other} (floor {FLOOR[_part(other)]})")
    assert not wrong, wrong


def test_no_circles() -> None:
    packages = {m for m in _modules() if any(o.startswith(m + ".") for o in _modules())}
    graph = {m: imports(m) - packages - {m} for m in _modules() if m not in packages}
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError
