"""Progress of long jobs: in a file a line a minute, of jobs that take longer than that."""

import io
import re

import pytest

from mdc.plan.progress import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    return now


def test_a_file_gets_a_whole_line_a_minute_and_a_last_one(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress(total=600, desc="runs/x", unit="step") as bar:
        for step in range(600):
            clock[0] += 0.5
            bar.set_postfix({"loss": f"{step}"}, refresh=False)
            bar.update()
    for _ in progress(range(3), desc="each item takes minutes", unit="probe"):
        clock[0] += 100
    said = capsys.readouterr().err
    assert "\r" not in said and said.endswith("\n")
    ours = [line for line in said.splitlines() if line.startswith("runs/x: ")]
    assert [re.search(r"(\d+)/600", line)[1] for line in ours] == ["120", "240", "360", "480", "600", "600"]  # type: ignore[index]
    assert "02:00<03:00,  2.00step/s, loss=239]" in ours[1]
    assert said.count("each item takes minutes: ") == 3 + 1


def test_what_is_done_sooner_says_nothing_in_a_file(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    for _ in progress(range(100)):
        clock[0] += 0.5
    assert capsys.readouterr().err == ""


def test_a_screen_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", screen)
    list(progress(range(3), desc="few"))
    assert "\r" in screen.getvalue() and "3/3" in screen.getvalue()
