"""An extension is left out by deleting its folder, and what scales say with its names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from left_out import EXTENSIONS, copy_without
from scale_files import ROOT, SHARED, plain
from toy_project import toy

from mdc.plan.config.layers import spread
from mdc.plan.config.yaml_core import read_yaml

#: tests of the core's own mathematics
UNIT = (
    "diffusion/test_sampling.py",
    "models/test_contrastive.py",
    "models/test_encoder.py",
    "models/test_text_transformer.py",
)

pytestmark = pytest.mark.slow


def _run(folder: Path, *words: str) -> str:
    path = os.pathsep.join([str(folder / "src"), str(ROOT / "tests/support")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "MDC_SOURCES_COMPARED": "1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    call = [sys.executable, "-m", *words]
    done = subprocess.run(call, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("left_out", EXTENSIONS)
def test_all_of_mini_is_planned_without_it(tmp_path: Path, left_out: str) -> None:
    copy_without(tmp_path, [left_out], "mini", plain(spread(read_yaml(ROOT / "scales/mini.yaml"))))
    assert "good; scale mini" in _run(tmp_path, "mdc.app.cli", "check")
    said = _run(tmp_path, "snakemake", "-n", "all")
    assert "make_table1" in said and "make_table3" in said
    tests = [str(ROOT / "tests/unit" / name) for name in UNIT]
    assert "100%" in _run(tmp_path, "pytest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-q", *tests)


def test_table_1_is_made_without_any(tmp_path: Path) -> None:
    copy_without(tmp_path, EXTENSIONS, "toy", {key: value for key, value in toy().items() if key not in SHARED})
    assert "good; scale toy" in _run(tmp_path, "mdc.app.cli", "check")
    _run(tmp_path, "snakemake", "results/table1.csv", "--cores", "2")
    assert "MDC" in (tmp_path / "results/toy/table1/table1.csv").read_text(encoding="utf-8")
