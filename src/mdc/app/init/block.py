"""The text of a new scale's file, with comments."""

from __future__ import annotations

import re
import textwrap
from pathlib import PurePosixPath
from typing import Any

from mdc.app.init.classes import Classes
from mdc.app.init.table import Table
from mdc.app.init.values import Values
from mdc.plan.config.yaml_core import dump_yaml

_METHODS = "[clip, arc, mdc]"
_BACKBONE = "ViT-T-8"


def scale_text(
    name: str, captions: str, images: str, probe: str | None, table: Table, classes: Classes | None, values: Values
) -> str:
    """Scale ``name`` as YAML. Paths are relative to MDC_DATA; without ``probe`` nothing is probed."""
    key = _yaml(name)
    label = _yaml(f"{name} (own data, one small tower)")
    corpus = _mapping({"label": name, "source": _corpus(captions, images, table, values)}, 6)
    probe_set = _probe_set(probe, classes) if probe is not None and classes is not None else ""
    probing = f"probe: {{batch_size: {values.probe_batch}}}\n" if probe_set else ""
    return f"""\
# yaml-language-server: $schema=../workflow/schemas/scale.schema.json
# Your own images. What is missing here stands under `shared` in params.yaml; all of it: mdc config --scale {key} --expanded
label: {label}

data:
  vocabularies: {{words: [{key}]}}          # the tokens that the captions use, renumbered
  samples_per_shard: 2000
  max_skipped: 0.05                       # above this share of unusable samples a set is refused
  corpora:
    {key}:
{corpus}{probe_set}

pretrain:
  backbones:                              # small and quick; larger images and towers learn more
    {_BACKBONE}:
      {{label: ViT-T/8, image_size: 32, patch_size: 8, width: 64, layers: 3, heads: 2, embed_dim: 64,
       decoder: {{width: 64, layers: 1, heads: 2}}}}
  seeds: [0]                              # intervals over seeds need three or more
  recipe:
    epochs: {values.epochs}
    batch_size: {values.batch_size}
    lr: 1.0e-3
    warmup_steps: {values.warmup_steps}
    validate_every: {values.validate_every}
  runtime: {{log_every: 1}}
{probing}
tables:
{_probing_tables(name) if probe_set else _other_tables(name)}"""


def _corpus(captions: str, images: str, table: Table, values: Values) -> dict[str, Any]:
    """The source, without what is as its class has it anyway."""
    source: dict[str, Any] = {"kind": "caption_table", "path": captions}
    if PurePosixPath(captions).parent != PurePosixPath(images):
        source["images"] = images
    if not table.header:
        source["header"] = False
    if table.image != "image":
        source["image_column"] = table.image
    if table.caption != "caption":
        source["caption_column"] = table.caption
    if table.split is not None:
        source |= {"split_column": table.split, "splits": table.splits}
    if values.val_share:
        source["val_share"] = values.val_share
    return source


def _probe_key(probe: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", PurePosixPath(probe).name).lstrip("_.-") or "classes"


def _probe_set(probe: str, classes: Classes) -> str:
    source: dict[str, Any] = {"kind": "class_folder", "path": probe}
    label = PurePosixPath(probe).name or "Classes"
    key = _yaml(_probe_key(probe))
    return f"\n  probes:\n    {key}:\n{_mapping({'label': label, 'source': source}, 6)}\n  primary_probe: {key}"


def _probing_tables(name: str) -> str:
    return f"""\
  table1:
    corpora: [{_yaml(name)}]
    methods: {_METHODS}
    contrasts: [[mdc, arc], [mdc, clip]]
    primary: [[mdc, arc], [mdc, clip]]    # the comparisons that get a verdict
  table6: {{backbone: {_BACKBONE}}}
  table9: {{}}
  figure3: {{corpora: [{_yaml(name)}]}}
  figure_loss: {{}}
"""


def _other_tables(name: str) -> str:
    return f"""\
  table9: {{}}
  figure3: {{corpora: [{_yaml(name)}]}}
  figure_loss: {{corpora: {{{_yaml(name)}: {_METHODS}}}, backbones: [{_BACKBONE}]}}
"""


def _mapping(values: dict[str, Any], indent: int) -> str:
    text = dump_yaml(values)
    return textwrap.indent(text.rstrip("\n"), " " * indent)


def _yaml(text: str) -> str:
    """A name or label as YAML, in quotes where it would otherwise mean something else."""
    return dump_yaml([text], default_flow_style=True).strip()[1:-1]
