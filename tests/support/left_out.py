"""A project without an extension: its folder is deleted, and what a scale says with its names."""

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from scale_files import ROOT, plain

from mdc.plan.artefacts import read_shown
from mdc.plan.config.yaml_core import dump_yaml, read_yaml

EXTENSIONS = sorted(path.parent.name for path in (ROOT / "src/mdc/extensions").glob("*/params.yaml"))
_GONE = object()
#: keys without which the mapping that has them makes no sense
_NEEDED = ("when", "method", "systems", "corpora", "curves")


def names_of(extension: str) -> set[str]:
    """The methods, captioners, tables and figures that an extension brings."""
    folder = ROOT / "src/mdc/extensions" / extension
    declared = read_yaml(folder / "params.yaml")
    systems = declared.get("shared", {}).get("captions", {}).get("systems", {})
    shown = [read_shown(path) for kind in ("tables", "figures") for path in folder.glob(f"{kind}/*.py")]
    return {*declared["methods"], *systems, *(name for one in shown if one for name in one["artefacts"])}


def without(values: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A scale's values without what ``names`` name, and the captioners by methods of these names."""
    systems = values.get("captions", {}).get("systems", {})
    names = names | {key for key, system in systems.items() if system.get("method") in names}
    found = _kept(values, names)
    assert isinstance(found, dict)
    return found


def copy_without(folder: Path, extensions: Iterable[str], scale: str, values: dict[str, Any]) -> None:
    """A copy of the code, and a scale of these ``values``, without ``extensions``."""
    for name in ("src/mdc", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", *extensions))
    shutil.copy(ROOT / "Snakefile", folder)
    own = values
    for name in extensions:
        own = without(own, names_of(name))
    params = {**plain(read_yaml(ROOT / "params.yaml")), "scale": scale, "artefacts": list(own["tables"])}
    (folder / "params.yaml").write_text(dump_yaml(params), encoding="utf-8")
    (folder / "scales").mkdir()
    (folder / f"scales/{scale}.yaml").write_text(dump_yaml(own), encoding="utf-8")


def _kept(value: Any, names: set[str], inner: bool = False) -> Any:
    """``value`` without what ``names`` name. A list within a list is a comparison, which has both sides or none."""
    if isinstance(value, str):
        return _GONE if any(_is_named(part, names) for part in value.split("/")) else value
    if isinstance(value, list):
        items = [item for item in (_kept(one, names, inner=True) for one in value) if item is not _GONE]
        return _GONE if value and (not items or (inner and len(items) < len(value))) else items
    if not isinstance(value, dict):
        return value
    items_of = {key: _kept(one, names) for key, one in value.items() if not _is_named(str(key), names)}
    kept = {key: one for key, one in items_of.items() if one is not _GONE}
    lost = (value and not kept) or any(key in value and key not in kept for key in _NEEDED)
    return _GONE if lost else kept


def _is_named(word: str, names: set[str]) -> bool:
    """Whether a name, or one of its sweep and controls, is among ``names``."""
    return word in names or any(word.startswith(f"{name}_") for name in names)
