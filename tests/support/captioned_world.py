"""Made-up measured captions: what each image counts of each system, for figures of captions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from shown import STATISTICS, shown_job, write_manifest

IMAGES = 60
PLACE = {"corpus": {"key": "d", "label": "Described"}, "backbone": {"key": "B", "label": "ViT-B"}, "pooling": ""}
ROW = {"length": "", "decoding": "", "tuned": "", "weights": "last"}

#: of each image, as a metric's column has it: per cent
Values = Sequence[float]


def around(mean: float, seed: int, spread: float = 2.0) -> list[float]:
    """Of every image about ``mean``, their mean exactly."""
    noise = np.random.default_rng(seed).normal(0, spread, IMAGES)
    return [float(value) for value in mean + noise - noise.mean()]


class CaptionedWorld:
    """``systems``: name → column → of each seed its images' values; ``controls``: name → the name on other images."""

    def __init__(
        self,
        folder: Path,
        systems: Mapping[str, Mapping[str, Sequence[Values]]],
        controls: Mapping[str, str] | None = None,
    ) -> None:
        self.seeds = list(range(len(next(iter(next(iter(systems.values())).values())))))
        self.columns = list(dict.fromkeys(column for values in systems.values() for column in values))
        self.given: dict[str, Path] = {}
        for seed in self.seeds:
            name = f"metrics/d/s{seed}"
            rows = [
                {"system": system, "image": f"i{image}", "bleu_counts": None, "meteor_counts": None}
                | {"truth": None, "objects": None, "true_words": None}
                | {column: values[column][seed][image] for column in self.columns}
                for system, values in systems.items()
                for image in range(IMAGES)
            ]
            told: dict[str, Any] = {"kind": "metrics", "systems": {name: {} for name in systems}}
            self.given[name] = write_manifest(folder, name, "metrics.json", tables={"metrics.parquet": rows}, **told)
        self.systems = [
            {**PLACE, **ROW, "key": f"d/{system}", "method": {"key": system, "label": system.title()}}
            | {"runs": [f"captions/{system}/s{seed}" for seed in self.seeds], "records": list(self.given)}
            | {"control": f"d/{(controls or {})[system]}" if system in (controls or {}) else None}
            for system in systems
        ]

    def job(self, artefact: str, **fields: Any) -> Any:
        """Of a figure of these systems."""
        columns = [{"key": column, "label": column, "part": "paper"} for column in self.columns]
        asked = {"systems": self.systems, "columns": columns, "contrasts": [], "primary": [], "primary_metric": "CIDEr"}
        asked |= {"seeds": self.seeds, "statistics": STATISTICS}
        asked |= {"clip": "", "judge": "", "contests": []}
        return shown_job(artefact, self.given, **asked, **fields)
