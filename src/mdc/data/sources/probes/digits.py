"""scikit-learn's handwritten digits (8 × 8), enlarged four times; ``seed`` draws the 1,200 / 597 split."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.images import png
from mdc.data.formats.samples import RawSample, Skipped
from mdc.data.sources.source import Source

_TEST = 597  # of 1,797; the rest trains


class Digits(Source[RawSample]):
    """The digits of one split ("train" or "test") in the order of scikit-learn's rows."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self.classes = [str(digit) for digit in range(10)]

    def samples(self, split: str, skipped: Skipped) -> Iterator[RawSample]:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        data = load_digits()
        rows = np.arange(len(data.target))
        seed = self.config["seed"]
        train, test = train_test_split(rows, test_size=_TEST, stratify=data.target, random_state=seed)
        for row in sorted({"train": train, "test": test}[split].tolist()):
            pixels = np.rint(data.images[row] * (255 / 16)).astype(np.uint8).repeat(4, axis=0).repeat(4, axis=1)
            yield RawSample(f"{row:08d}", png(pixels), "png", label=int(data.target[row]))


open_source = Digits  # see mdc.data.sources.source
