"""Shared pieces of the tests: tiny towers, random batches, and what makes a run repeatable."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
