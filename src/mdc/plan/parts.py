"""The modules that are loaded by name: those of objectives and abilities, and the declarations of extensions.

A job imports only what it uses (``importlib.import_module``), so its fingerprint covers only the parts that it runs (see
:mod:`mdc.plan.fingerprint`).
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from mdc.plan.records import UserError

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parents[1]


def _declared(*patterns: str) -> Iterator[Path]:
    """The files of this package that match, the core's before those of extensions."""
    for pattern in patterns:
        yield from sorted(_ROOT.glob(pattern))


def _package(folder: Path) -> str:
    return ".".join(("mdc", *folder.relative_to(_ROOT).parts))


#: objective → its folder, whose ``method.py`` declares its parameters and the modules that its jobs load
METHODS = {
    path.parent.name: _package(path.parent) for path in _declared("methods/*/method.py", "extensions/*/*/method.py")
}

#: declarations of extensions: kinds of things (mdc.plan.config.kinds.kind), jobs, and verbs
EXTENDING = {
    part: [f"{_package(path.parent)}.{part}" for path in _declared(f"extensions/*/{part}.py")]
    for part in ("kinds", "jobs", "verbs")
}

#: ability of a predictor → its module; methods have a part of their own of the last two
ABILITIES = {ability: f"mdc.evaluation.predictors.{ability}" for ability in ("encode", "score", "generate")}
ABILITIES["score_open_clip"] = "mdc.evaluation.predictors.open_clip_score"


def distinct(named: Iterable[tuple[str, T]], what: str) -> dict[str, T]:
    """A dictionary of pairs; UserError if two have the same name, as that of an extension and one of the core."""
    found: dict[str, T] = {}
    for name, one in named:
        if name in found:
            raise UserError(f"{what} {name}: two are named so, one of them by an extension; rename it")
        found[name] = one
    return found


def declared(module: str, name: str) -> Any:
    """What ``module``, a declaration, must have by this ``name``. UserError if it does not."""
    found = importlib.import_module(module)
    if not hasattr(found, name):
        raise UserError(f"{found.__file__}: has no {name} (docs/adding.md)")
    return getattr(found, name)


def load(parts: Mapping[str, str], name: str) -> Any:
    """The module of one of ``parts``, imported now."""
    return importlib.import_module(parts[name])
