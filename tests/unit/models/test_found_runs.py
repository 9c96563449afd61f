"""A run is named by its folder or by its id, and found at any scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from mdc.evaluation.ask import run_folder
from mdc.records import UserError

PARAMS = str(Path(__file__).resolve().parents[3] / "params.yaml")
RUN = "alt/tiny/mdc/s0"


def _run(scale: str, run: str = RUN) -> Path:
    folder = Path("results") / scale / "runs" / run
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    return folder


def test_found_at_its_own_scale_or_the_only_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="none yet"):
        run_folder(RUN, PARAMS, None)
    scenes = _run("scenes")
    for name in (RUN, f"runs/{RUN}", str(scenes)):
        assert run_folder(name, PARAMS, None) == scenes
    assert run_folder(RUN, PARAMS, "scenes") == scenes
    with pytest.raises(UserError, match="scale paper has no such run, but scenes"):
        run_folder(RUN, PARAMS, "paper")
    _run("flickr8k")
    with pytest.raises(UserError, match=r"flickr8k, scenes have; choose by --scale"):
        run_folder(RUN, PARAMS, None)
    mini = _run("mini")  # the one that params.yaml names
    assert run_folder(RUN, PARAMS, None) == mini
    with pytest.raises(UserError, match=RUN):
        run_folder("alt/tiny/arc/s0", PARAMS, None)
