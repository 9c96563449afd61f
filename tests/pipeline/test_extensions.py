"""An extension is left out by deleting its folder."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: a scale of the paper's own methods
SCALE = "flickr8k"

pytestmark = pytest.mark.slow


def _run(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "MDC_SOURCES_COMPARED": "1"}
    call = [sys.executable, "-m", *words]
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


ALL = ["mc_diffusion", "blog", "neighbours"]


@pytest.mark.parametrize("left_out", [*([name] for name in ALL), ALL], ids=" ".join)
def test_a_scale_of_the_core_is_planned_without_it(tmp_path: Path, left_out: list[str]) -> None:
    for name in ("src/mdc", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "scales").mkdir()
    for file in ("Snakefile", f"scales/{SCALE}.yaml"):
        shutil.copy(ROOT / file, tmp_path / file)
    values = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(re.sub("(?m)^scale: .*$", f"scale: {SCALE}", values), encoding="utf-8")
    for name in left_out:
        shutil.rmtree(tmp_path / "src/mdc/extensions" / name)
    assert f"good; scale {SCALE}" in _run(tmp_path, "mdc.app.cli", "check")
    assert "make_table1" in _run(tmp_path, "snakemake", "-n", "all")
