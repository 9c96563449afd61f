"""The tables of a test: a YAML file beside it, of its name."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml


@cache
def _read(path: Path) -> Any:
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def read_table(test: str, name: str) -> Any:
    """The table ``name`` beside the file ``test``."""
    return _read(Path(test).with_suffix(".yaml"))[name]
