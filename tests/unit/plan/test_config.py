"""Every field of a scale refuses what it cannot mean, in one line that names it."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path as File
from typing import Any, Literal, get_args, get_origin

import pytest
import small_project
import yaml
from changed import GONE, with_other
from fields import Path, Place, first_places
from scale_files import ROOT, SCALES, scale_values

from mdc.app.cli import main
from mdc.plan.config.read import load, validate
from mdc.plan.records import UserError

VALUES = {name: scale_values(name) for name in SCALES}
PLACES = first_places(VALUES)


def _refusal(values: dict[str, Any], path: Path, value: Any) -> str | None:
    try:
        validate(with_other(values, path, value))
    except UserError as error:
        return str(error)
    return None


def _clear(refusal: str | None, said: str) -> bool:
    """Whether it is a line for each problem that begins with the file, and one of them says this."""
    lines = (refusal or "").splitlines()
    return all(line.startswith("params.yaml: ") for line in lines) and any(said in line for line in lines)


def _rest(values: Any, text: str) -> str | None:
    """What follows the longest path of ``values`` that ``text`` begins with; None if it begins with none."""
    inside = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    found = [
        text[len(name) :] if inner is None else inner
        for key, value in inside
        for name in (f"[{key}]" if isinstance(key, int) else f".{key}",)
        if text.startswith(name) and text[len(name) :][:1] in ".[ :"
        for inner in (_rest(value, text[len(name) :]),)
    ]
    return min(found, key=len) if found else None


def _of_the_file(place: Place, value: Any, refusal: str | None) -> bool:
    """Whether every line begins with a path that the file has, or, of a missing key, whose parent it has."""
    values = with_other(VALUES[place.scale], place.path, value)
    for line in (refusal or "").splitlines():
        left = _rest(values, f".{line.removeprefix('params.yaml: ')}")
        if left is None or not re.match(r"( = |: |\.\w+: this key is missing$)", left):
            return False
    return True


def _unclear(wrong: Callable[[Place], list[Any]]) -> list[tuple[str, Any, str | None]]:
    """The values ``wrong`` of places that are taken, or refused in no lines of ours, without the place's key, or of a path
    that the file does not have."""
    tried = [
        (place, value, _refusal(VALUES[place.scale], place.path, value)) for place in PLACES for value in wrong(place)
    ]
    assert len(tried) > 100
    return [
        (".".join(map(str, place.path)), value, said)
        for place, value, said in tried
        if not (_clear(said, str(place.path[-1])) and _of_the_file(place, value, said))
    ]


def _of_another_type(place: Place) -> list[Any]:
    """A mapping with a key that nothing has; and text for a number, numbers for words, yes and no."""
    kinds = place.types
    words = str in kinds or any(get_origin(kind) in (Literal, list, tuple, dict) for kind in kinds)
    text = [] if words or Any in kinds else ["7"]
    number = [] if {int, float, Any} & set(kinds) else [7, 1] if bool in kinds else [7]
    return [{"nonsense": [1]}, *text, *number]


def _negative(place: Place) -> list[Any]:
    """-3 for a number, or for each number of a list."""
    found: list[Any] = [-3] if {int, float} & set(place.types) else []
    for kind in place.types:
        inner = get_args(kind)
        if get_origin(kind) in (list, tuple) and {int, float} & {*inner, *(a for i in inner for a in get_args(i)[:1])}:
            given = list(place.given) if isinstance(place.given, list) else [1]
            found += [[*given[:number], -3, *given[number + 1 :]] for number in range(len(given))]
    return found


@pytest.mark.parametrize("wrong", [_of_another_type, _negative])
def test_every_field_refuses_what_it_cannot_mean_in_a_line_that_names_it(wrong: Callable[[Place], list[Any]]) -> None:
    unclear = _unclear(wrong)
    assert not unclear, unclear


@pytest.mark.parametrize("scale", ["mini", "paper", "flickr8k", "flickr8k-claims", "small project"])
def test_values_that_cannot_be_meant(scale: str) -> None:
    values = small_project.values() if scale == "small project" else VALUES[scale]
    wrong = []
    for where, *value, said in yaml.safe_load(File(__file__).with_name("refused.yaml").read_text())[scale]:
        path = tuple(int(step) if step.isdigit() else step for step in where.split("."))
        refusal = _refusal(values, path, *(value or [GONE]))
        if not _clear(refusal, said):
            wrong.append((where, value, said, refusal))
    assert not wrong, wrong


@pytest.mark.parametrize("path", [(), ("protocol", "data"), ("methods", "mdc"), ("pretrain", "recipe")], ids=str)
def test_unknown_keys(path: Path) -> None:
    assert "nonsense = 1: no such key" in (_refusal(VALUES["mini"], (*path, "nonsense"), 1) or "")


@pytest.mark.parametrize(
    ("where", "typed", "value", "meant"),
    [
        ((), "scal", 1, "scale"),
        (("pretrain", "recipe"), "lrr", 1, "lr"),
        (("pretrain", "overrides", 0, "set"), "lrr", 1, "lr"),
        (("data", "corpora", "alt", "source"), "kidn", 1, "kind"),
        (("tables", "table1"), "corpra", 1, "corpora"),
        (("tables",), "tabel1", 1, "table1"),
        (("tables", "table1", "corpora"), "alt", ["mcd_"], "mcd"),
        (("tables", "table1", "corpora"), "denze", ["mdc"], "dense"),
        (("pretrain", "backbones", "ViT-T-12"), "widht", 1, "width"),
    ],
    ids=str,
)
def test_a_mistyped_key_or_name_is_followed_by_the_nearest(where: Path, typed: str, value: Any, meant: str) -> None:
    assert f"mean {meant}?" in (_refusal(VALUES["mini"], (*where, typed), value) or "")


def test_files_that_cannot_be_read(tmp_path: File) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_text("- 1\n")
    with pytest.raises(UserError, match="no mapping"):
        load(bad)


def test_a_missing_key_is_named_where_it_belongs() -> None:
    """Of every kind of backbone, which pydantic tells apart by names of its own."""
    kinds = {}
    for scale, values in VALUES.items():
        for name, backbone in values.get("pretrain", {}).get("backbones", {}).items():
            kinds[tuple(backbone)] = (scale, name)
    assert len(kinds) >= 3
    for scale, name in kinds.values():
        for missing in (("label",), ("decoder", "width")):
            where = ("pretrain", "backbones", name, *missing)
            assert _refusal(VALUES[scale], where, GONE) == f"params.yaml: {'.'.join(where)}: this key is missing"


def test_mdc_check_names_every_problem(tmp_path: File, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "scales", tmp_path / "scales")
    place = tmp_path / "params.yaml"
    shutil.copy(ROOT / "params.yaml", place)
    text = place.read_text().replace("level: 0.95 ", "level: high ", 1)
    place.write_text(
        text.replace("normalise: true", "normalise: yes", 1).replace("bootstrap: 2000", "bootstrap: 1_000", 1)
    )
    assert main(["check", "--params", str(place)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" = ")[0] for line in lines] == [
        f"mdc check: {place}:{text[: text.index(where)].count(chr(10)) + 1}: protocol.{key}"
        for where, key in (
            ("normalise:", "probe.normalise"),
            ("level:", "statistics.level"),
            ("bootstrap:", "statistics.bootstrap"),
        )
    ]
