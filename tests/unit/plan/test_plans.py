"""No value of any job of any scale changes unseen: a digest of each scale's plan, without what follows from code alone."""

import re
from pathlib import Path
from typing import Any

import pytest
from read_table import read_table
from scale_files import SCALES
from scale_plans import plan_of

from mdc.plan.config.yaml_core import dump_yaml
from mdc.plan.records import sha256_json

UPDATE = "PYTHONPATH=tests/support python tests/unit/plan/test_plans.py"


def without_code(value: Any) -> Any:
    """A configuration without fingerprints, and without what else is a hash: of code, of a file, or of another configuration."""
    if isinstance(value, dict):
        return {key: without_code(one) for key, one in value.items() if key != "fingerprint"}
    if isinstance(value, list):
        return [without_code(one) for one in value]
    return None if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) else value


def digest(scale: str) -> str:
    return sha256_json({name: without_code(job.config()) for name, job in plan_of(scale).jobs.items()})


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_asks_for_the_same_jobs_with_the_same_values(scale: str) -> None:
    changed = f"a value of some job of scale {scale} is another one than before; if it is meant to be: {UPDATE}"
    assert read_table(__file__, "digests").get(scale) == digest(scale), changed


def test_a_changed_value_is_seen_and_changed_code_is_not() -> None:
    config = {"fingerprint": "a" * 64, "lr": 0.1, "expected": {"runs/x": "b" * 64}, "inputs": ["runs/x"]}
    other = {**config, "fingerprint": "c" * 64, "expected": {"runs/x": "d" * 64}}
    assert without_code(config) == without_code(other) != without_code({**config, "lr": 0.2})


if __name__ == "__main__":
    told = "# The plan of each scale, as test_plans.py digests it.\n"
    written = told + dump_yaml({"digests": {scale: digest(scale) for scale in SCALES}})
    Path(__file__).with_suffix(".yaml").write_text(written, encoding="utf-8")
