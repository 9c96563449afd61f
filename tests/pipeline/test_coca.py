"""CoCa as a row of reference, written by our beam search: a tiny one of open_clip with drawn weights."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import small_project
from small_project import do_jobs
from tiny_clip import write_clip
from tiny_coca import write_coca

from mdc.evaluation import coca
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError

JOBS = ["captions/coca/coca/described", "metrics/coca/coca/described", "judged/described/s0"]
JOBS += ["judged/described/s1", "judged/on_clip/s0", "judged/on_clip/s1", "table3", "figure6"]


def _plan(model: Path, **changes: Any) -> Plan:
    values: dict[str, Any] = small_project.values((0, 1))
    captions, entry = values["captions"], {"model": f"local-dir:{model}", "max_tokens": 12, **changes}
    captions["coca"] = {"coca": {"label": "CoCa", "datasets": ["described"], **entry}}
    captions["judge"]["contests"]["with"] = {"label": "chosen with CoCa", "systems": ["arc", "mdc_6", "coca"]}
    for name in ("table3", "figure6"):
        values["tables"][name]["systems"] = [*values["tables"][name]["systems"], "coca"]
    return Plan(validate(values))


def _captions(r: Path) -> list[str]:
    return [row["caption"] for row in parquet.read_table(r / f"{JOBS[0]}/captions.parquet").to_pylist()]


@pytest.mark.usefixtures("own_copy")
def test_it_is_a_row_of_reference_and_enters_its_contest(r: Path, tmp_path: Path) -> None:
    do_jobs(_plan(write_coca(tmp_path)), JOBS)
    rows = parquet.read_table(r / f"{JOBS[0]}/captions.parquet").to_pylist()
    assert len(rows) == 8 and {row["system"] for row in rows} == {"coca"}
    assert all(row["caption"] and "text>" not in row["caption"] for row in rows)
    text = (r / "table3/table3.md").read_text()
    (row,) = [line for line in text.split("### More")[0].splitlines() if line.startswith("| *CoCa*")]
    assert row.startswith("| *CoCa* | *–* |")
    assert (
        "CoCa: an external model (open\\_clip)" in text and "6 plain beams write captions of five to 12 tokens" in text
    )
    page = (r / "figure6/figure6.html").read_text()
    assert any(row["caption"] in page for row in rows)


@pytest.mark.usefixtures("own_copy")
def test_a_killed_job_goes_on_and_other_weights_write_anew(
    r: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, search, asked = _plan(write_coca(tmp_path), num_beams=1), coca.search, list[int]()

    def killed(model: Any, pixels: Any, *more: Any) -> list[list[int]]:
        asked.append(len(pixels))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return search(model, pixels, *more)

    monkeypatch.setattr(coca, "_PART", 3)
    monkeypatch.setattr(coca, "search", killed)
    with pytest.raises(KeyboardInterrupt):
        do_jobs(plan, JOBS[:1])
    assert asked == [3, 3, 2] and not (r / JOBS[0] / "captions.json").exists()
    do_jobs(plan, JOBS[:1])
    assert asked == [3, 3, 2, 2]
    before = _captions(r)
    shutil.rmtree(r / JOBS[0])
    write_coca(tmp_path, seed=1)
    do_jobs(plan, JOBS[:1])
    assert asked == [3, 3, 2, 2, 3, 3, 2] and _captions(r) != before


@pytest.mark.usefixtures("own_copy")
def test_a_model_that_writes_nothing_ends_in_one_line(r: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"local-dir:\S+ writes no captions; allowed: a CoCa"):
        do_jobs(_plan(write_clip(tmp_path)), JOBS[:1])


def test_where_it_does_not_caption_its_contest_goes_on_without_it() -> None:
    jobs = _plan(Path("x")).jobs
    contests = jobs["judged/described/s0"].contests  # type: ignore[attr-defined]
    assert contests["with"] == ["arc", "mdc_6", "coca"]
    on_clip = jobs["judged/on_clip/s0"].contests  # type: ignore[attr-defined]
    assert on_clip == {"with": ["arc", "mdc_6"]}
