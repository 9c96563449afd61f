"""Made-up tokens for the position figure: what the image tells of each, and the norms of their gradients."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from shown import STATISTICS, shown_job, write_manifest

METHODS = {"arc": "ARC", "rtl": "ARC right to left", "mdc": "MDC"}
PIECES = 6
CAPTIONS = 30


def token_rows(method: str, seed: int = 0) -> list[dict[str, Any]]:
    """Captions whose second and fifth pieces are the same: that pair is a repeat, seen from either end. Odd places are shapes."""
    rng = np.random.default_rng([list(METHODS).index(method), seed])
    rows = []
    for caption, place in itertools.product(range(CAPTIONS), range(1, PIECES + 2)):
        row = {"caption": caption, "key": f"k{caption}", "place": place, "tokens": PIECES + 1}
        row |= {"kind": "end" if place > PIECES else "shape" if place % 2 else "function"}
        row |= {"eot": place > PIECES, "before": place == 5, "after": place == 2}
        row |= {name: float(rng.normal()) for name in ("own", "own_mismatched", "prefix", "prefix_mismatched")}
        rows.append(row)
    return rows


def norm(step: int, caption: int, place: int, seed: int) -> float:
    """Of a token's gradient: it grows with the place, after training more steeply."""
    return (1.0 + place) ** (1 + step / 10) * (1 + 0.1 * (caption % 3)) + seed


def positions_world(folder: Path, seeds: tuple[int, ...] = (0,)) -> tuple[Any, dict[str, Path]]:
    """The figure's job and its manifests."""
    given = {}
    for method, seed in itertools.product(METHODS, seeds):
        name = f"positions/{method}/{seed}"
        taught = [
            {"step": step, "caption": n, "key": f"k{n}", "place": place, "tokens": PIECES + 1}
            | {"norm": norm(step, n, place, seed)}
            for step in (0, 10)
            for n in range(CAPTIONS)
            for place in range(1, PIECES + 2)
        ]
        tables = {"tokens.parquet": token_rows(method, seed), "gradients.parquet": taught}
        given[name] = write_manifest(folder, name, "positions.json", tables=tables)
    systems = [
        {
            "key": f"c/{method}",
            "corpus": {"key": "c", "label": "Corpus"},
            "backbone": {"key": "B", "label": "ViT-B"},
            "method": {"key": method, "label": label},
            "runs": [f"{method}/{seed}" for seed in seeds],
            "t_range": (0.5, 1.0) if method == "mdc" else None,
            "reverse": method == "rtl",
            "records": [f"positions/{method}/{seed}" for seed in seeds],
        }
        for method, label in METHODS.items()
    ]
    asked = {"systems": systems, "reference": "arc", "function_words": [], "claimed": ["c/mdc"], "seeds": list(seeds)}
    asked |= {"bins": 3, "margin": 0.1, "statistics": STATISTICS | {"bootstrap": 240}}
    return shown_job("figure_position", given, **asked), given
