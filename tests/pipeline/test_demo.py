"""`mdc demo` in a real browser: an image is dropped, its caption appears, mistakes are told, and two people use it at once.

With MDC_DEMO_RUN (a run's folder) and MDC_PICTURES (a folder) it is that run that is shown, and pictures of the page are left
there: so those of the docs are made.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import needs_chromium, opened
from playwright.sync_api import TimeoutError as NotYet
from small_project import ARC, CLIP, TUNED

import mdc
from mdc.app.cli import main
from mdc.app.demo.examples import examples
from mdc.data.shards.index import ShardReader

LSTM, MCD = "alt/cnn/lstm/s0", "described/on-codes/mcd_cfg/s0"
#: a proxy that nobody is behind: the page must be served without asking one
NOBODY = "http://127.0.0.1:9"
PATIENCE = 120.0


def picture(page: Any, name: str) -> None:
    """Leave a picture of the page where pictures are wanted."""
    if wanted := os.environ.get("MDC_PICTURES"):
        page.wait_for_timeout(4000)
        page.screenshot(path=str(Path(wanted) / name), full_page=True)


class Served:
    """The page of a run, in a process of its own."""

    def __init__(self, run: str, scale: str, log: Path) -> None:
        call = [sys.executable, "-m", "mdc.app.cli", "demo", run, "--port", "0", "--scale", scale]
        self.log, self.kept = log, log.with_name("kept")
        self.kept.mkdir(exist_ok=True)
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                call,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                bufsize=1,
                env={
                    **{name: value for name, value in os.environ.items() if name.lower() != "no_proxy"},
                    **{"TMPDIR": str(self.kept), "HTTP_PROXY": NOBODY, "HTTPS_PROXY": NOBODY, "http_proxy": NOBODY},
                },
            )
        assert self.process.stdout is not None
        until = time.monotonic() + PATIENCE
        line = ""
        while "http" not in line and time.monotonic() < until and self.process.poll() is None:
            if select.select([self.process.stdout], [], [], 1.0)[0]:
                line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, log.read_text()
        self.url = found[0]

    def close(self) -> None:
        assert list(self.kept.glob("mdc-demo-*"))
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)
        assert not list(self.kept.glob("mdc-demo-*")), "no picture that somebody dropped is left"


@contextlib.contextmanager
def opened_page(run: str, scale: str, log: Path) -> Iterator[Any]:
    """The page of a run, which is served as long as the block lasts and says nothing of an error."""
    with contextlib.closing(Served(run, scale, log)) as found, opened(900) as page:
        page.goto(found.url)
        yield page
    assert "Traceback" not in log.read_text()


@pytest.fixture
def served(r: Path, tmp_path: Path) -> Iterator[Served]:
    with contextlib.closing(Served(os.environ.get("MDC_DEMO_RUN", TUNED), r.name, tmp_path / "log.txt")) as found:
        yield found


@pytest.fixture
def photo(r: Path, tmp_path: Path) -> Path:
    """An image that the run captions rightly, if one was named, else any."""
    if run := os.environ.get("MDC_DEMO_RUN"):
        return examples(mdc.load(run), tmp_path).images[0][0]
    _, data, _ = ShardReader(r / "data/corpora/alt/index.json", "val").read(1)
    (tmp_path / "photo.png").write_bytes(data)
    return tmp_path / "photo.png"


def drop(page: Any, file: Path) -> None:
    """Drop a file, again if need be: a page that has just loaded does not yet listen to its own fields, and one that is loading
    may lose what it was given."""
    name, field = page.get_by_text(file.name).first, page.locator("#image input[type=file]")
    until = time.monotonic() + 2 * PATIENCE
    while time.monotonic() < until:
        if field.count():
            field.set_input_files(str(file))
        with contextlib.suppress(NotYet):
            name.wait_for(timeout=15_000)
            return
        if not field.count():  # it was taken, and is not shown
            page.reload()
            page.locator("#image").wait_for()
    raise AssertionError(f"{file.name} was not taken by a page that says: {page.inner_text('body')}")


def show(page: Any, tab: str) -> None:
    """Show a tab. It is made when it is first shown, and until then what is typed is replaced by its first values."""
    page.get_by_role("tab", name=tab).click()
    page.wait_for_timeout(1000)


@needs_chromium
def test_a_person_tries_a_run(
    served: Served, r: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(1280, height=1000) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(served.url)
        # nothing was dropped yet
        page.locator("#caption").click()
        page.get_by_text("drop an image first").wait_for()
        page.reload()
        drop(page, photo)
        page.locator("#caption").click()
        words = page.locator("p.written")
        words.wait_for()
        if "MDC_DEMO_RUN" not in os.environ:
            capsys.readouterr()
            assert main(["caption", "--run", TUNED, "--scale", r.name, str(photo)]) == 0
            assert words.inner_text() in capsys.readouterr().out
        # one more place is revealed in each row, and each word has its picture
        rows = page.locator("table.moments tr")
        hidden = [row.locator("td.hidden").count() for row in rows.all()]
        assert hidden == sorted(hidden, reverse=True) and hidden[-1] == 0
        assert all(row.locator("td.new").count() == 1 for row in rows.all())
        looks = page.locator(".looks img")
        looks.first.wait_for()
        assert looks.count() == rows.count()
        picture(page, "demo-caption.png")
        # three pieces a step
        page.get_by_label("tokens per step").fill("3")
        page.locator("#caption").click()
        page.wait_for_function("count => document.querySelectorAll('table.moments tr').length < count", arg=len(hidden))
        # words that are given stay
        show(page, "Fill in")
        page.locator("#gaps textarea, #gaps input").first.fill("a ? circle")
        page.locator("#fill").click()
        filled = page.locator("p.written:visible")
        filled.wait_for()
        assert re.fullmatch(r"a .* circle", filled.inner_text())
        picture(page, "demo-fill.png")
        # scores are those of mdc score, the best caption first
        show(page, "Score")
        page.locator("#captions textarea").fill("a red circle\n\na blue square\na zebra")
        page.locator("#score").click()
        page.locator("#scores table").first.wait_for()
        values = [
            float(one) for one in page.locator("#scores table >> nth=0").locator("td:first-child").all_inner_texts()
        ]
        assert len(values) == 2 and values[0] >= values[1]
        assert "zebra" in page.locator("#scores table").last.inner_text(), "apart, though it scores higher"
        picture(page, "demo-score.png")
        # classes, the likeliest first
        show(page, "Zero-shot")
        page.locator("#classes textarea").fill("circle, star\nsquare")
        page.locator("#template textarea, #template input").first.fill("a {class}")
        page.locator("#template textarea, #template input").first.press("Enter")
        page.locator("#classified table").wait_for()
        shares = page.locator("#classified tr td:nth-child(2)").all_inner_texts()
        assert len(shares) == 3 and sum(float(one.rstrip("%")) for one in shares) == pytest.approx(100, abs=0.2)
        picture(page, "demo-classes.png")
        outside = [url for url in asked if not url.startswith((served.url, "data:", "blob:"))]
        assert not outside, "nothing is loaded from elsewhere, and nothing is sent there"


@needs_chromium
def test_a_broken_file_and_two_people_at_once(served: Served, photo: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with opened(1280) as page:
        page.goto(served.url)
        drop(page, tmp_path / "broken.png")
        page.get_by_text("broken.png: cannot be decoded").first.wait_for()
        # another person's page beside it: each gets an answer to their own question
        other = page.context.new_page()
        other.goto(served.url)
        for one, count in ((page, "4"), (other, "6")):
            one.reload()
            drop(one, photo)
            one.get_by_label("tokens").first.fill(count)
        for one in (page, other):
            one.locator("#caption").click(no_wait_after=True)
        for one, count in ((page, 4), (other, 6)):
            one.locator("p.written").wait_for()
            assert one.locator("table.moments tr").first.locator("td").count() == 1 + count
    assert "Traceback" not in served.log.read_text()


@needs_chromium
def test_on_a_phone_and_by_keys_everything_can_be_reached(served: Served, photo: Path) -> None:
    with opened(390) as page:
        page.goto(served.url)
        page.locator("#examples-text").get_by_text("xamples: ").wait_for()
        drop(page, photo)
        page.get_by_label("tokens").first.focus()
        for _ in range(4):
            page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "caption"
        page.keyboard.press("Enter")
        page.locator("p.written").wait_for()
        looks = page.locator(".looks img")
        looks.last.wait_for()
        wide = page.evaluate("document.documentElement.scrollWidth")
        places = [box for one in looks.all() if (box := one.bounding_box())]
        assert wide == 390 and len(places) == page.locator("table.moments tr").count()
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in places), "no picture is cut off"


@needs_chromium
def test_other_methods_have_the_tabs_that_they_can_serve(r: Path, photo: Path, tmp_path: Path) -> None:
    for run, tabs in ((ARC, ["Caption", "Score", "Zero-shot"]), (CLIP, ["Score", "Zero-shot"])):
        with opened_page(run, r.name, tmp_path / "log.txt") as page:
            page.get_by_role("tab").first.wait_for()
            assert page.get_by_role("tab").all_inner_texts() == tabs


@needs_chromium
def test_an_lstm_and_a_diffusion_with_replacement_have_options_of_their_own(
    r: Path, photo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run, fields, asked, looks, more in (
        (LSTM, {"beams": "2"}, ["--beam", "2"], "its attention α", {"beams": ("1000000000", "256")}),
        (
            MCD,
            {"sampling steps": "2", "guidance": "3"},
            ["--policy", "best_first", "--steps", "2", "--guidance", "3"],
            "is not shown",
            {"sampling steps": ("100000", "at most")},
        ),
    ):
        capsys.readouterr()
        assert main(["caption", "--run", run, "--scale", r.name, str(photo), *asked]) == 0
        told = capsys.readouterr().out
        with opened_page(run, r.name, tmp_path / "log.txt") as page:
            page.get_by_text("What each word looked at").wait_for()
            assert looks in page.inner_text("body")
            drop(page, photo)
            if "best_first" in asked:
                page.get_by_label("best_first").check()
            for label, value in fields.items():
                page.get_by_label(label).fill(value)
            page.locator("#caption").click()
            page.locator("p.written").wait_for()
            assert page.locator("p.written").inner_text().strip() in told
            assert page.locator("table.moments tr").count()
            if run == LSTM:
                page.locator(".looks img").first.wait_for()
            for label, (value, said) in more.items():
                page.get_by_label(label).fill(value)
                page.locator("#caption").click()
                page.locator(".toast-body").get_by_text(said).first.wait_for()


def test_what_cannot_be_served_ends_in_one_line(
    r: Path, refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no folder with a run.json" in refused("demo", "alt/ViT-T-12/nobody/s0", "--scale", r.name)
    error = refused("demo", TUNED, "--scale", r.name, "--port", "99999")
    assert error.endswith("--port 99999: 1 to 65535, or 0 for any free port\n")
    monkeypatch.setitem(sys.modules, "gradio", None)
    assert "needs Gradio" in refused("demo", TUNED, "--scale", r.name)
