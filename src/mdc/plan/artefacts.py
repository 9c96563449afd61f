"""Every table and figure, as the module that makes it declares it: a literal ``SHOWN`` beside its ``make``.

The literals are read as text, so every start of Snakemake can afford it: the modules themselves import what takes long. No
fingerprint covers a literal, as none covers a docstring; the job's configuration holds its values.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Artefact:
    """One table or figure. ``SHOWN`` has these keys, but for ``name`` and ``module``, and under ``artefacts`` by name what is an
    artefact's own; a name with nothing but its title is of the module's kind.

    ``module``: its ``make(job, given, out)`` writes the files. ``config``: the class of its block in a scale, ``plan``: how
    its job follows from that, ``job``: the class of its job; each a name of the module itself or, as ``module.Name``, below
    ``mdc.plan.config`` or ``mdc.plan.jobs``. ``kind``: what a scale calls it that wants one more of the kind, under a name of
    its own; "" if there can be no other. ``files``: what it writes into its folder besides its record, NAME.json, as endings
    behind its name or as whole names; the first is the one to ask the workflow for. ``caption``: what the report says below it;
    ``{scale}`` is filled in, and ``{what}`` by ``what``. ``more``: of the files, what the workflow's report shows besides the
    page of a table or the picture of a figure, each with its title there. ``measured``: of the files, those that also hold what
    host files say of times, so that the same records need not give the same bytes.
    """

    name: str
    module: str
    title: str
    files: tuple[str, ...]
    caption: str
    config: str
    plan: str
    job: str
    kind: str = ""
    what: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """The file of ``results/`` to ask the workflow for."""
        return self.files[0]

    @property
    def plan_name(self) -> str:
        """What its job calls the plan."""
        return self.plan.rpartition(".")[2]

    @property
    def category(self) -> Literal["Tables", "Figures"]:
        """Where the report shows it: it lies in ``mdc.report.tables`` or ``mdc.report.figures``."""
        return "Tables" if ".tables." in self.module else "Figures"

    @property
    def shown(self) -> dict[str, str]:
        """The files that the report shows, each with its title."""
        ending = ".html" if self.category == "Tables" else ".png"
        main = next((file for file in self.files if file.endswith(ending)), self.target)
        return {main: self.title, **self.more}

    def load(self, key: Literal["config", "plan", "job"]) -> Any:
        """The class or function that ``key`` names."""
        module, _, name = str(getattr(self, key)).rpartition(".")
        package = "mdc.plan.config" if key == "config" else "mdc.plan.jobs"
        return getattr(import_module(f"{package}.{module}" if module else self.module), name)


def read_shown(file: str | Path) -> dict[str, Any] | None:
    """The literal ``SHOWN`` of a file of the package; None if it has none."""
    # as it is formatted: its last brace stands alone at the beginning of a line
    text = (_PACKAGE / file).read_text(encoding="utf-8")
    found = re.search(r"^SHOWN = (\{\n.*?^\})$", text, re.MULTILINE | re.DOTALL)
    return ast.literal_eval(found[1]) if found else None


def _declared() -> Iterator[tuple[str, dict[str, Any]]]:
    """The modules of tables and figures that declare something, and what."""
    for package in ("tables", "figures"):
        for path in sorted((_PACKAGE / "report" / package).glob("*.py")):
            if shown := read_shown(path):
                yield f"mdc.report.{package}.{path.stem}", shown


def _artefact(name: str, module: str, values: Mapping[str, Any]) -> Artefact:
    def whole(text: str) -> str:
        return f"{name}{text}" if text[0] in "._" else text

    told = {**values, **{key: tuple(map(whole, values.get(key, "").split())) for key in ("files", "measured")}}
    told["more"] = {
        whole(file): text.replace("{title}", told["title"]) for file, text in values.get("more", {}).items()
    }
    told["caption"] = told["caption"].replace("{what}", told.get("what", ""))
    return Artefact(name, module, **told)


def _collected() -> tuple[dict[str, Artefact], dict[str, tuple[str, dict[str, Any]]]]:
    artefacts, kinds = {}, {}
    for module, shown in _declared():
        for name, own in shown.pop("artefacts").items():
            artefacts[name] = _artefact(name, module, shown | own)
            kinds[own.get("kind")] = module, shown | own
        kinds[shown.get("kind")] = module, shown
    return dict(sorted(artefacts.items())), {kind: kinds[kind] for kind in sorted(filter(None, kinds))}


#: by name; and what a scale may have more of: by kind the module that makes it, and what this declares
ARTEFACTS, KINDS = _collected()


def declared(name: str, kind: str | None = None, title: str | None = None) -> Artefact:
    """The table or figure of this name, or one more of a ``kind``. KeyError if there is none."""
    if kind is None:
        return ARTEFACTS[name]
    module, values = KINDS[kind]
    return _artefact(name, module, {**values, "title": title or name})
