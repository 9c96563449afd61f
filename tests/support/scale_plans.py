"""Plans of the repository's scales: as they are, and with other values."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from changed import with_other
from scale_files import ROOT, scale_values

from mdc.plan.config.read import load, validate
from mdc.plan.jobs.plan import Plan


@cache
def plan_of(scale: str) -> Plan:
    """As it is; not to be changed."""
    return Plan(load(ROOT / "params.yaml", scale))


def changed_plan(*changes: tuple[Sequence[str | int], Any], scale: str = "mini") -> Plan:
    """With other values, each at its path."""
    values = scale_values(scale)
    for path, value in changes:
        values = with_other(values, path, value)
    return Plan(validate(values))
