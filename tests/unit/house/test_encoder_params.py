"""What params.yaml may ask of frozen encoders and models of others: a mistake ends in one line, which says what is allowed."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import small_project
from changed import put

from mdc.config import validate
from mdc.records import UserError

VALUES = small_project.values()
LITE0 = {"label": "Lite0", "kind": "efficientnet_lite0", "image_size": 64, "tokens": 4, "width": 1280}


def _changed(path: tuple[str, ...], to: Any) -> dict[str, Any]:
    return put(copy.deepcopy(VALUES), ("scales", small_project.SCALE, *path), to)


@pytest.mark.parametrize(
    ("path", "to", "said"),
    [
        (("encode",), None, "golden.encode: this key is missing; needed by backbones on a frozen encoder"),
        (
            ("pretrain", "backbones", "on-clip", "frozen"),
            "nothing",
            "on-clip.frozen: no encoder (encoders) is named 'nothing'; allowed: clip",
        ),
        (("encoders", "clip", "corpus"), "nowhere", "encoders.clip.corpus: no corpus is named 'nowhere'"),
        (("encoders", "clip", "method"), "x", "encoders.clip.method: no method is named 'x'"),
        (("encoders", "clip", "backbone"), "x", "encoders.clip.backbone: no backbone is named 'x'"),
        (("encoders", "clip", "backbone"), "on-clip", "backbone = on-clip: has no encoder of its own"),
        (("encoders", "clip", "tokens"), 9, "encoders.clip.tokens = 9: the encoder of ViT-T-12 has 16"),
        (("encoders", "clip", "width"), 64, "encoders.clip.width = 64: the encoder of ViT-T-12 has 32"),
        (("encoders", "other"), {**LITE0, "label": "our CLIP"}, "both called 'our CLIP'"),
        (("encoders", "other"), {**LITE0, "kind": "magic"}, "kind"),
        (
            ("encoders", "other"),
            {**LITE0, "kind": "open_clip", "model": "ViT-B-32"},
            "ViT-B-32 needs weights: a name or a file",
        ),
        (
            ("encoders", "other"),
            {**LITE0, "kind": "open_clip", "model": "local-dir:x", "weights": "openai"},
            "local-dir:x brings its own weights, so leave this key out",
        ),
        (("tables", "table1", "encoders"), ["x"], "tables.table1.encoders: no encoder (encoders) is named 'x'"),
        (
            ("tables", "table4", "backbones"),
            ["on-clip"],
            "table4.backbones: on-clip trains no encoder that could be probed",
        ),
        (
            ("tables", "table2", "also"),
            {"on-clip": {"alt": ["clip"]}},
            "clip trains its encoder and cannot stand on on-clip",
        ),
        (
            ("tables", "table2", "open_clip"),
            {"b32": {"label": "B/32", "model": "ViT-B-32"}},
            "table2.open_clip.b32: weights = None: ViT-B-32 needs weights: a name or a file",
        ),
        (
            ("tables", "table2", "open_clip"),
            {"b32": {"label": "B/32", "model": "hf-hub:a/b", "weights": "openai"}},
            "hf-hub:a/b brings its own weights, so leave this key out",
        ),
        (("tables", "table2", "also"), {"ViT-T-12": {"alt": ["arc"]}}, "also: ViT-T-12 stands under backbones already"),
        (("tables", "table2", "also"), {"x": {"alt": ["arc"]}}, "table2.also: no backbone is named 'x'"),
        (("tables", "table2", "also"), {"on-clip": {"x": ["arc"]}}, "also.on-clip: no corpus is named 'x'"),
        (("tables", "table2", "also"), {"on-clip": {"alt": ["x"]}}, "also.on-clip.alt: no method is named 'x'"),
        (
            ("tables", "figure_loss"),
            {"corpora": {"alt": ["clip"]}, "backbones": ["on-clip"]},
            "figure_loss: clip trains its encoder and cannot stand on on-clip",
        ),
        (
            ("tables", "table3", "backbones"),
            ["on-clip"],
            "table3.clip_score.method = clip: on-clip stands on a frozen encoder, on which no CLIP is trained",
        ),
        (
            ("tables", "table3", "datasets", "on_clip", "systems"),
            ["arc", "x"],
            "datasets.on_clip.systems: no system is named 'x'",
        ),
        (
            ("tables", "table3", "datasets", "on_clip", "backbone"),
            "x",
            "datasets.on_clip.backbone: no backbone is named 'x'",
        ),
        (
            ("tables", "table3", "contrasts"),
            [["on_clip/mdc_6", "on_clip/mdc_ends"]],
            "contrasts: on_clip/mdc_ends is no dataset/system of this table",
        ),
    ],
)
def test_a_mistake_is_one_line(path: tuple[str, ...], to: Any, said: str) -> None:
    with pytest.raises(UserError) as found:
        validate(_changed(path, to))
    assert said in str(found.value) and "\n" not in str(found.value)


def test_a_label_decides_nothing() -> None:
    from mdc.jobs.plan import Plan

    before = Plan(validate(VALUES)).jobs
    after = Plan(validate(_changed(("encoders", "clip", "label"), "another name"))).jobs
    changed = [name for name, job in after.items() if job.sha256 != before[name].sha256]
    assert changed == ["table1"]
