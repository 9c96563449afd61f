"""The report of the first hour on a GPU: every section reports, on tiny models, and a section that breaks down ends no other."""

import json
import subprocess
import sys
from pathlib import Path

import first_hour
import pytest

SCRIPT = Path(first_hour.__file__)


@pytest.mark.slow
def test_every_section_reports(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), "--quick", "--out", str(tmp_path)], check=True, capture_output=True)
    found = json.loads((tmp_path / "report.json").read_text())["sections"]
    assert list(found) == list(first_hour.SECTIONS)
    for name, section in found.items():
        assert section["rows"] and not section["ended"], name
        failed = [row for row in section["rows"] if "failed" in row]
        assert all("not here" in row["failed"] for row in failed), (name, failed)
    assert {row["verdict"] for row in found["curves"]["rows"]} == {"together"}
    assert found["hours"]["rows"][-1]["GPU hours"] > 0
    report = (tmp_path / "report.md").read_text()
    assert all(f"## {name}" in report for name in first_hour.SECTIONS)


def test_what_takes_too_long_or_breaks_down_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "stand_in.py"
    script.write_text(
        "import sys, time; print('so far', flush=True); time.sleep(600 * (sys.argv[1] == 'sleep')); sys.exit(3)"
    )
    monkeypatch.setattr(first_hour, "section_call", lambda name, path, quick: [str(script), name])
    log = tmp_path / "log.txt"
    slow, broken = (first_hour.run_section(name, 5, True, log) for name in ("sleep", "other"))
    assert slow["ended"] == "it was ended after 5 s" and broken["ended"] == "it ended with code 3"
    assert slow["last lines"] == broken["last lines"] == ["so far"] and slow["rows"] == []
    about = {"GPUs": [], "processor": "one", "versions": {"torch": "2"}, "command": "python"}
    first_hour.write_report(
        tmp_path, about, {"tests": slow, "hours": broken | {"rows": [{"what": "a|b", "GPU hours": 1234.5}]}}
    )
    report = (tmp_path / "report.md").read_text()
    assert "**it was ended after 5 s**" in report and "| a¦b | 1,234 |" in report
