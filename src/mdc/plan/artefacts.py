"""Every table and figure, as its module declares it: a literal ``SHOWN`` beside its ``make``. The modules are in
``mdc.report.tables`` and ``mdc.report.figures``, and in the folders of these names of each extension.

The literals are parsed without importing the modules, whose imports would slow down every start of Snakemake. No fingerprint
covers them; the job's configuration holds their values.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from mdc.plan.records import UserError

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Artefact:
    """One table or figure. ``SHOWN`` has these keys except ``name`` and ``module``; its key ``artefacts`` holds, by name, the
    values of single artefacts. A name with only a title is of the module's kind. A module that has but names of another module's
    kind says ``of`` which.

    ``module``: its ``make(job, manifests, out)`` writes the files. ``config``: the class of its block in a scale; ``plan``: the
    function from that to the values of its job. Each is a name of the module itself or, as ``module.Name``, below
    ``mdc.plan.config`` or ``mdc.plan.jobs``. ``values``: a class of the module that checks ``more`` of a job that was edited.
    ``kind``: the key by which a scale adds another of the kind; "" if there can be no other. ``files``: its files besides its
    record, NAME.json, as endings of NAME or as whole names; the first is the workflow's target. ``caption``: the report's text
    below it; ``{scale}`` and ``{what}`` are filled in, the latter by ``what``. ``more``: further files that the workflow's report
    shows besides the page of a table or the picture of a figure, each with its title. ``measured``: the files that also hold
    times from host files, so that equal records need not give equal bytes.
    """

    name: str
    module: str
    title: str
    files: tuple[str, ...]
    caption: str
    config: str
    plan: str = "rows"
    values: str = ""
    kind: str = ""
    what: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    measured: tuple[str, ...] = ()

    @property
    def target(self) -> str:
        """Its file in ``results/`` that is the workflow's target."""
        return self.files[0]

    @property
    def category(self) -> Literal["Tables", "Figures"]:
        """Its category in the report: the folder of its module."""
        return "Tables" if ".tables." in self.module else "Figures"

    @property
    def shown(self) -> dict[str, str]:
        """The files that the report shows, each with its title."""
        ending = ".html" if self.category == "Tables" else ".png"
        main = next((file for file in self.files if file.endswith(ending)), self.target)
        return {main: self.title, **self.more}

    def load(self, key: Literal["config", "plan", "values"]) -> Any:
        """The class or function that ``key`` names."""
        module, _, name = str(getattr(self, key)).rpartition(".")
        package = "mdc.plan.config" if key == "config" else "mdc.plan.jobs"
        return getattr(import_module(f"{package}.{module}" if module else self.module), name)


def read_shown(file: str | Path) -> dict[str, Any] | None:
    """The literal ``SHOWN`` of a file of the package; None if it has none."""
    # the formatter puts its last brace alone at the beginning of a line
    text = (_PACKAGE / file).read_text(encoding="utf-8")
    match = re.search(r"^SHOWN = (\{\n.*?^\})$", text, re.MULTILINE | re.DOTALL)
    if match is None and re.search(r"^SHOWN\b", text, re.MULTILINE):
        raise UserError(f"{_PACKAGE / file}: SHOWN must begin as `SHOWN = {{` and end as `}}`, each alone on its line")
    return ast.literal_eval(match[1]) if match else None


def _declared() -> Iterator[tuple[str, dict[str, Any]]]:
    """(module, its ``SHOWN``) of every module of tables and figures."""
    for folder in ("report", "extensions/*"):
        for path in sorted(path for kind in ("tables", "figures") for path in _PACKAGE.glob(f"{folder}/{kind}/*.py")):
            if shown := read_shown(path):
                yield ".".join(("mdc", *path.relative_to(_PACKAGE).with_suffix("").parts)), shown


def _artefact(name: str, module: str, values: Mapping[str, Any]) -> Artefact:
    def whole(text: str) -> str:
        return f"{name}{text}" if text[0] in "._" else text

    filled = {**values, **{key: tuple(map(whole, values.get(key, "").split())) for key in ("files", "measured")}}
    filled["more"] = {
        whole(file): text.replace("{title}", filled["title"]) for file, text in values.get("more", {}).items()
    }
    filled["caption"] = filled["caption"].replace("{what}", filled.get("what", ""))
    return Artefact(name, module, **filled)


def _collected() -> tuple[dict[str, Artefact], dict[str, tuple[str, dict[str, Any]]]]:
    artefacts, kinds, of_others = {}, {}, []
    for module, shown in _declared():
        if "artefacts" not in shown:
            raise UserError(f"{module}: SHOWN has no artefacts, the names of its tables and figures with their titles")
        named = shown.pop("artefacts")
        if "of" in shown:
            of_others.append((shown["of"], named))
            continue
        for name, own in named.items():
            artefacts[name] = _artefact(name, module, shown | own)
            kinds[own.get("kind")] = module, shown | own
        kinds[shown.get("kind")] = module, shown
    for kind, named in of_others:
        module, shown = kinds[kind]
        artefacts |= {name: _artefact(name, module, shown | own) for name, own in named.items()}
    return dict(sorted(artefacts.items())), {kind: kinds[kind] for kind in sorted(filter(None, kinds))}


#: the artefacts by name; and by kind (module, its declaration), for further artefacts of a scale
ARTEFACTS, KINDS = _collected()


def declared(name: str, kind: str | None = None, title: str | None = None) -> Artefact:
    """The table or figure of this name, or one more of a ``kind``. KeyError if there is none."""
    if kind is None:
        return ARTEFACTS[name]
    module, values = KINDS[kind]
    return _artefact(name, module, {**values, "title": title or name})
