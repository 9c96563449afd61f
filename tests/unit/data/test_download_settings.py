"""A process that downloads does it as params.yaml says: every value reaches what it is of, and none another's place."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import pytest

from mdc.obtain import worker
from mdc.obtain.resize import Resize
from mdc.obtain.transfers.addresses import networks
from mdc.obtain.transfers.guard import Limits, Opener

#: no two alike
SETTINGS: dict[str, Any] = {
    "image_size": 61,
    "quality": 62,
    "min_image_size": 13,
    "max_pixels": 1_000_003,
    "max_aspect": 7.5,
    "timeout": 3.5,
    "deadline": 11.5,
    "max_bytes": 70_001,
    "retries": 4,
    "threads": 5,
    "rows_per_shard": 17,
    "allow_addresses": ["10.1.0.0/16"],
    "use_proxy": True,
}


@pytest.mark.parametrize("robots", [True, False])
def test_every_setting_reaches_what_it_is_of(robots: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")  # img2dataset imports it, and it would ask the network
    installed: list[Opener] = []
    monkeypatch.setattr(urllib.request, "install_opener", installed.append)
    told = {**SETTINGS, "respect_robots": robots, "folder": str(tmp_path)}
    folder, downloader = worker._prepare(told)
    made = downloader(None)
    assert folder == tmp_path and Path(made.output_folder) == tmp_path / "shards"
    names = ("timeout", "deadline", "max_bytes", "retries", "use_proxy")
    limits = Limits(**{name: told[name] for name in names}, exceptions=networks(told["allow_addresses"]))
    assert [opener._limits for opener in installed] == [limits]
    names = ("image_size", "quality", "min_image_size", "max_pixels", "max_aspect")
    assert made.resizer == Resize(**{name: told[name] for name in names})
    assert (made.thread_count, made.number_sample_per_shard) == (5, 17)
    assert bool(made.disallowed_header_directives) == robots
