"""results/index.html: all that a scale names, what is missing, and how it looks in a real browser."""

import html
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal

import pytest
import small_project
from browser import needs_chromium, opened
from scale_files import read_params
from shown import read_rows

from mdc.app.cli import main
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.read import load, read_yaml
from mdc.plan.config.yaml_core import dump_yaml
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, write_json
from mdc.plan.verbs import verb_of
from mdc.report.frame import CLAIMS
from mdc.report.index_page import a_caption, behind, decoding_times, duration, time_text, times

pytestmark = pytest.mark.usefixtures("own_copy")

PAGE = Path("results/index.html")


class Links(HTMLParser):
    """The places that a page links to or shows, and the ids of its parts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.places.append(value)
            if name == "id" and value:
                self.ids.append(value)


def made(r: Path) -> list[str]:
    return [name for name in ARTEFACTS if (r / name / f"{name}.json").is_file()]


def test_it_shows_everything_and_every_link_leads_somewhere(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index"]) == 0
    count = len(made(r))
    assert f"{count} of {count} tables and figures" in capsys.readouterr().out
    text = PAGE.read_text()
    links = Links(text)
    order = list(load("params.yaml").tables)
    assert links.ids == sorted(made(r), key=lambda name: (ARTEFACTS[name].category == "Figures", order.index(name)))
    for place in links.places:
        assert "://" not in place and not place.startswith("/"), "the page is moved with its folder"
        if place.startswith("#"):
            assert place[1:] in links.ids
        else:
            assert (PAGE.parent / place).is_file(), place
    for name in made(r):
        for file in (*ARTEFACTS[name].files, f"{name}.json"):
            assert f"{r.name}/{name}/{file}" in links.places
        for title in list(ARTEFACTS[name].shown.values())[:1]:
            assert title in text
    assert "Not made yet" not in text and "asks for now" not in text


def test_what_is_missing_or_stale_is_said(r: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(r / "table1")
    record = read_json(r / "figure3/figure3.json")
    write_json(r / "figure3/figure3.json", {**record, "config_sha256": "0" * 64})
    assert main(["index"]) == 0
    assert "not made yet: table1" in capsys.readouterr().out
    text = PAGE.read_text()
    assert "snakemake table1 --cores all" in text and text.count("ask for now") == 1
    assert text.index('id="figure3"') < text.index("ask for now")
    # what params.yaml says counts, also before the workflow has read it; most artefacts have intervals, not all
    values = read_yaml("params.yaml")
    values["protocol"]["statistics"]["bootstrap"] += 50
    Path("other.yaml").write_text(dump_yaml(values))
    assert main(["index", "--params", "other.yaml"]) == 0
    assert 1 < PAGE.read_text().count("ask for now") < len(made(r))
    assert {row["stale"] for row in read_rows(r / "claims.csv")} == {"True"}
    assert "(stale)" in (r / "claims.md").read_text()


def test_only_what_is_asked_for_and_elsewhere(r: Path) -> None:
    place = r / "mine.html"
    assert main(["index", "table1", "figure3", "--out", str(place)]) == 0
    links = Links(place.read_text())
    assert links.ids == ["table1", "figure3"]
    assert all((r / one).is_file() for one in links.places if not one.startswith("#"))


def test_a_scales_folder_may_be_a_link_to_another_disk(r: Path, tmp_path: Path) -> None:
    r.rename(tmp_path / "disk")
    r.symlink_to(tmp_path / "disk")
    assert main(["index"]) == 0
    assert all((PAGE.parent / one).is_file() for one in Links(PAGE.read_text()).places if not one.startswith("#"))


def test_what_it_took_is_the_sum_of_what_the_jobs_say(r: Path) -> None:
    folder = ScaleFolder(r)
    jobs = behind(folder, "table1")
    # by hand: the table's own inputs, their runs, and the data of both
    record = read_json(r / "table1/table1.json")
    probes = set(record["inputs"])
    runs = {job for probe in probes for job in read_json(r / probe / "probe.json")["inputs"] if job.startswith("runs/")}
    assert {job for job in jobs if job.startswith("probe/")} == probes
    assert {job for job in jobs if job.startswith("runs/")} == runs
    found = times(folder, jobs)
    seconds = sum(read_json(r / run / "host.json")["seconds"] for run in runs)
    assert found["trainings"] == (pytest.approx(seconds), len(runs)) and found["probes"][1] == len(probes)
    assert time_text({"data": (30.0, 2), "trainings": (700.0, 3)}) == (
        "12 min, one job after the other: data 30 s (2), trainings 12 min (3)"
    )
    assert [duration(s) for s in (0.0, 89.0, 90.0, 5399.0, 9000.0)] == ["1 s", "89 s", "2 min", "90 min", "2.5 h"]


def test_what_writing_a_caption_took(r: Path) -> None:
    """Of each system of the table, over datasets and seeds; baselines and other tables' systems are not among them."""
    folder = ScaleFolder(r)
    config = read_json(r / "table_guidance/table_guidance.json")["config"]
    jobs = [job for job in behind(folder, "table_guidance") if verb_of(job) == "write-captions"]
    hosts = [read_json(folder.host(job)).get("writing", {}) for job in jobs]
    found = decoding_times(folder, "table_guidance")
    own = [one for one in config["systems"] if not one.get("reference")]
    assert [label for label, _, _ in found] == [one["method"]["label"] for one in own] and len(found) > 1
    for (_, captions, seconds), system in zip(found, own, strict=True):
        parts = [each[system["method"]["key"]] for each in hosts if system["method"]["key"] in each]
        assert len(parts) == len(system["records"]) > 1
        assert captions == sum(part["captions"] for part in parts) > 0
        assert seconds == pytest.approx(sum(part["seconds"] for part in parts)) and seconds > 0
    by_hand = read_json(r / "table_guidance/table_guidance.json")["inputs"]
    assert by_hand and not any(verb_of(job) == "write-captions" for job in by_hand), (
        "they are read through what was measured"
    )
    assert main(["index", "table_guidance"]) == 0
    text = PAGE.read_text()
    for label, captions, seconds in found:
        assert f'<td class="label">{label}</td><td class="label">{a_caption(seconds / captions)}</td>' in text
    assert main(["index", "table1"]) == 0
    assert "What writing a caption took" not in PAGE.read_text()
    assert [a_caption(s) for s in (0.001, 0.09, 1.0, 2.5)] == ["1.0 ms", "90 ms", "1.0 s", "2.5 s"]


def test_what_was_claimed_stands_there_and_in_one_file_of_the_scale(r: Path) -> None:
    assert main(["index"]) == 0
    text = html.unescape(PAGE.read_text())
    said: dict[str, list[str]] = {}
    for name, claim in re.findall(r'<tr><td class="label"><a href="#([^"]+)">.*?</a></td>(.*?)</tr>', text):
        said.setdefault(name, []).append(claim)
    assert text.index("<h2>Claims</h2>") < text.index("<article"), "claims come first"
    every = []
    for name in made(r):
        rows = []
        for file in ARTEFACTS[name].files:
            if file.endswith(("_contrasts.csv", "_over.csv")):
                rows += [row for row in read_rows(r / name / file) if row["primary"] == "True"]
        shown = [row["direction"] + (f" ({row['scope']})" if row["scope"] else "") for row in rows]
        told = re.findall("<strong>(.*?)</strong>", "".join(said.get(name, [])))
        assert [one.partition(",")[0] for one in told] == shown, name
        assert len(set(said.get(name, []))) == len(rows), "no two read the same"
        every += [{key: row[key] for key in CLAIMS} | {"stale": "False"} for row in rows]
    assert {"slope", "ratio", "fall", "splits", "difference"} <= {row["kind"] for row in every}
    kept = read_rows(r / "claims.csv")
    assert tuple(kept[0]) == (*CLAIMS, "stale") and sorted(map(str, kept)) == sorted(map(str, every))
    # the column that a claim is about comes before what else a thumbnail has room for
    head = list(read_rows(r / "table_guidance/table_guidance.csv")[0])
    place = next(number for number, label in enumerate(head) if label.endswith(" precision"))
    assert place > 7
    thumbnail = text.split('<article id="table_guidance"')[1].split("<tbody>")[0]
    assert re.findall(r"<th[^>]*>(.*?)</th>", thumbnail)[1:4].count(head[place]) == 1


@needs_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_how_it_looks_in_a_browser(r: Path, width: int, scheme: Literal["light", "dark"]) -> None:
    """Nothing runs off the side, every picture and every table's top is seen, and words stand out from their ground."""
    assert main(["index"]) == 0
    with opened(width, scheme) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(PAGE.resolve().as_uri())
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        # room is left for figures that are not loaded yet, and each is shown whole
        for link in page.locator("a.thumbnail.picture").all():
            room, figure = link.bounding_box(), link.locator("img").bounding_box()
            assert room and figure and 80 < room["height"] <= 360
            assert [figure[side] for side in ("width", "height")] == pytest.approx(
                [room[side] for side in ("width", "height")], abs=1
            )
            assert link.locator("img").evaluate("image => getComputedStyle(image).objectFit") == "contain"
        for image in page.locator("img").all():
            image.scroll_into_view_if_needed()
            page.wait_for_function("image => image.complete", arg=image.element_handle())
            assert image.evaluate("image => image.naturalWidth") > 0
        for name in made(r):
            thumbnail = page.locator(f"#{name} a.thumbnail")
            assert thumbnail.is_visible()
            cells = thumbnail.locator("td").all()
            assert not cells or cells[0].is_visible(), "also on a narrow screen"
        assert all(url.startswith("file:") for url in asked), "nothing is loaded from elsewhere"
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{of}") for of in ("color", "backgroundColor"))
        light, dark = (sum(map(int, re.findall(r"\d+", one)[:3])) for one in (ink, paper))
        assert abs(light - dark) > 400 and (dark < light) == (scheme == "dark")
        page.locator("nav a").last.click()
        assert page.evaluate("scrollY") > 0
        page.locator("#table1 a.thumbnail").click()
        assert page.url.endswith("table1/table1.html")


def test_whose_a_copy_is_is_said(r: Path) -> None:
    other = r.parent / "other"
    for name in ("figure3", "table9"):
        shutil.copytree(r / name, other / name)
        record = read_json(r / name / f"{name}.json")
        record["config"]["scale"] = "other"
        for place in (other / name, r.parent):
            write_json(place / f"{name}.json", record)
    values = read_params(Path())
    del values["tables"]["table9"]
    small_project.write_params(Path(), values)
    assert main(["index"]) == 0
    cards = dict(re.findall(r'<article id="(\w+)">(.*?)</article>', PAGE.read_text(), re.S))
    assert "are of scale other" in cards["figure3"] and f"{r.name}/figure3/figure3.png" in cards["figure3"]
    assert "Made at scale other" in cards["table9"] and "other/table9/table9.html" in cards["table9"]
    assert "scale other" not in cards["table1"]
