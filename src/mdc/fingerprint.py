"""What source code a job runs, as one hash.

The hash covers the module of a verb and everything of this package that it imports, directly or not, at module level
or inside a function, each as its syntax tree without docstrings. So a comment, a docstring or a line break reruns
nothing; a changed loss reruns what it decides. The package ``mdc.config`` is left out: it decides nothing but the values that a
job's resolved configuration holds anyway, and a new table's schema must not retrain every model.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = "mdc"
ROOT = Path(__file__).resolve().parent
LEFT_OUT = "mdc.config"


def left_out(module: str) -> bool:
    """Whether no fingerprint covers ``module``."""
    return module == LEFT_OUT or module.startswith(f"{LEFT_OUT}.")


def module_file(module: str) -> Path | None:
    """The source file of a module of this package, or None if there is no such module."""
    parts = module.split(".")
    if parts[0] != PACKAGE:
        return None
    base = ROOT.joinpath(*parts[1:])
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _tree(module: str) -> ast.Module:
    path = module_file(module)
    assert path is not None
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


def _dump(module: str) -> str:
    # Python 3.12's syntax trees have a field that 3.11's lack; we use no type parameters
    return ast.dump(_tree(module)).replace(", type_params=[]", "")


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of this package that ``module`` names in an import statement anywhere in its text."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in found if module_file(name))


def closure(module: str) -> list[str]:
    """``module`` and all it imports of this package, sorted, without what is left out."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen or left_out(name):
            continue
        seen.add(name)
        waiting.extend(imports(name))
        # importing a.b.c runs a/__init__ and a.b/__init__ too
        parent = name.rpartition(".")[0]
        if parent and module_file(parent):
            waiting.append(parent)
    return sorted(seen)


@cache
def fingerprint(module: str) -> str:
    """Hash of the syntax trees of ``module``'s closure."""
    digest = hashlib.sha256()
    for name in closure(module):
        digest.update(f"{name}\n{_dump(name)}\n".encode())
    return digest.hexdigest()
