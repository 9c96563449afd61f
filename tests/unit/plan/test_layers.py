"""Each package imports those below it only, and no file imports in a circle, not even for its types."""

import ast
import graphlib
from functools import cache

from package_map import PACKAGES

from mdc.plan.fingerprint import ROOT


@cache
def modules() -> dict[str, set[str]]:
    """Module → the modules of this package that it imports, anywhere in it; a package that only holds others is none."""
    files = {".".join(["mdc", *path.relative_to(ROOT).with_suffix("").parts]): path for path in ROOT.rglob("*.py")}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found = {}
    for name, path in files.items():
        told = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
        named = {alias.name for node in told for alias in node.names if isinstance(node, ast.Import)}
        for node in (node for node in told if isinstance(node, ast.ImportFrom) and node.module):
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[name] = named & files.keys() - {name}
    return found


def _package(module: str) -> str:
    return module.split(".")[1]


def test_imports_go_down() -> None:
    there = {name: {one for one in others if one != "mdc"} for name, others in modules().items() if name != "mdc"}
    assert {_package(name) for name in there} == set(PACKAGES) and sum(map(len, there.values())) > 1000
    wrong = [
        f"{name} imports {other}"
        for name, others in there.items()
        for other in others
        if PACKAGES.index(_package(other)) > PACKAGES.index(_package(name))
    ]
    assert not wrong, wrong


def test_no_circles() -> None:
    holds_others = {name for name in modules() if any(other.startswith(f"{name}.") for other in modules())}
    graph = {name: others - holds_others for name, others in modules().items() if name not in holds_others}
    tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError


def test_extensions_stand_alone() -> None:
    """Nothing of the core imports one, and none imports another: it can be left out."""
    inside = "mdc.extensions."
    own = {name: name.split(".")[2] if name.startswith(inside) else "" for name in modules()}
    wrong = [
        f"{name} imports {other}"
        for name, others in modules().items()
        for other in others
        if own[other] not in ("", own[name])
    ]
    assert not wrong and {"mc_diffusion", "blog", "neighbours"} <= set(own.values()), wrong
