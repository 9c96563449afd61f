"""What an edit reruns at scale paper: edits.yaml beside this file, and how its changes are made.

``docs/edits.md`` is this table in words (``python tests/support/edits.py`` writes it), and tests/pipeline/test_edits.py
makes every edit on a copy of the project in which everything is made.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from changed import put
from scale_files import ROOT, SHARED

from mdc.plan.config.yaml_core import dump_yaml, read_yaml

DOCS = ROOT / "docs/edits.md"
SCALE = "paper"
#: {edit (in words), reruns (in words), jobs (patterns), and the change by its kind}
EDITS: list[dict[str, Any]] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))["edits"]

#: what `mdc accept-edit` would write about every job that is stale by its code
ACCEPT = f"""
from pathlib import Path
from mdc.plan.config.read import load
from mdc.plan.jobs.accepted import Accepted, Edit, write_accepted
from mdc.plan.jobs.folder import ScaleFolder
from mdc.checks.accept_edit import stale_by_code
place = ScaleFolder(Path("results/{SCALE}"))
found, _ = stale_by_code(load("params.yaml"), Accepted(), place, Path(".state"), ["*"])
assert found
rest = dict(reason="the same numbers", date="2026-01-01")
write_accepted([Edit(verb=v, old=old, new=new, **rest) for v, old, new in found])
"""


def jobs(edit: dict[str, Any]) -> list[str]:
    """The patterns of an edit; groups of groups in one list."""

    def flat(found: Any) -> list[str]:
        return [found] if isinstance(found, str) else [one for part in found for one in flat(part)]

    return flat(edit.get("jobs", []))


class Sandbox:
    """The files of a copy of the project, which can be changed and put back. ``run``: Python code, with that copy's src."""

    def __init__(self, folder: Path, run: Callable[[str], object]) -> None:
        self.folder, self.run = folder, run
        self._before: dict[Path, str | None] = {}

    def make(self, edit: dict[str, Any]) -> None:
        """Make the change of an edit, by the method of its kind."""
        (kind,) = edit.keys() - {"edit", "reruns", "jobs"}
        value = edit[kind]
        getattr(self, kind)(*(value if isinstance(value, list) else [value]))

    def undo(self) -> None:
        for path, text in self._before.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self._before.clear()

    # --- kinds of changes, as edits.yaml names them

    def write(self, path: str, text: str) -> None:
        place = self.folder / path
        self._before.setdefault(place, place.read_text() if place.is_file() else None)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def append(self, path: str, text: str) -> None:
        self.write(path, (self.folder / path).read_text() + text)

    def code(self, module: str) -> None:
        self.append(f"src/mdc/{module}", "\nEDITED = True\n")

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        self.write(path, text.replace(old, new, 1))

    def set(self, key: str, value: Any) -> None:
        file = "params.yaml" if key.partition(".")[0] in SHARED else f"scales/{SCALE}.yaml"
        if key.startswith("methods."):
            files = [file, *(str(path.relative_to(ROOT)) for path in ROOT.glob("src/mdc/extensions/*/params.yaml"))]
            (file,) = (one for one in files if key.split(".")[1] in read_yaml(self.folder / one)["methods"])
        self.write(file, dump_yaml(put(read_yaml(self.folder / file), key, value)))

    def part(self, dictionary: str, module: str) -> None:
        self.write(f"src/mdc/{module.replace('.', '/')}.py", "NEW = True\n")
        self.append("src/mdc/plan/parts.py", f'{dictionary}["new"] = "mdc.{module}"\n')

    def artefact(self, named: bool) -> None:
        table9 = (self.folder / "src/mdc/report/tables/table9.py").read_text(encoding="utf-8")
        shown = re.search(r"^SHOWN = \{\n.*?^\}\n", table9, re.MULTILINE | re.DOTALL)
        assert shown is not None
        imports = "from mdc.report.tables.table9 import Block, Values, make, rows\n"
        self.write("src/mdc/report/tables/table99.py", imports + shown[0].replace('"table9"', '"table99"'))
        if named:
            values = read_yaml(self.folder / "params.yaml")
            values["artefacts"].append("table99")
            self.write("params.yaml", dump_yaml(values))
            self.set("tables.table99", {})

    def accepted(self, module: str) -> None:
        self.code(module)
        self.write("accepted_edits.json", '{"edits": []}')
        self.run(ACCEPT)


def page() -> str:
    """docs/edits.md: what stands above its table, and the table."""
    above = DOCS.read_text(encoding="utf-8").partition("| edit |")[0]
    return "\n".join(
        [f"{above}| edit | reruns |", "|---|---|", *(f"| {one['edit']} | {one['reruns']} |" for one in EDITS), ""]
    )


if __name__ == "__main__":
    DOCS.write_text(page(), encoding="utf-8")
