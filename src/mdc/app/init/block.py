"""The text of a new scale's file, with comments."""

import re
import textwrap
from pathlib import PurePosixPath
from typing import Any

from mdc.app.init.find import Corpus
from mdc.app.init.survey import Classes, Survey
from mdc.app.init.values import TOWERS, Values
from mdc.plan.config.yaml_core import dump_yaml

_METHODS = "[clip, arc, mdc]"
#: the share of unusable samples above which a corpus is refused
MAX_SKIPPED = 0.05
#: held-out images at most: captioned, ranked against each other, scored by position
_CAPTIONED, _RANKED, _PLACED = 500, 60, 200


def captioned(corpus: Corpus, contents: Survey, values: Values) -> int:
    """A lower estimate of the number of held-out images."""
    images = contents.counts.get("test", 0) if "test" in corpus.splits else values.val
    return int(images * (0.5 if contents.about else 0.95))


def scale_text(
    name: str, corpus: Corpus, contents: Survey, probe: str | None, classes: Classes | None, values: Values
) -> str:
    """Scale ``name`` as YAML. Paths are relative to MDC_DATA; without ``probe`` nothing is probed."""
    key = _yaml(name)
    source = dict(corpus.source)
    if values.val_fraction:
        source["val_fraction"] = values.val_fraction
    if values.stored is not None:
        source["image_size"] = values.stored
    size = values.size
    tower, lr = TOWERS[size.tower]
    width, layers, heads = tower["decoder"]
    tower_label = "/".join(size.tower.rsplit("-", 1))
    vocabulary = f"[{key}]" if size.vocabulary == "words" else "full"
    comment = "the tokens that the captions use, renumbered" if size.vocabulary == "words" else "all of CLIP's tokens"
    probe_set = _probe_set(probe, classes, values) if probe is not None and classes is not None else ""
    blocks = f"probe: {{batch_size: {values.probe_batch}}}\n" if probe_set else ""
    if (images := captioned(corpus, contents, values)) > 9:
        split = "test" if "test" in corpus.splits else "val"
        blocks += f"score: {{mismatched: 1, batch_tokens: 8192}}\n{_captions(key, split, contents.pieces, images)}"
    dataset = f"  datasets:\n{_mapping(corpus.dataset, 4)}\n" if corpus.dataset else ""
    return f"""\
# yaml-language-server: $schema=../workflow/schemas/scale.schema.json
# Your own images. What is missing here stands under `shared` in params.yaml; all of it: mdc config --scale {key} --expanded
label: {_yaml(f"{name} (own data, one tower)")}

data:
  vocabularies: {{words: {vocabulary}}}{" " * max(1, 22 - len(vocabulary))}# {comment}
  samples_per_shard: 2000
  max_skipped: {MAX_SKIPPED}                       # above this share of unusable samples a set is refused
{dataset}  corpora:
    {key}:
{_mapping({"label": name, "source": source}, 6)}{probe_set}

pretrain:
  backbones:                              # larger images and towers learn more and take longer
    {size.tower}:
      {{label: {tower_label}, image_size: {size.image_size}, patch_size: {tower["patch_size"]}, width: {tower["width"]}, \
layers: {tower["layers"]}, heads: {tower["heads"]}, embed_dim: {tower["embed_dim"]},
       decoder: {{width: {width}, layers: {layers}, heads: {heads}}}}}
  seeds: [0]                              # intervals over seeds need three or more
  recipe:
    epochs: {size.epochs}{" " * (26 - len(str(size.epochs)))}# fewer where a table warns of overfitting, or weights: best there
    batch_size: {size.batch_size}
    lr: {dump_yaml(lr).split()[0]}
    warmup_steps: {values.warmup_steps}
    validate_every: {values.validate_every}
  runtime: {{log_every: 1}}
{blocks}
tables:
{_tables(name, corpus, contents, size.tower, bool(probe_set), values)}"""


def _probe_set(probe: str, classes: Classes, values: Values) -> str:
    source: dict[str, Any] = {"kind": "class_folder", "path": probe}
    if values.stored is not None:
        source["image_size"] = values.stored
    label = PurePosixPath(probe).name or "Classes"
    key = _yaml(re.sub(r"[^A-Za-z0-9_.-]", "_", PurePosixPath(probe).name).lstrip("_.-") or "classes")
    return f"\n  probes:\n    {key}:\n{_mapping({'label': label, 'source': source}, 6)}\n  primary_probe: {key}"


def _tables(name: str, corpus: Corpus, contents: Survey, tower: str, probed: bool, values: Values) -> str:
    key = _yaml(name)
    text = ""
    if probed:
        text += f"""\
  table1:
    corpora: [{key}]
    methods: {_METHODS}
    contrasts: [[mdc, arc], [mdc, clip]]
    primary: [[mdc, arc], [mdc, clip]]    # the comparisons that get a verdict
  table6: {{backbone: {tower}}}
"""
    if captioned(corpus, contents, values) > 9:
        text += _held_out(key, int(0.95 * values.val))
    options = "" if probed else f"corpora: {{{key}: {_METHODS}}}, backbones: [{tower}]"
    return f"{text}  table9: {{}}\n  figure3: {{corpora: [{key}]}}\n  figure_loss: {{{options}}}\n"


def _captions(key: str, split: str, pieces: list[int], images: int) -> str:
    """Captions of images of a ``split`` that no model has seen."""
    ranked = sorted(pieces) or [8, 10, 12, 15]
    low, middle, high = (min(60, max(2, ranked[len(ranked) * part // 4])) for part in (1, 2, 3))
    lengths = list(range(min(low, max(1, middle - 2)), max(high, middle + 2) + 1, 2))
    return f"""\
captions:                                 # of held-out images; of 95 % of them, since some may turn out to be broken
  datasets:
    {key}:
      {{label: {key}, corpus: {key}, split: {split}, images: {min(images, _CAPTIONED)}, pretrained: {key}, training: {key}}}
  systems:
    arc: {{label: ARC, method: arc, weights: last, decode: {{kind: beam, num_beams: 6, max_tokens: 60}}, mismatched: true}}
    arc_equal:
      {{label: ARC greedy, method: arc, weights: last, mismatched: true,
       decode: {{kind: beam, num_beams: 1, min_tokens: {middle}, max_tokens: {middle}}}}}
    mdc: {{label: MDC, method: mdc, weights: last, decode: {{kind: unmask, lengths: [{middle}]}}, mismatched: true}}
    mdc_best: {{label: MDC, method: mdc, weights: last, decode: {{kind: unmask, lengths: {lengths}}}}}
  clip_score: {{kind: run, method: clip}}
"""


def _held_out(key: str, val: int) -> str:
    """Captions of images that no model has seen; retrieval among and scores of those of val."""
    side = {system: f"{key}/{system}" for system in ("mdc", "mdc_other", "arc_equal")}
    return f"""\
  table3:
    datasets: [{key}]
    systems: &captioners [arc, arc_equal, mdc, mdc_best, arc_other, arc_equal_other, mdc_other]
    primary: [[{side["mdc"]}, {side["arc_equal"]}], [{side["mdc"]}, {side["mdc_other"]}]]
  figure6: {{datasets: [{key}], systems: *captioners}}
  table_retrieval:                        # its time grows with the square of the pairs
    corpora: {{{key}: {_METHODS}}}
    pairs: {min(val, _RANKED)}
    primary: [[{key}/mdc/heuristic, {key}/clip/cosine], [{key}/mdc/heuristic, {key}/arc/likelihood]]
  figure_position:                        # what the image tells about each token
    corpora: {{{key}: [arc, mdc]}}
    captions: {min(val, _PLACED)}
    gradient_captions: {min(val, 24)}
    primary: [{key}/mdc]
"""


def _mapping(values: dict[str, Any], indent: int) -> str:
    text = dump_yaml(values)
    return textwrap.indent(text.rstrip("\n"), " " * indent)


def _yaml(text: str) -> str:
    """A name or label as YAML, in quotes where it would otherwise mean something else."""
    return dump_yaml([text], default_flow_style=True).strip()[1:-1]
