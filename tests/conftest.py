"""Shared pieces of the tests: tiny towers, random batches, and what makes a run repeatable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

# Files that make whole pipelines: started first, or one worker would be left alone with them at the end.
LONGEST = (
    "test_pipeline",
    "test_dvc_trials",
    "test_edits",
    "test_provenance",
    "test_why",
    "test_vouch",
    "test_interruption",
    "test_fuzz_readers",
    "test_slurm",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        stem = Path(item.path).stem
        return LONGEST.index(stem) if stem in LONGEST else len(LONGEST)

    items.sort(key=place)  # stable: all else stays as it was
