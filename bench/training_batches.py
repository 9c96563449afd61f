"""Batches of captions to train on: COCO's, or, without its file, random pieces in captions that are as long as COCO's."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import numpy as np
import torch

from mdc.loader.batch import CaptionBatch
from mdc.text import Vocabulary

CONTEXT = 77
#: of a thousand captions of COCO's val2017 so many have so many pieces (5,000 drawn of 25,014; 11.5 pieces in the mean)
LENGTHS = {
    **{7: 2, 8: 41, 9: 146, 10: 202, 11: 193, 12: 155, 13: 96, 14: 64, 15: 36, 16: 23, 17: 14, 18: 10, 19: 6, 20: 5},
    **{21: 1, 22: 1, 24: 1, 25: 2, 26: 1, 27: 1},
}
DEFAULT = Path(os.environ.get("MDC_DATA", "data")) / "coco_captions_val2017.json.gz"


def encoded(path: Path, count: int, vocabulary: Vocabulary, seed: int = 0) -> tuple[list[list[int]], str]:
    """``count`` captions as ids from SOT to EOT, and in words what they are."""
    rng = np.random.default_rng(seed)
    if not path.is_file():
        lengths = rng.choice(list(LENGTHS), count, p=np.array(list(LENGTHS.values())) / sum(LENGTHS.values()))
        pieces = (rng.integers(0, vocabulary.size - 2, length).tolist() for length in lengths)
        drawn = [[vocabulary.size - 2, *own, vocabulary.eot] for own in pieces]
        return drawn, "random captions of COCO's lengths"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        captions = sorted(a["caption"] for a in json.load(stream)["annotations"])
    chosen = [captions[i] for i in rng.choice(len(captions), count, replace=False)]
    return [vocabulary.encode(caption, CONTEXT) for caption in chosen], "captions of COCO"


def make_batch(captions: list[list[int]], vocabulary: Vocabulary, size: int, seed: int) -> CaptionBatch:
    """A batch as the loader yields it; images are noise, whose content costs nothing."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(map(len, captions))
    width = min(-(-longest // 8) * 8, CONTEXT)
    tokens = torch.full((len(captions), width), vocabulary.eot)
    for row, ids in enumerate(captions):
        tokens[row, : len(ids)] = torch.tensor(ids)
    return CaptionBatch(
        images=torch.randint(0, 256, (len(captions), 3, size, size), generator=generator, dtype=torch.uint8),
        keys=[str(i) for i in range(len(captions))],
        tokens=tokens,
        lengths=torch.tensor([len(ids) for ids in captions]),
        jitter=torch.rand(len(captions), generator=generator),
        uniforms=torch.rand(len(captions), CONTEXT, generator=generator)[:, :width],
        place=torch.arange(len(captions)),
        caption_hash=torch.arange(len(captions)),
    )
