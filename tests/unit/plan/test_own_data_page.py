"""docs/own-data.md and docs/sources.md: each kind's keys with their defaults, and what `mdc init` chooses, are the program's."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from mdc.app.init.values import SIZES
from mdc.plan.config.kinds import sources
from mdc.plan.config.kinds.choice_sources import TableChoice

PAGES = (Path(__file__).resolve().parents[3] / f"docs/{name}.md" for name in ("own-data", "sources"))
PAGE = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
KINDS: dict[str, tuple[type[sources.Strict], str]] = {
    "caption_table": (sources.TableCorpus, "corpora"),
    "caption_files": (sources.CaptionFilesCorpus, "corpora"),
    "webdataset": (sources.WebdatasetCorpus, "corpora"),
    "parquet": (sources.ParquetCorpus, "corpora"),
    "pairs": (sources.PairsCorpus, "corpora"),
    "class_folder": (sources.FolderProbe, "probes"),
    "parquet, for a probe": (sources.ParquetProbe, "probes"),
    "caption_nouns": (sources.NounsProbe, "probes"),
    "caption_list": (sources.CaptionList, "texts"),
    "choice_table": (TableChoice, "choices"),
}


def _section(title: str) -> str:
    return re.split(r"\n#+ ", PAGE.partition(f"\n### {title}\n")[2])[0]


def _keys(text: str) -> dict[str, Any]:
    """Key → default of the tables of a text; a key that is needed has none."""
    rows = re.findall(r"^\| `(\w+)` \| (.*?) ?\| .*$", text, re.MULTILINE)
    return {
        key: ... if not default else None if default == "none" else yaml.safe_load(default) for key, default in rows
    }


@pytest.mark.parametrize("title", KINDS)
def test_the_keys_of_a_kind_and_its_example(title: str) -> None:
    kind, section = KINDS[title]
    fields = {field.alias or name: field for name, field in kind.model_fields.items() if name != "kind"}
    expected = {
        key: ... if field.is_required() else field.get_default(call_default_factory=True)
        for key, field in fields.items()
    }
    shared = _keys(PAGE.partition("All sources of images:")[2].partition("\n### ")[0])
    found = _keys(_section(title)) | {key: value for key, value in shared.items() if key in expected}
    assert found == expected
    example = "\n".join(line[4:] for line in _section(title).splitlines() if line.startswith("    "))
    (entry,) = yaml.safe_load(example)[section].values()
    kind.model_validate(entry["source"])


def test_every_key_that_sources_share_is_in_their_tables() -> None:
    shared = _keys(PAGE.partition("All sources of images:")[2].partition("\n### ")[0])
    assert shared == {"image_size": None, "caption_mode": "each", "max_pieces": None}


def test_what_is_chosen_by_the_number_of_pairs() -> None:
    rows = re.findall(r"^\| ([\d,]+) \| (ViT\S+) \| (\d+) \| \d+ \| (\d+) \| (\d+) \| (\w+) \|$", PAGE, re.MULTILINE)
    assert [(int(row[0].replace(",", "")), row[1], *map(int, row[2:5]), row[5]) for row in rows] == [
        (size.pairs, size.tower, size.image_size, size.batch_size, size.epochs, size.vocabulary) for size in SIZES
    ]
