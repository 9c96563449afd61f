"""A scale as its layers make it: its own file on the blocks that scales share, and where each value stands."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from read_table import read_table
from scale_files import ROOT, scale_values
from scale_plans import changed_plan

from mdc.plan.config import read
from mdc.plan.config.layers import overlaid, place_of, places_of, spread
from mdc.plan.config.params import Params
from mdc.plan.config.read import expanded, layered, load
from mdc.plan.records import UserError


@pytest.mark.parametrize(("values", "spread_out"), read_table(__file__, "common"), ids=str)
def test_an_entry_that_is_called_underscore_holds_what_its_siblings_have_in_common(
    values: dict[str, Any], spread_out: dict[str, Any]
) -> None:
    assert spread(values) == spread_out


@pytest.mark.parametrize(("below", "above", "both"), read_table(__file__, "overlaid"), ids=str)
def test_a_layer_lies_on_another(below: dict[str, Any], above: dict[str, Any], both: dict[str, Any]) -> None:
    assert overlaid(below, above) == both


def test_no_number_stands_in_place_of_a_mapping() -> None:
    for make in (lambda: overlaid({"a": {"b": {"c": 1}}}, {"a": {"b": 3}}), lambda: spread({"a": {"_": {}, "b": 3}})):
        with pytest.raises(UserError, match=r"^a\.b = 3: must be a mapping; null"):
            make()


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes both files of the scale ``own``, in the folder that the test is in."""
    monkeypatch.setattr(read, "extension_files", list)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scales").mkdir()

    def written(params: str, own: str) -> None:
        Path("params.yaml").write_text(f"scale: own\n{params}")
        Path("scales/own.yaml").write_text(f"label: Own\n{own}")

    return written


@pytest.mark.parametrize(("params", "own", "said"), read_table(__file__, "refused"), ids=str)
def test_what_stands_in_the_wrong_file_is_told_with_its_line(write: Any, params: str, own: str, said: str) -> None:
    write(params, own)
    with pytest.raises(UserError) as caught:
        layered("params.yaml")
    assert str(caught.value).startswith(said)


def test_the_scales_file_must_be_there_and_the_only_one(write: Any) -> None:
    write("", "")
    with pytest.raises(UserError, match=r"scale = 'x': no file scales/x.yaml; allowed: own$"):
        layered("params.yaml", {"scale": "x"})
    Path("scales/own.yml").touch()
    with pytest.raises(UserError, match=r"^scales/own.yml: no name of a scale's file"):
        layered("params.yaml")


def test_a_scale_has_the_shared_blocks_and_tables_that_it_names(write: Any) -> None:
    shared = "shared: {probe: {lr: 1, seed: 2}, score: {seed: 3}, tables: {table1: {a: 1}, table2: {}}}"
    write(shared, "probe: {lr: 4}\ntables: {table1: {b: 5}, table9: {}}")
    values = layered("params.yaml")
    assert values["probe"] == {"lr": 4, "seed": 2} and "score" not in values and "shared" not in values
    assert values["tables"] == {"table1": {"a": 1, "b": 5}, "table9": {}}


def test_an_extensions_parameters_lie_under_the_parameter_file(
    write: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its methods follow; one of the same name, and a value of the same key, are the parameter file's."""
    write("methods: {a: {x: 1}}\nshared: {probe: {lr: 4}}\n", own="probe: {seed: 2}\n")
    beside = tmp_path / "beside.yaml"
    beside.write_text("methods: {a: {x: 2, y: 3}, b: {z: 5}}\nshared: {probe: {lr: 1, epochs: 9}, score: {seed: 1}}\n")
    monkeypatch.setattr(read, "extension_files", lambda: [beside])
    values = layered("params.yaml")
    assert values["methods"] == {"a": {"x": 1}, "b": {"z": 5}} and list(values["methods"]) == ["a", "b"]
    assert values["probe"] == {"lr": 4, "epochs": 9, "seed": 2} and "score" not in values
    assert place_of(values, ".methods.b.z", "") == f"{beside}:1"


def test_layers_lie_on_each_other_the_last_one_topmost(write: Any) -> None:
    write(
        "methods: {a: {label: A}}\nshared: {probe: {lr: 1, seed: 1, epochs: 1}}",
        "methods: {b: {label: B}}\nprobe: {seed: 2}",
    )
    Path("more.yaml").write_text("probe: {seed: 3, threads: 3}")
    values = layered("params.yaml", "more.yaml", {"probe": {"threads": 4}})
    assert values["probe"] == {"lr": 1, "epochs": 1, "seed": 3, "threads": 4}
    assert list(values["methods"]) == ["a", "b"] and (values["scale"], values["label"]) == ("own", "Own")


def test_numbers_within_braces_of_a_command_line_are_numbers(write: Any) -> None:
    """As Snakemake gives them: --config 'pretrain={seeds: [0, 1], recipe: {lr: 1e-3, compile: false}}'."""
    write("methods: {a: {label: A}}", "probe: {seed: 2}")
    given = {"pretrain": {"seeds": ["0", "1"], "recipe": {"lr": "1e-3", "compile": "false", "device": "cpu"}}}
    values = layered("params.yaml", given)
    assert values["pretrain"] == {"seeds": [0, 1], "recipe": {"lr": 0.001, "compile": False, "device": "cpu"}}


OWN = """\
data:
  corpora:
    _: {source: {seed: 1}, label: C}
    alt: {label: A}
    a.b: {label: B}
  probes: &probes
    p: {x: 1}
  more:
    <<: [*probes, {r: {x: 3}}]
    q: {x: 2}
tables:
- {a: 1}
- {b: 2}
- _: {c: 3}
  d: {}
seeds: [1,
  2]
"""
SHARED = """\
methods: {m: {label: M}}
shared:
  data:
    max: 3
    corpora:
      alt: {vocabulary: words, label: B}
"""


@pytest.mark.parametrize(("key", "place"), read_table(__file__, "places"), ids=str)
def test_every_key_has_a_place(write: Any, key: str, place: str) -> None:
    write(SHARED, OWN)
    Path("more.yaml").write_text("\nencode: {batch: 1, threads: 1}\n")
    values = layered("params.yaml", "more.yaml", {"encode": {"device": "cpu", "threads": 2}})
    assert place_of(values, f".{key}", places_of(values)[""]) == place


def test_each_problem_of_a_scale_begins_with_its_place(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scales", tmp_path / "scales")
    params, mini = tmp_path / "params.yaml", tmp_path / "scales/mini.yaml"
    text = (ROOT / "params.yaml").read_text()
    params.write_text(text.replace("max_skipped: 0.0", "max_skipped: 7.0"))
    own = mini.read_text()
    mini.write_text(
        own.replace("samples_per_shard: 4000", "samples_per_shard: -1").replace("label: mini", "labl: mini")
    )
    with pytest.raises(UserError) as caught:
        load(params)
    shared, shard = (
        sum(1 for _ in one.partition(key)[0].splitlines()) for one, key in ((text, "max_sk"), (own, "samples_per"))
    )
    assert str(caught.value).splitlines() == [
        f"{mini}:3: labl = 'mini (embedded shapes, tiny towers)': no such key is known here (did you mean label?)",
        f"{mini}: label: this key is missing",
        f"{mini}:{shard}: data.samples_per_shard = -1: input should be greater than 0",
        f"{params}:{shared}: data.max_skipped = 7.0: input should be less than or equal to 1",
    ]


def test_expanded_values_name_where_each_is_set() -> None:
    lines = expanded(layered(ROOT / "params.yaml", {"scale": "mini"}, option="--scale")).splitlines()
    assert "scale: mini  # --scale" in lines and any(line.endswith("# default") for line in lines)
    placed = [re.fullmatch(r" *(?:'([^']+)'|([^:]+)): .*  # (.+):(\d+)", line) for line in lines]
    found = [(one[1] or one[2], Path(one[3]).read_text().splitlines()[int(one[4]) - 1]) for one in placed if one]
    assert len(found) > 1000 and not [(key, line) for key, line in found if key not in line]


# --- what a scale need not say ----------------------------------------------------------------------------------------


def _mini(*changes: tuple[tuple[str, ...], Any]) -> Params:
    return changed_plan(*changes).params


def test_a_table_is_on_the_first_backbone_by_the_primary_probe_if_it_does_not_say_otherwise() -> None:
    found = _mini((("data", "primary_probe"), "count"))
    for name, backbones, probes in (("table4", ["ViT-T-12"], ["count"]), ("table_cnn", ["ResNet-8"], None)):
        table: Any = found.tables[name]
        assert table.backbones == backbones and (probes is None or table.probes == probes)
    assert found.captions is not None and found.captions.backbone == "ViT-T-12"
    asked = _mini((("captions", "backbone"), "ViT-S-12")).captions
    assert asked is not None and asked.backbone == "ViT-S-12"


def test_tables_come_in_the_order_of_artefacts() -> None:
    values = scale_values("mini")
    turned = dict(reversed(values["tables"].items()))
    assert list(_mini((("tables",), turned)).tables) == [one for one in values["artefacts"] if one in turned]


def test_methods_of_a_list_of_corpora_and_pairs_on_each() -> None:
    """A pair of methods is claimed on every corpus that has both; one that names corpora stays as it is."""
    where, pairs = ("tables", "table4"), [["mdc", "mdc_wo_t"], ["dense/mdc", "dense/arc"]]
    short = {"corpora": ["alt", "dense"], "methods": ["mdc_wo_t", "mdc", "arc"], "primary": pairs}
    claims = [["alt/mdc", "alt/mdc_wo_t"], ["dense/mdc", "dense/mdc_wo_t"], ["dense/mdc", "dense/arc"]]
    table: Any = _mini((where, short)).tables["table4"]
    assert table.corpora == {"alt": short["methods"], "dense": short["methods"]} and table.primary == claims
    written_out = {"corpora": {"alt": ["mdc_wo_t", "mdc"], "dense": ["mdc", "arc"]}, "primary": pairs}
    assert _mini((where, written_out)).tables["table4"].primary == [claims[0], claims[2]]  # type: ignore[attr-defined]
    for wrong, said in (
        ({"corpora": ["alt"]}, r"tables\.table4\.corpora: a list of corpora needs methods: \[...\], those of each"),
        ({**short, "corpora": {"alt": ["mdc"]}}, "table4.methods: goes with a list of corpora; here corpora names"),
        ({**short, "corpora": ["alt", "alt"]}, "duplicate entry alt"),
        ({**short, "corpora": ["alt", "dense", "x"]}, "corpora: no corpus is named 'x'"),
        ({**short, "primary": [["mdc", "lstm"]]}, r"table4\.primary: \[mdc, lstm\]: no corpus has both"),
    ):
        with pytest.raises(UserError, match=said):
            _mini((where, wrong))
