"""results/index.html: all that a scale names, what is missing, and how it looks in a real browser."""

import re
import shutil
from collections import Counter
from collections.abc import Callable
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
from mdc.plan.config.read import load
from mdc.plan.config.yaml_core import dump_yaml, read_yaml
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.records import read_json, write_json
from mdc.plan.verbs import verb_of
from mdc.report.csv_file import write_csv
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
    pictured = {name for name in made(r) if any(file.endswith(".png") for file in ARTEFACTS[name].files)}
    assert links.ids == sorted(made(r), key=lambda name: (name not in pictured, order.index(name)))
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
    assert "table1" not in Links(text).ids and "#table1" not in Links(text).places, "it has no card"
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
    # by hand: the table's own inputs, their runs, whose logs say whether they overfitted, and the data of both
    record = read_json(r / "table1/table1.json")
    probes = {job for job in record["inputs"] if job.startswith("probe/")}
    runs = {job for probe in probes for job in read_json(r / probe / "probe.json")["inputs"] if job.startswith("runs/")}
    overlaps = {job for job in record["inputs"] if job.startswith("data/overlaps/")}
    assert overlaps and set(record["inputs"]) == probes | runs | overlaps
    assert {job for job in jobs if job.startswith("probe/")} == probes
    assert {job for job in jobs if job.startswith("runs/")} == runs
    found = times(folder, jobs)
    seconds = sum(read_json(r / run / "host.json")["seconds"] for run in runs)
    assert sum(count for _, count in found.values()) == len(jobs)
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
    own = [one for one in config["systems"] if one.get("role") not in ("reference", "control")]
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
    text = PAGE.read_text()
    assert text.index("<img") < text.index("<strong>"), "pictures come first"
    every = []
    for name, card in re.findall(r'<article id="(\w+)">(.*?)</article>', text, re.S):
        rows = []
        for file in ARTEFACTS[name].files:
            if file.endswith(("_contrasts.csv", "_over.csv")):
                rows += [row for row in read_rows(r / name / file) if row["primary"] == "True"]
        shown = [row["direction"] + (f" ({row['scope']})" if row["scope"] else "") for row in rows]
        shown = [text + (f"; {row['rates']}" if row["rates"] else "") for text, row in zip(shown, rows, strict=True)]
        folded = "".join(re.findall("<details>.*?</details>", card, re.S))
        said = re.findall(r"<tr>.*?<strong>.*?</tr>", folded)
        assert [re.split("<strong>|[,<]", one)[3] for one in said] == shown and card.count("<strong>") == len(rows), (
            name
        )
        assert len(set(said)) == len(rows), "no two read the same"
        counted = {
            verdict: f"{count} {verdict}" for verdict, count in Counter(row["direction"] for row in rows).items()
        }
        assert all(part in re.findall("<summary>.*?</summary>", folded)[0] for part in counted.values()), name
        every += [{key: row[key] for key in CLAIMS} | {"stale": "False"} for row in rows]
    assert {"slope", "fall", "splits", "difference"} <= {row["kind"] for row in every}
    assert f"{len(every)} claims" in text
    kept = read_rows(r / "claims.csv")
    assert tuple(kept[0]) == (*CLAIMS, "stale") and sorted(map(str, kept)) == sorted(map(str, every))


def edited(r: Path, name: str, change: Callable[[list[dict[str, str]]], list[dict[str, str]]]) -> None:
    """Replace the rows of a table in the paper's layout."""
    file = r / name / f"{name}.csv"
    rows = read_rows(file)
    write_csv(file, change(rows), list(rows[0]))


@needs_chromium
@pytest.mark.parametrize("width", [1280, 400])
def test_a_number_stands_whole_under_its_own_heading_and_claimed_columns_come_first(r: Path, width: int) -> None:
    """Also where a claimed column has equal values; a column without values goes, and nothing else that there is room for."""
    claimed = "Image to text R@1"
    edited(r, "table_retrieval", lambda rows: [row | {claimed: "16.7"} for row in rows])
    assert main(["index"]) == 0
    first = {
        "table_retrieval": claimed,
        "table_guidance": "Described precision",
        "table1": "Average",
        "table3": "Described CIDEr",
    }
    with opened(width) as page:
        page.goto(PAGE.resolve().as_uri())
        for name in (name for name in made(r) if ARTEFACTS[name].category == "Tables"):
            table, rows = page.locator(f"#{name} a.thumbnail table"), read_rows(r / name / f"{name}.csv")
            heads, card = table.locator("th").all(), page.locator(f"#{name}").bounding_box()
            texts = [head.evaluate("head => head.firstChild.textContent") for head in heads]
            assert texts[1] == first.get(name, texts[1])
            assert not [text for text in texts if not any(row[text] for row in rows)], "an empty column"
            for line, row in zip(table.locator("tbody tr").all(), rows, strict=False):
                for text, head, cell in zip(texts, heads, line.locator("td").all(), strict=True):
                    assert cell.evaluate("cell => cell.firstChild?.textContent ?? ''") == row[text]
                    above, box = head.bounding_box(), cell.bounding_box()
                    assert box["x"] == pytest.approx(above["x"], abs=1), "it stands under its heading"
                    assert box["x"] + box["width"] <= card["x"] + card["width"], "it is on the screen"
            assert all(head.evaluate("head => head.scrollWidth <= head.clientWidth") for head in heads), (
                "no heading is cut"
            )
        texts = page.locator("#table1 a.thumbnail th").all_inner_texts()
        assert {text.partition("\n")[0] for text in texts} >= {"Average", "Shape", "Colour"}, "there is room for all"
        assert not page.locator("article strong").first.is_visible(), "claims are folded"
        page.locator("#table1 summary").click()
        verdict = page.locator("#table1 strong").first.bounding_box()
        assert verdict and verdict["x"] >= 0 and verdict["x"] + verdict["width"] <= width, "without scrolling sideways"


def test_a_table_s_warnings_stand_in_its_card_and_a_table_without_rows_has_none(r: Path) -> None:
    record = r / "table1/table1.json"
    write_json(record, {**read_json(record), "warnings": ["90 of 111 images & more"]})
    edited(r, "table9", lambda rows: [])
    assert main(["index"]) == 0
    text = PAGE.read_text()
    cards = dict(re.findall(r'<article id="(\w+)">(.*?)</article>', text, re.S))
    assert [name for name, card in cards.items() if "90 of 111 images &amp; more" in card] == ["table1"]
    assert "#table1" in Links(text.partition("<nav")[0]).places, "said at the top, too"
    assert "table9" not in cards and f"{r.name}/table9/table9.html" in Links(text).places


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
            assert page.locator(f"#{name} a.thumbnail").first.is_visible()
        assert all(url.startswith("file:") for url in asked), "nothing is loaded from elsewhere"
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{of}") for of in ("color", "backgroundColor"))
        light, dark = (sum(map(int, re.findall(r"\d+", one)[:3])) for one in (ink, paper))
        assert abs(light - dark) > 400 and (dark < light) == (scheme == "dark")
        page.locator("nav a").last.click()
        assert page.evaluate("scrollY") > 0
        page.locator("#table1 a.thumbnail").first.click()
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
