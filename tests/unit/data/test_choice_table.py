"""Choice sets of one's own tables: their columns, images and what is left out; and one as a column of Table 2."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import small_project
from data_samples import encoded, iter_choices

from mdc.data.formats.samples import ChoiceSample, Skipped
from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError, read_json

SOURCE = {"kind": "choice_table", "path": "mine/items.csv"}
ROWS = [("a.png", "a red circle", "a blue circle", "a red star"), ("b.png", "a blue star", "a red star", "")]


def read(root: Path, skipped: Skipped | None = None, **more: Any) -> list[ChoiceSample]:
    return list(iter_choices({**SOURCE, **more}, root, skipped))


def write(path: Path, rows: list[tuple[str, ...]], header: tuple[str, ...]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "mine/items.csv", ROWS, ("image", "caption", "negative_caption_1", "negative_caption_2"))
    for number, name in enumerate("ab"):
        (tmp_path / f"mine/{name}.png").write_bytes(encoded(number))
    return tmp_path


def test_a_row_is_an_item(root: Path) -> None:
    found = read(root)
    assert [(one.id, one.image_name, one.image) for one in found] == [
        ("0", "a.png", encoded(0)),
        ("1", "b.png", encoded(1)),
    ]
    assert [one.options for one in found] == [ROWS[0][1:], ROWS[1][1:3]]


def test_columns_are_known_by_usual_names_or_named(root: Path) -> None:
    wanted = [(one.image, one.options) for one in read(root)]
    for header in (
        ("file_name", "correct", "foil_1", "foil_2"),
        ("Filename", "Positive", "wrong 1", "wrong 2"),
        ("path", "caption", "negative1", "negative2"),
    ):
        write(root / "mine/items.csv", ROWS, header)
        assert [(one.image, one.options) for one in read(root)] == wanted, header
    write(root / "mine/items.csv", ROWS, ("caption", "x", "y", "z"))
    with pytest.raises(UserError, match="it has caption, x, y, z"):
        read(root)
    named = {"image_column": "caption", "caption_column": "x", "wrong_column": ["y", "z"]}
    assert [(one.image, one.options) for one in read(root, **named)] == wanted
    with pytest.raises(UserError, match="no column 'w'"):
        read(root, **{**named, "wrong_column": "w"})
    write(root / "mine/items.csv", ROWS, ("image", "caption_1", "caption_2", "foil"))
    with pytest.raises(UserError, match=r"\(caption_1, caption_2\); name one in source\.caption_column"):
        read(root)
    assert [one.options for one in read(root, caption_column="caption_2")] == [ROWS[0][2:]]


def test_lists_of_wrong_captions_and_images_in_parquet(root: Path) -> None:
    wanted = [(one.image, one.options) for one in read(root)]
    lists = [{"image": row[0], "caption": row[1], "foils": [one for one in row[2:] if one]} for row in ROWS]
    (root / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lists))
    assert [(one.image, one.options) for one in read(root, path="items.jsonl", images="mine")] == wanted
    stored = [{**row, "image": encoded(number)} for number, row in enumerate(lists)]
    pq.write_table(pa.Table.from_pylist([*stored, stored[0]]), root / "items.parquet")
    found = read(root, path="items.parquet")
    assert [(one.image, one.options) for one in found] == [*wanted, wanted[0]]
    names = [one.image_name for one in found]
    assert names[0] == names[2] != names[1], "items that share an image are resampled together"


def test_what_cannot_be_used_is_counted_by_its_reason(root: Path) -> None:
    more = [("none.png", "a", "b", ""), ("../x.png", "a", "b", ""), ("a.png", "", "b", ""), ("a.png", "a", "", "")]
    (root / "mine/c.png").write_bytes(b"no image")
    header = ("image", "caption", "wrong_1", "wrong_2")
    write(root / "mine/items.csv", [*ROWS, *more, ("c.png", "a", "b", ""), ("a.png", "...", "​", "")], header)
    with (root / "mine/items.csv").open("a") as file:
        file.write("one cell\n")
    skipped = Skipped()
    assert [one.id for one in read(root, skipped)] == ["0", "1"]
    assert skipped.captions == 1, "the empty cell of an item that is kept"
    assert sum(skipped.counts.values()) == 7 and skipped.counts["image file is missing"] == 1
    assert skipped.counts["image outside the folder"] == skipped.counts["not one right caption"] == 1
    with pytest.raises(UserError, match=r"nowhere.csv: no such file; put it there, or set MDC_DATA"):
        read(root, path="nowhere.csv")
    with pytest.raises(UserError, match="unknown file extension"):
        (root / "items.txt").write_text("x")
        read(root, path="items.txt")


def test_a_table_becomes_a_column_of_table_2(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file to the table's cell, which is counted by hand from the scores."""
    write(root / "mine/items.csv", ROWS * 3, ("image", "caption", "wrong_1", "wrong_2"))
    values = small_project.values()
    values["data"]["choices"] = {"mine": {"label": "My items", "source": SOURCE}}
    values["data"]["vocabularies"]["words"] = ["alt", "mine"]
    for name in ("half", "described"):
        del values["data"]["corpora"][name]
    values["tables"] = {
        "table2": {
            "corpora": {"alt": ["arc"]},
            "backbones": ["ViT-T-12"],
            "columns": {"mine": {"label": "My items", "sets": ["mine"]}},
            "language_prior_weights": [0.0, 1.0],
        }
    }
    for section in ("captions", "encoders", "tokenizers", "artefacts"):
        values.pop(section, None)
    values["pretrain"]["backbones"] = {"ViT-T-12": values["pretrain"]["backbones"]["ViT-T-12"]}
    values["pretrain"].pop("overrides", None)
    values["score"]["mismatched"] = 1  # there are two images
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MDC_DATA", str(root))
    plan = Plan(validate(values))
    small_project.do_jobs(plan, [job for job in plan.jobs if job == "table2" or job in plan.ancestors("table2")])
    made = tmp_path / "results" / small_project.SCALE
    assert read_json(made / "data/choices/mine/index.json")["options"] == {"2": 3, "3": 3}
    scores = pq.read_table(made / "scores/alt/ViT-T-12/arc/s0/last/scores.parquet").to_pylist()
    by_item: dict[str, list[float]] = {}
    for row in scores:
        if row["estimator"] == "likelihood":
            by_item.setdefault(row["item"], []).append(row["score"])
    right = sum(options[0] == max(options) for options in by_item.values()) / len(by_item)
    with (made / "table2/table2_long.csv").open(newline="") as file:
        cells = [row for row in csv.DictReader(file) if row["system"] == "alt/ViT-T-12/arc/last/likelihood/sum/own"]
    (own,) = (cell for cell in cells if cell["label"] == "My items")
    assert len(by_item) == 6 and float(own["value"]) == pytest.approx(100 * right, abs=0.01)
