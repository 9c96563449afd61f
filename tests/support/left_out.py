"""A project without an extension: its folder is deleted, and what a scale says with its names."""

import shutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from scale_files import ROOT, plain

from mdc.plan.artefacts import read_shown
from mdc.plan.config.kinds.backbones import Backbone, VisualContext
from mdc.plan.config.kinds.distortion import Distortion
from mdc.plan.config.kinds.kind import names
from mdc.plan.config.yaml_core import dump_yaml, read_yaml
from mdc.plan.parts import METHODS

EXTENSIONS = sorted(path.parent.name for path in (ROOT / "src/mdc/extensions").glob("*/params.yaml"))
_GONE = object()
#: keys without which the mapping that has them makes no sense
_NEEDED = ("when", "systems", "corpora", "curves", "sets")
#: where a scale has entries of several kinds
_SECTIONS = ("encoders", "data.corpora", "data.probes", "data.choices", "probe.heads")


def names_of(extension: str) -> set[str]:
    """The methods, captioners, tables and figures that an extension brings."""
    folder = ROOT / "src/mdc/extensions" / extension
    declared = read_yaml(folder / "params.yaml")
    systems = declared.get("shared", {}).get("captions", {}).get("systems", {})
    shown = [read_shown(path) for kind in ("tables", "figures") for path in folder.glob(f"{kind}/*.py")]
    return {*declared.get("methods", {}), *systems, *(name for one in shown if one for name in one["artefacts"])}


def without(values: dict[str, Any], extension: str) -> dict[str, Any]:
    """The values of a scale, or of the blocks that scales share, without what an extension brings."""
    brought, gone = _kinds(extension), names_of(extension)
    sections = getattr(brought, "SECTIONS", {})
    values = {section: value for section, value in values.items() if section not in sections}
    kinds = {name for kind in brought.KINDS if not issubclass(kind, Backbone) for name in names(kind)}
    for section in _SECTIONS:
        for name, entry in _at(values, section):
            if entry.get("source", entry).get("kind") in kinds:
                gone.add(name)
    backbones = [kind for kind in brought.KINDS if issubclass(kind, Backbone)]
    keys = {key for one in backbones for key in one.model_fields} - Backbone.model_fields.keys()
    contexts = {name for one in brought.KINDS if issubclass(one, VisualContext) for name in names(one)}
    gone |= {name for one in brought.KINDS if issubclass(one, Distortion) for name in names(one)}
    for name, one in _at(values, "pretrain.backbones"):
        if keys & one.keys() or one.get("visual_context") in contexts or one.get("frozen") in gone:
            gone.add(name)
    folders = [folder for folder in METHODS.values() if folder.startswith(f"mdc.extensions.{extension}.")]
    gone |= {kind for folder in folders for kind in import_module(f"{folder}.method").METHOD.decodings}
    gone |= {key for key, one in _at(values, "captions.systems") if gone & {one.get("method"), one.get("backbone")}}
    found = _kept(values, gone)
    assert isinstance(found, dict)
    return found


def _kinds(extension: str) -> Any:
    return import_module(f"mdc.extensions.{extension}.kinds")


def _at(values: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of a section, which may not be there."""
    for key in path.split("."):
        values = values.get(key, {})
    return iter(values.items())


def copy_without(folder: Path, extensions: Iterable[str], scale: str, values: dict[str, Any]) -> None:
    """A copy of the code, and a scale of these ``values``, without ``extensions``."""
    for name in ("src/mdc", "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", *extensions))
    shutil.copy(ROOT / "Snakefile", folder)
    own, params = values, plain(read_yaml(ROOT / "params.yaml"))
    for name in extensions:
        own, params["shared"] = without(own, name), without(params["shared"], name)
    params |= {"scale": scale, "artefacts": list(own["tables"])}
    (folder / "params.yaml").write_text(dump_yaml(params), encoding="utf-8")
    (folder / "scales").mkdir()
    (folder / f"scales/{scale}.yaml").write_text(dump_yaml(own), encoding="utf-8")


def _kept(value: Any, gone: set[str], inner: bool = False) -> Any:
    """``value`` without what ``gone`` names. A list within a list is a comparison, which has both sides or none; a mapping one of
    whose values is gone is gone."""
    if isinstance(value, str):
        return _GONE if any(_is_named(part, gone) for part in value.split("/")) else value
    if isinstance(value, list):
        items = [item for item in (_kept(one, gone, inner=True) for one in value) if item is not _GONE]
        return _GONE if value and (not items or (inner and len(items) < len(value))) else items
    if not isinstance(value, dict):
        return value
    entries = {
        key: _GONE if isinstance(one, dict | list) and _is_named(str(key), gone) else _kept(one, gone)
        for key, one in value.items()
    }
    kept = {key: one for key, one in entries.items() if one is not _GONE}
    lost = value and not kept
    lost = lost or any(key not in kept and (key in _NEEDED or isinstance(one, str)) for key, one in value.items())
    return _GONE if lost else kept


def _is_named(word: str, gone: set[str]) -> bool:
    """Whether a name, or one of its sweep and controls, is gone."""
    return word in gone or any(word.startswith(f"{name}_") for name in gone)
