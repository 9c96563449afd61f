"""The code fingerprint of a job: one hash of the source code that it runs.

The hash covers the module of the job's verb, the modules that the job loads by name (its objective's, its source kind's,
see :mod:`mdc.plan.parts`), and every module of this package that these import, directly or not, at module level or inside a
function, each as its syntax tree without docstrings. So a comment, a docstring or a line break reruns nothing; a changed
loss reruns what depends on it; a new objective or a new kind of source reruns nothing.

A literal ``SHOWN`` of a table or figure is not covered: the job's configuration holds its values (see
:mod:`mdc.plan.artefacts`). The bytes of package files that a module reads, such as templates, are covered if it names them in
``DATA_FILES``.

Modules that only define a job's configuration are not covered: configurations are compared by value. So a value that decides a
result and is in no configuration must not be in such a module (``tests/unit/plan/test_left_out.py``).
"""

import ast
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

from mdc.plan.parts import EXTENDING, METHODS
from mdc.plan.records import UserError, write_text

PACKAGE = "mdc"
ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (
    *("mdc.plan.config", "mdc.plan.jobs", "mdc.plan.registry"),  # parameters, jobs and datasets: values
    *("mdc.plan.artefacts", "mdc.plan.parts", "mdc.plan.verb", "mdc.plan.verbs"),  # names of modules and files
)
#: the parameters of methods, and what extensions declare: values too
DECLARED = frozenset(
    [*(f"{folder}.method" for folder in METHODS.values()), *(name for named in EXTENDING.values() for name in named)]
)
#: endings of the package's files that decide what is computed
SOURCES = (".py", ".yaml", ".j2", ".css")
#: set for the jobs of a workflow that has compared the sources
COMPARED = "MDC_SOURCES_COMPARED"
#: covered although its package is left out: it writes the record of every job
COVERED = ("mdc.plan.jobs.call",)


def left_out(module: str) -> bool:
    """Whether no fingerprint covers ``module``."""
    return module not in COVERED and (
        module in DECLARED or any(module == name or module.startswith(f"{name}.") for name in LEFT_OUT)
    )


@cache
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


@dataclass(frozen=True)
class _Source:
    """A module's part of a fingerprint: the hash of its code, the names in its import statements, its data files."""

    sha256: str
    named: frozenset[str]
    data_files: tuple[str, ...]


_OWN = Path(__file__).read_bytes()
#: sha256 of this file and a source together → the parsed source
_sources: dict[str, _Source] = {}


@contextmanager
def remembered(file: Path) -> Iterator[None]:
    """While its block runs, sources that an earlier call parsed are read from the cache ``file``, by hash.

    Parsing takes most of a workflow's start. The verbs that check results do not use this cache.
    """
    with suppress(OSError, ValueError, TypeError):
        stored = json.loads(file.read_text(encoding="utf-8"))
        _sources.update({key: _Source(entry[0], frozenset(entry[1]), tuple(entry[2])) for key, entry in stored.items()})
    before = len(_sources)
    yield
    if len(_sources) > before:
        stored = {key: (entry.sha256, sorted(entry.named), entry.data_files) for key, entry in _sources.items()}
        write_text(file, json.dumps(stored))


@cache
def _read(module: str) -> _Source:
    path = module_file(module)
    if path is None:
        raise UserError(f"no module {module}; a declaration names it (docs/adding.md)")
    text = path.read_bytes()
    key = hashlib.sha256(_OWN + text).hexdigest()
    if key not in _sources:
        _sources[key] = _parsed(ast.parse(text, filename=str(path)))
    return _sources[key]


def _parsed(tree: ast.Module) -> _Source:
    for node in _statements(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
    tree.body = [node for node in tree.body if not _assigns(node, "SHOWN")]
    # Python 3.12's syntax trees have a field that 3.11's lack; we use no type parameters
    dumped = ast.dump(tree).replace(", type_params=[]", "")
    return _Source(hashlib.sha256(dumped.encode()).hexdigest(), frozenset(_named(tree)), _data_files(tree))


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """The statements directly inside a statement. Expressions contain none; walking them takes ten times as long."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, field, ())


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for inner in _inside(node):
        yield from _statements(inner)


def _named(node: ast.AST) -> Iterator[str]:
    """The names in import statements, without those under TYPE_CHECKING."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        node = ast.Module(node.orelse, [])
    for inner in _inside(node):
        yield from _named(inner)


def _assigns(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)


def _data_files(tree: ast.Module) -> tuple[str, ...]:
    literals = [node.value for node in tree.body if _assigns(node, "DATA_FILES")]
    return tuple(ast.literal_eval(literals[0])) if literals else ()


def imports(module: str) -> frozenset[str]:
    """The modules of this package that ``module`` names in an import statement anywhere in its text."""
    return frozenset(name for name in _read(module).named if module_file(name))


def data_files(module: str) -> tuple[str, ...]:
    """The files, relative to the package, that ``module`` names in a literal ``DATA_FILES = ("folder/file", ...)``."""
    return _read(module).data_files


@cache
def closure(*modules: str) -> list[str]:
    """``modules`` and all modules of this package that they import, directly or not, sorted, without those left out."""
    seen: set[str] = set()
    waiting = list(modules)
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
def fingerprint(*modules: str) -> str:
    """Hash of the syntax trees of the closure of ``modules`` and of the data files that they name."""
    digest = hashlib.sha256()
    for name in closure(*modules):
        digest.update(f"{name} {_read(name).sha256}\n".encode())
        for file in data_files(name):
            digest.update(f"{file} {hashlib.sha256((ROOT / file).read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def check_sources(here: Path) -> None:
    """UserError if ``here``, the package in the folder that one works in, holds other code than the package that runs, as in a
    copied project whose environment is still the other's. Contents are compared, since equal code may run from elsewhere."""
    if COMPARED in os.environ or not here.is_dir() or here.samefile(ROOT):
        return
    if _all_sources(here) != _all_sources(ROOT):
        raise UserError(
            f"{here}: not the code that runs, which is {ROOT}: this environment is another folder's; `make setup` makes this "
            "folder's, and `source .venv/bin/activate` chooses it"
        )


def _all_sources(root: Path) -> dict[Path, bytes]:
    files = (path for path in root.rglob("*") if path.suffix in SOURCES and not path.name.startswith("."))
    return {path.relative_to(root): hashlib.sha256(path.read_bytes()).digest() for path in files}
