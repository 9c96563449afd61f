"""What is taken from inside Snakemake is there and does what workflow/rules/inside.smk says, in the version named there."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

INSIDE = Path(__file__).resolve().parents[2] / "workflow/rules/inside.smk"
#: the version in which it was read
SNAKEMAKE = "9.27"
_ASKS = f"""
include: "{INSIDE}"


say_parameters("mine.yaml")
limit_gpus(3)
say_lock(lambda: ValueError("at work"))
say_missing(lambda missing, names: f"nearest to {{missing}}: {{names}}")


rule one:
    output:
        "one.txt",
    shell:
        "touch {{output}}"


onstart:
    unlimited_rate()
    told = {{
        "main": MAIN,
        "cluster": ON_CLUSTER,
        "given": [str(one) if isinstance(one, Path) else one for one in given()],
        "configfiles": [str(one) for one in workflow.configfiles],
        "gpu": workflow.global_resources["gpu"].value,
        "rate": workflow.scheduler.job_rate_limiter is None,
    }}
    Path("told.yaml").write_text(yaml.safe_dump(told))
"""


def _snakemake(folder: Path, *words: str) -> str:
    (folder / "Snakefile").write_text(f"from pathlib import Path\nimport yaml\n{_ASKS}")
    (folder / "more.yaml").write_text("a: 1\n")
    call = [sys.executable, "-m", "snakemake", "--cores", "1", *words]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True)
    return done.stdout + done.stderr


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("snakemake").startswith(f"{SNAKEMAKE}.") and f"Snakemake {SNAKEMAKE}" in INSIDE.read_text()


def test_it_does_what_it_says(tmp_path: Path) -> None:
    said = _snakemake(tmp_path, "one.txt", "--configfile", "more.yaml", "--config", "more=2")
    assert (tmp_path / "one.txt").is_file(), said
    told = yaml.safe_load((tmp_path / "told.yaml").read_text())
    first, values = told.pop("given")
    assert Path(first).name == "more.yaml" and values["more"] == 2
    files = told.pop("configfiles")
    assert files[0] == "mine.yaml" and Path(files[-1]).name == "more.yaml"
    assert told == {"main": True, "cluster": False, "gpu": 3, "rate": True}


def test_a_missing_target_has_its_nearest(tmp_path: Path) -> None:
    assert "nearest to two.txt: ['one']" in _snakemake(tmp_path, "two.txt")


@pytest.mark.parametrize("allowed", ["1", "7"])
def test_a_limit_that_is_given_stays(tmp_path: Path, allowed: str) -> None:
    _snakemake(tmp_path, "one.txt", "--resources", f"gpu={allowed}")
    assert yaml.safe_load((tmp_path / "told.yaml").read_text())["gpu"] == int(allowed)


def test_its_lock_says_what_the_workflow_says(tmp_path: Path) -> None:
    locks = tmp_path / ".snakemake/locks"
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text(f"{tmp_path / 'one.txt'}\none.txt\n")
    assert "at work" in _snakemake(tmp_path, "one.txt")
