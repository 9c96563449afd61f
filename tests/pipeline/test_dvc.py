"""dvc.yaml covers what decides each layer: every stage has the files of parameters among its deps, and keeps its layers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from scale_files import SCALES, scale_values

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import validate

ROOT = Path(__file__).resolve().parents[2]
DVC = yaml.safe_load((ROOT / "dvc.yaml").read_text())
#: a job's layer is the first part of its name, and a layer's stage is
STAGE = {
    "data": "data",
    **dict.fromkeys(("runs", "lr", "tokenizers", "words", "encoders", "encoded"), "pretrain"),
    "probe": "probe",
    **dict.fromkeys(("scores", "retrieval", "positions", "zero-shot"), "score"),
    **dict.fromkeys(("captions", "metrics", "judged"), "caption"),
    **dict.fromkeys(ARTEFACTS, "artefact"),
}


def test_every_stage_depends_on_all_parameters_and_all_code() -> None:
    for name, stage in DVC["stages"].items():
        assert {"params.yaml", "scales/${scale}.yaml", "src/mdc"} <= set(stage["deps"]), name
        # of what makes no table the rules say what else is read
        assert name in ("artefact", "index") or {"workflow", "Snakefile"} <= set(stage["deps"]), name
    # for `dvc params diff` and `dvc exp show`
    assert DVC["params"] == ["params.yaml", "scales/${scale}.yaml"]


def test_a_stage_a_layer_and_an_entry_of_the_matrix_an_artefact() -> None:
    stages = dict(DVC["stages"])
    assert list(stages) == [*dict.fromkeys(STAGE.values()), "index"]
    index = stages.pop("index")  # it has no outs: the page is made of what lies here, and says what that took
    # DVC has no list in the place of deps, so the page names what the tables and figures are made from
    assert "outs" not in index and index["deps"] == stages["artefact"]["deps"]
    assert stages["artefact"]["matrix"] == {"name": "${artefacts}"}
    scales = [scale_values(name) for name in SCALES]
    declared = {name for values in scales for name in validate(values).declared}
    assert set(scales[0]["artefacts"]) == declared, "each has a stage, and no stage has none"
    for name, stage in stages.items():
        layers = ["${item.name}"] if name == "artefact" else [layer for layer, one in STAGE.items() if one == name]
        assert stage["outs"] == [{"results/${scale}/" + layer: {"persist": True}} for layer in layers]
        asked = "${item.name}" if name == "artefact" else name
        assert stage["cmd"].endswith(f"workflow/stage {asked} --scale ${{scale}}")
    files = {"results/${scale}/" + f"{name}/{file}" for name, one in ARTEFACTS.items() for file in one.files}
    plotted = {file for plot in DVC["plots"] for body in plot.values() for file in body["y"]}
    assert {*DVC["metrics"], *plotted} <= files


def test_a_stage_calls_the_environment_that_dvc_runs_in(tmp_path: Path) -> None:
    """Not activated, in a folder with a space, on a machine without `ps`; and also with core.autocrlf."""
    source, project, tools = tmp_path / "source", tmp_path / "ein Projekt", tmp_path / "tools"
    (source / "workflow").mkdir(parents=True)
    for file in (".gitattributes", "workflow/stage"):
        shutil.copy(ROOT / file, source / file)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "core.autocrlf=true"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"], ["clone", "-q", ".", project]):
        subprocess.run([*git, *words], cwd=source, check=True)
    bin = project / ".venv/bin"
    bin.mkdir(parents=True)
    (bin / "mdc").write_text('#!/bin/sh\necho "$0" "$@"\n')
    (bin / "mdc").chmod(0o755)
    (bin / "python").symlink_to(Path(sys.executable).resolve())
    tools.mkdir()
    for tool in ("sh", "tr", "sed", "head"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    call = "import subprocess; subprocess.run('workflow/stage data --scale mini', shell=True, check=True)"
    variables = {**os.environ, "PATH": str(tools)}
    done = subprocess.run([bin / "python", "-c", call], cwd=project, env=variables, capture_output=True, text=True)
    assert done.stdout == f"{bin}/mdc stage data --scale mini\n", done.stderr
