from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote, so these tests see no difference; a busy disk takes seconds."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
