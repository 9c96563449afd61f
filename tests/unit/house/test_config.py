"""Every leaf of params.yaml refuses what it cannot mean, in one line that names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from changed import with_other

from mdc.config import load, read_yaml, validate
from mdc.records import UserError

ROOT = Path(__file__).resolve().parents[3]
VALUES = read_yaml(ROOT / "params.yaml")

Step = str | int


def _leaves(value: Any, seen: set[int], path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Any]]:
    if not isinstance(value, dict | list):
        yield path, value
        return
    if id(value) in seen:
        return  # YAML's alias of what another scale has
    seen.add(id(value))
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _leaves(inner, seen, (*path, key))


def _with(path: tuple[Step, ...], value: Any) -> dict[str, Any]:
    """The file with another value at ``path``; of its scales the one that has it, for there are thousands of leaves."""
    whole = VALUES
    if path[0] == "scales" and len(path) > 1:
        whole = VALUES | {"scale": path[1], "scales": {path[1]: VALUES["scales"][path[1]]}}
    return with_other(whole, path, value)


LEAVES = list(_leaves(VALUES, set()))


@pytest.mark.parametrize("path", [p for p, _ in LEAVES], ids=lambda p: ".".join(map(str, p)))
def test_every_leaf_refuses_another_type(path: tuple[Step, ...]) -> None:
    # no key of the file takes a mapping with an unknown key in the place of its value
    with pytest.raises(UserError) as error:
        validate(_with(path, {"nonsense": [1]}))
    message = str(error.value)
    named = [str(s) for s in path if isinstance(s, str)]
    if "set" in named:  # overrides are checked by the recipe that they make
        named = [named[-1]]
    assert named[-1] in message, message
    assert "nonsense" in message or "allowed" in message or "needed" in message, (
        message
    )  # the value, or what is allowed


NUMBERS = [(p, v) for p, v in LEAVES if isinstance(v, int | float) and not isinstance(v, bool)]


@pytest.mark.parametrize("path", [p for p, _ in NUMBERS], ids=lambda p: ".".join(map(str, p)))
def test_every_number_refuses_a_negative_one(path: tuple[Step, ...]) -> None:
    with pytest.raises(UserError):
        validate(_with(path, -3))


DATA = ("scales", "paper", "data")
TABLES = ("scales", "mini", "tables")


def _shown(**corpora: list[str]) -> dict[str, Any]:
    """A table or figure without comparisons, which could not stand either."""
    return {"corpora": corpora, "backbones": ["ViT-T-12"], "probes": ["shape"]}


CASES = [
    (("scale",), "huge", "allowed: mini, scenes, flickr8k, flickr8k-long, flickr8k-claims, paper"),
    (("scales", "mini", "tables", "table1", "backbones", 0), "ViT-X", "allowed: ViT-T-12"),
    (("scales", "mini", "tables", "table1", "probes", 0), "imagenet", "no probe"),
    (("scales", "mini", "tables", "table1", "corpora", "dense", 0), "gan", "no method"),
    ((*TABLES, "table4", "contrasts"), [["mdc", "mdc_wo_t"]] * 2, "contrasts: [mdc, mdc_wo_t] stands twice"),
    ((*TABLES, "table4", "primary"), [["alt/mdc", "alt/mdc_wo_t"], ["alt/mdc_wo_t", "alt/mdc"]], "the other way round"),
    ((*TABLES, "figure5", "trends"), ["arc"], "trends: arc stands in fewer than two corpora"),
    (
        (*TABLES, "figure_schedules", "primary"),
        ["brief/mdc"],
        "primary: brief/mdc is not compared in table5; allowed: brief/mdc_0",
    ),
    (("protocol", "statistics", "bootstrap"), 239, "too few to hold any of six claims; 240 or more"),
    ((*TABLES, "table1", "contrasts", 0), ["mdc", "gan"], "table1.contrasts: no method is named 'gan'"),
    ((*TABLES, "table1", "contrasts", 0), ["mdc", "alt/arc"], "contrasts: [mdc, alt/arc] names a corpus on one side"),
    ((*TABLES, "table1", "contrasts", 0), ["alt/mdc", "alt/mdc"], "a name stands twice"),
    ((*TABLES, "table1", "contrasts", 0), ["alt/mdc", "alt/mdc/cls"], "table1.contrasts[0][1] = 'alt/mdc/cls'"),
    (
        (*TABLES, "table1", "contrasts", 0),
        ["dense/clip_lb", "alt/clip_lb"],
        "contrasts: alt/clip_lb does not stand in corpora; allowed: alt/clip, alt/arc",
    ),
    (
        ("scales", "mini", "data", "corpora", "dense", "label"),
        VALUES["scales"]["mini"]["data"]["corpora"]["alt"]["label"],
        "tables.table1.corpora: alt and dense are both called 'Alt-text'; give each a label of its own",
    ),
    (("methods", "arc", "label"), "MDC", "tables.table1.corpora: arc and mdc are both called 'MDC'"),
    (
        (*TABLES, "table1", "contrasts", 0),
        ["brief/mdc", "alt/mdc"],
        "contrasts: brief/mdc does not stand in corpora",
    ),
    (
        (*TABLES, "table4", "contrasts", 0),
        ["dense/mdc", "alt/mdc"],
        "contrasts: [dense/mdc, alt/mdc] compares corpora, which only table1 does",
    ),
    ((*TABLES, "table5"), _shown(brief=["mdc_0_100", "arc", "mdc"]), "table5.corpora.brief: arc has no t_range"),
    ((*TABLES, "table5"), _shown(brief=["mdc_wo_t", "mdc"]), "mdc_wo_t and mdc have the same t_range"),
    (
        (*TABLES, "table5", "corpora", "alt"),
        ["mdc_30_80"],
        "corpora.alt ends with mdc_30_80, the first corpus with mdc",
    ),
    ((*TABLES, "figure4"), _shown(alt=["arc", "mdc"]), "none of arc, mdc is a method with a t_range [r, r]"),
    ((*TABLES, "figure4"), _shown(alt=["bert_15", "parallel"]), "is a method without a fixed mask ratio"),
    (
        (*TABLES, "figure5", "corpora"),
        {"alt": ["mdc"]},
        "figure5.corpora = {'alt': ['mdc']}: dictionary should have at least 2",
    ),
    (
        (*TABLES, "figure5", "contrasts"),
        [["mdc", "arc"]],
        "tables.figure5: contrasts: this figure compares the corpora",
    ),
    ((*TABLES, "figure5", "backbones"), ["ViT-T-8", "ViT-T-12"], "figure5.backbones"),
    (("methods", "mdc", "t_range"), [0.9, 0.4], "reversed"),
    (("methods", "mdc", "t_range"), [0.5, 1.5], "less than or equal to 1"),
    (("methods", "mdc", "t_range"), [-0.1, 1.0], "greater than or equal to 0"),
    (("methods", "mdc", "t_range"), [0.0, 0.0], "masks nothing"),
    (("methods", "mdc", "masks"), 1, "masks: 1: only a masked method with one mask ratio (t_range [r, r]) takes it"),
    (("methods", "arc", "masks"), 1, "masks: 1: only a masked method"),
    (("methods", "bert_75_1", "masks"), 0, "methods.bert_75_1.masks = 0"),
    (("methods", "mdc", "t_range"), [0.5], "t_range"),
    (("methods", "mdc", "weight"), None, "needs weight"),
    (("methods", "arc", "weight"), "inverse_t", "does not take weight"),
    (("scales", "paper", "pretrain", "overrides", 0, "when", "backbone", 0), "ViT-X", "allowed: ViT-B-32"),
    (("scales", "paper", "pretrain", "overrides", 2, "when", "method", 0), "gan", "no method"),
    (("scales", "paper", "pretrain", "overrides", 2, "when", "corpus", 0), "cc4m", "no corpus"),
    (("scales", "paper", "pretrain", "overrides", 1, "set", "accumulation"), 3, "multiple of accumulation"),
    (("scales", "paper", "pretrain", "overrides", 1, "set", "lear"), 3, "no such key"),
    (("scales", "mini", "pretrain", "recipe", "processes"), 3, "accumulation times processes (1 · 3)"),
    (("scales", "mini", "pretrain", "backbones", "ViT-T-12", "patch_size"), 7, "multiple of patch_size"),
    (("scales", "mini", "pretrain", "backbones", "ViT-T-12", "heads"), 5, "multiple of heads"),
    (("scales", "mini", "pretrain", "recipe", "clip_norm"), 0.0, "greater than 0"),
    (("scales", "mini", "pretrain", "recipe", "precision"), "fp16", "'fp32' or 'bf16'"),
    (("scales", "mini", "pretrain", "seeds"), [], "at least 1"),
    (("scales", "mini", "pretrain", "seeds"), [1, 1], "repeat"),
    (("scales", "mini", "data", "primary_probe"), "none", "no probe"),
    (("scales", "flickr8k", "data", "corpora", "dense", "source", "caption_mode"), "cut", "max_pieces"),
    (("protocol", "pretrain", "crop_scale"), [1.0, 0.9], "crop_scale"),
    (("methods", "mdc", "objective"), "tea", "allowed: masked, autoregressive, contrastive"),
    (
        (*DATA, "vocabularies"),
        {"clip": "ful"},
        "data.vocabularies.clip: 'ful' is no vocabulary; allowed: full, or a list",
    ),
    ((*DATA, "vocabularies"), {"clip": ["cc12m", "cc12m"]}, "allowed: full, or a list of corpora, each once"),
    ((*DATA, "vocabularies"), {"clip": ["cc4m"]}, "vocabularies.clip: no corpus or choice set is named 'cc4m'"),
    ((*DATA, "corpora", "cc12m", "source", "dataset"), "cc4m", "no dataset is named 'cc4m'"),
    ((*DATA, "corpora", "cc12m", "source", "path"), "cc12m", "give dataset or path, not both"),
    ((*DATA, "corpora", "cc12m", "source", "pairs"), 5, "draws no subset"),
    ((*DATA, "corpora", "recap10m", "source", "pairs"), 40_000_000, "datasets.recap_datacomp_1b draws 30000000"),
    ((*DATA, "corpora", "cc12m", "source", "dataset"), "food101", "no list of pairs"),
    ((*DATA, "choices", "sugarcrepe_swap_obj", "source", "dataset"), "aro", "input should be 'sugarcrepe'"),
    ((*DATA, "probes", "pets", "source", "dataset"), "cc12m", "'imagenet1k', 'food101'"),
    ((*DATA, "corpora", "cc12m", "source", "from"), "mirror", "from stands in datasets.cc12m"),
    ((*DATA, "datasets", "food101", "path"), "./pets", "datasets.pets.path = pets: is the path of food101 too"),
    ((*DATA, "datasets", "cc5m"), {"path": "x"}, "not in the registry"),
    ((*DATA, "datasets", "scenes"), {"path": "x"}, "embedded"),
    ((*DATA, "datasets", "food101", "from"), "mirror", "allowed: files"),
    ((*DATA, "datasets", "cc12m", "from"), "ftp", "'urls', 'mirror' or 'files'"),
    ((*DATA, "datasets", "cc12m", "mirror"), {"repo": "a/b"}, "mirror goes with from: mirror"),
    ((*DATA, "datasets", "food101", "subset"), {"pairs": 5}, "list and subset go with from: urls"),
    ((*DATA, "datasets", "mscoco", "parts"), ["2015"], "no part is named '2015'"),
    ((*DATA, "download"), None, "data.download must say how"),
    ((*DATA, "download", "runtime", "allow_addresses"), ["10.0.0.0/64"], "no network of addresses"),
    (("scales", "mini", "tables", "figure3", "texts"), ["captions"], "no set of captions"),
]


@pytest.mark.parametrize(("path", "value", "said"), CASES, ids=lambda x: str(x)[:50])
def test_values_that_cannot_be_meant(path: tuple[Step, ...], value: Any, said: str) -> None:
    with pytest.raises(UserError) as error:
        validate(_with(path, value))
    assert said in str(error.value), str(error.value)


@pytest.mark.parametrize(
    "path", [(), ("protocol", "data"), ("methods", "mdc"), ("scales", "mini", "pretrain", "recipe")], ids=str
)
def test_unknown_and_missing_keys(path: tuple[Step, ...]) -> None:
    with pytest.raises(UserError, match="nonsense = 1: no such key"):
        validate(_with((*path, "nonsense"), 1))
    inner: Any = VALUES
    for step in path:
        inner = inner[step]
    key = next(iter(inner))
    changed = _with((*path, key), None)
    outer: Any = changed
    for step in path:
        outer = outer[step]
    del outer[key]
    with pytest.raises(UserError, match=f"{key}: this key is missing"):
        validate(changed)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load(tmp_path / "none.yaml")
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1\nb: 2\n")
    with pytest.raises(UserError, match="not valid YAML"):
        load(bad)
    bad.write_text("scale: mini\nscale: paper\n")
    with pytest.raises(UserError, match="'scale' stands twice"):
        load(bad)
    bad.write_text("- 1\n")
    with pytest.raises(UserError, match="no mapping"):
        load(bad)


def test_scale_can_be_chosen_from_outside() -> None:
    assert load(ROOT / "params.yaml").scale == VALUES["scale"]
    assert load(ROOT / "params.yaml", "paper").scale == "paper"
