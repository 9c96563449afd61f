"""The position figure: its files against loops over the tokens that the jobs wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from shown import read_rows

SEEDS = (0, 1)


def _tokens(r: Path, method: str, seed: int) -> list[dict[str, Any]]:
    path = r / f"positions/alt/ViT-T-12/{method}/s{seed}"
    (file,) = path.rglob("tokens.parquet")
    return list(parquet.read_table(file).to_pylist())


def _third(row: dict[str, Any], edges: tuple[float, float]) -> int:
    pieces = row["tokens"] - 1
    return sum(pieces > edge for edge in edges)


def test_the_claim_is_the_difference_of_falls_summed_by_hand(r: Path) -> None:
    """Of tokens that both methods have in matched contexts: the gain of MDC minus that of ARC, late minus early thirds."""
    per_seed = []
    for seed in SEEDS:
        mdc, arc = _tokens(r, "mdc", seed), _tokens(r, "arc", seed)
        captions = {row["caption"]: row["tokens"] - 1 for row in mdc}
        low, high = np.quantile(list(captions.values()), [1 / 3, 2 / 3])
        found: dict[tuple[int, str], list[float]] = {}
        for ours, theirs in zip(mdc, arc, strict=True):
            if ours["eot"] or ours["before"]:
                continue
            gain = (ours["prefix"] - ours["prefix_mismatched"]) - (theirs["prefix"] - theirs["prefix_mismatched"])
            place = (ours["place"] - 0.5) / (ours["tokens"] - 1)
            part = "late" if place >= 2 / 3 else "early" if place < 1 / 3 else "middle"
            found.setdefault((_third(ours, (low, high)), part), []).append(gain)
        lengths = [n for n in range(3) if (n, "late") in found and (n, "early") in found]
        assert lengths
        per_seed.append(np.mean([np.mean(found[n, "late"]) - np.mean(found[n, "early"]) for n in lengths]))
    claims = read_rows(r / "figure_position/figure_position_contrasts.csv")
    (claim,) = [line for line in claims if line["primary"] == "True"]
    assert float(claim["value"]) == pytest.approx(np.mean(per_seed), abs=1e-4)
    assert float(claim["low"]) < float(claim["value"]) < float(claim["high"])
    assert (claim["condition"], claim["kind"], claim["direction"]) == ("prefix", "fall", "too few groups")


def test_methods_are_measured_on_the_same_tokens_and_arc_has_one_context(r: Path) -> None:
    """Of a left-to-right model the own and the matched contexts are the same; what repeats is told from the caption alone."""
    mdc, arc = _tokens(r, "mdc", 0), _tokens(r, "arc", 0)
    for ours, theirs in zip(mdc, arc, strict=True):
        assert all(ours[name] == theirs[name] for name in ("key", "place", "tokens", "kind", "before", "after", "eot"))
        assert theirs["own"] == theirs["prefix"]
    kinds = {row["kind"] for row in mdc}
    assert {"shape", "colour", "end"} <= kinds
