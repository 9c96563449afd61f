"""What a person asks of a small made project: tests/support/asked.yaml, line by line."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import small_project
import yaml

from mdc.app.cli import main
from mdc.data.shards.index import ShardReader
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.records import read_json

ASKED = yaml.safe_load(Path(small_project.__file__).with_name("asked.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def places(r: Path, tmp_path: Path) -> dict[str, str]:
    """What the words in capitals stand for."""
    found = {"IMAGE": "folder/image.png", "FOLDER": "folder", "EMPTY": "empty", "OUT": "out"}
    places = {name: tmp_path / place for name, place in found.items()}
    places["FOLDER"].mkdir()
    places["EMPTY"].mkdir()
    places["IMAGE"].write_bytes(ShardReader(r / "data/corpora/alt", "val").read(0)[1])
    return {"MANY": "circle " * 80, **{name: str(place) for name, place in places.items()}}


def words_of(line: str, places: dict[str, str]) -> list[str]:
    words = shlex.split(line)
    for name, place in places.items():
        words = [word.replace(name, place) for word in words]
    return words


@pytest.mark.parametrize(("line", "said"), ASKED["refused"])
def test_what_cannot_be_answered_ends_in_one_line(
    line: str, said: str, places: dict[str, str], refused: Callable[..., str]
) -> None:
    assert said in refused(*words_of(line, places))
    assert not list(Path(places["OUT"]).parent.glob("out*"))


@pytest.mark.parametrize(("line", "said"), ASKED["answered"] + ASKED["cells"])
def test_what_is_answered(
    line: str, said: str, r: Path, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words_of(line, places)) == 0
    out = capsys.readouterr().out
    assert said in out
    if [line, said] in ASKED["cells"]:
        file = Path(shlex.split(line)[1]).name
        artefact = next(name for name, one in ARTEFACTS.items() if file in one.files)
        assert "chain       every link holds" in out and "\n  value       " in out
        assert read_json(r / artefact / "host.json")["command"] in out
