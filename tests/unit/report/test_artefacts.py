"""What holds of every table and figure, whatever it shows: its files, their bytes, and the manifests that it refuses."""

import html
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from data_samples import write_texts
from positions_world import positions_world
from probing_world import ConvergingWorld, ProbingWorld, RepeatedWorld
from shown import LoggedRuns, make, planned, read_rows, shown_job, shown_run, write_made

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.records import UserError
from mdc.report.manifests import title

World = tuple[Any, dict[str, Path]]


def _written(made: ProbingWorld, folder: Path) -> World:
    return made.job, made.write(folder)


def _probing(artefact: str) -> Callable[[Path], World]:
    def skill(corpus: str | None, method: str, probe: str, seed: int) -> float:
        return {"mdc": 0.7, "arc": 0.6}.get(method, 0.4) + 0.05 * (corpus == "dense")

    def world(folder: Path) -> World:
        corpora = {"alt": ["arc", "mdc"], "dense": ["arc", "mdc"]}
        pairs, ranges = {"alt": 800, "dense": 1600}, {"arc": (0.3, 0.3), "mdc": (0.5, 1.0)}
        more: dict[str, Any] = {"artefact": artefact, "ranges": ranges, "contrasts": [("mdc", "arc")]}
        return _written(ProbingWorld(corpora, skill, pairs, **more), folder)

    return world


def _logs(folder: Path) -> World:
    made = LoggedRuns(folder)
    for method in ("mdc", "mdc_0_100"):
        made.add(shown_run("short", method, 0), [{"step": step, "loss": 3.0, "grad_norm": 2.0} for step in (1, 2, 3)])
    return made.asked("figure_loss"), made.given


def _lengths(folder: Path) -> World:
    folder.mkdir()
    (folder / "l.tsv").write_text("a dog\tu\na cat and a dog\tu\n")
    source = {"kind": "caption_list", "path": "l.tsv", "header": False, "caption_column": 0}
    names = ("data/texts/some", "data/texts/more")
    for name in names:
        write_texts(name[11:], source, folder / name, folder, 77)
    sets = [{"job": name, "key": name[11:], "label": name[11:], "split": "all"} for name in names]
    given = {name: write_made(folder / name / "index.json", name) for name in names}
    return shown_job("figure3", names, context_length=77, sets=sets), given


def _planned(artefact: str) -> Callable[[Path], World]:
    """Made from the configuration alone."""
    return lambda folder: (planned("mini")[artefact], {})


WORLDS = {name: _probing(name) for name in ("table1", "table4", "figure4", "figure5")} | {
    "figure_repetition": lambda folder: _written(RepeatedWorld(), folder),
    "figure_convergence": lambda folder: _written(ConvergingWorld(), folder),
    "figure_loss": _logs,
    "figure_position": positions_world,
    "figure3": _lengths,
    **{name: _planned(name) for name in ("table6", "table7", "table8", "table9")},
}


@pytest.mark.parametrize("name", WORLDS)
def test_its_files_are_the_registrys_whole_and_equal_to_the_byte(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """… in whatever order its manifests are given, and whatever a user's matplotlibrc says; each says its scale."""
    job, given = WORLDS[name](tmp_path / "given")
    first = make(job, given, tmp_path / "first")
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 7)
    monkeypatch.setitem(matplotlib.rcParams, "svg.hashsalt", "other")
    again = make(job, dict(reversed(given.items())), tmp_path / "again")
    assert matplotlib.rcParams["lines.linewidth"] == 7, "what a user set is left alone"
    for out in (first, again):
        assert sorted(path.name for path in out.iterdir()) == sorted(ARTEFACTS[name].files)
    for path in first.iterdir():
        assert path.read_bytes() == (again / path.name).read_bytes(), path.name
        if path.suffix == ".csv":
            rows = read_rows(path)
            (told,) = {row["scale"] for row in rows}
            assert told == job.scale, path.name
        elif path.suffix in (".html", ".md", ".tex", ".svg"):
            assert job.scale in html.unescape(path.read_text(encoding="utf-8")), path.name
        if path.suffix == ".svg":
            ElementTree.parse(path)


@pytest.mark.parametrize("name", [name for name in WORLDS if name not in ("table6", "table7", "table8", "table9")])
def test_a_manifest_that_is_not_the_one_it_needs_is_refused_in_one_line(name: str, tmp_path: Path) -> None:
    job, given = WORLDS[name](tmp_path / "given")
    needed, path = next(iter(given.items()))

    def refused(match: str, given: dict[str, Path] = given, **changes: Any) -> None:
        path.write_text(json.dumps({**whole, **changes}))
        with pytest.raises(UserError, match=match) as told:
            make(job, given, tmp_path / "out")
        assert "\n" not in str(told.value) and not (tmp_path / "out").exists()

    whole = json.loads(path.read_text())
    refused(f"{title(name)}: no manifest of {needed} was given", {k: v for k, v in given.items() if k != needed})
    if name == "figure3":  # an index of a set, which has no configuration
        refused("not the file that .* names", name="another")
        return
    refused(f"is no record of {needed}, which {title(name)} needs", id="x")
    refused(f"the record of {needed} is stale", config_sha256="0" * 64)
    refused(f"the record of {needed} is of scale paper; needed: mini", config={**whole["config"], "scale": "paper"})


def test_every_table_and_figure_has_a_title_of_its_own() -> None:
    titles = [one.title for one in ARTEFACTS.values()]
    assert len(set(titles)) == len(titles)


def test_planning_imports_neither_numpy_nor_matplotlib_for_a_module_with_its_own_rows() -> None:
    modules = sorted({one.module for one in ARTEFACTS.values() if one.plan == "rows"})
    code = f"import sys, {', '.join(modules)}; print({{'numpy', 'torch', 'matplotlib', 'pandas'}} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert modules and done.stdout.strip() == "set()"
