"""Retrieval by score: the matrix of held-out images and captions against the scorer called alone, and the table against it."""

from math import comb
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from shown import read_rows

from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader
from mdc.evaluation.predictors.caption_scores import Draws, Pair
from mdc.evaluation.predictors.score import RunScorer
from mdc.models.runs import open_run
from mdc.plan.records import read_json

SEEDS = (0, 1)
ESTIMATORS = {"mdc": "monte_carlo", "arc": "likelihood", "clip": "cosine"}


@pytest.mark.parametrize("method", ESTIMATORS)
def test_a_row_of_the_matrix_is_an_image_and_a_column_a_caption(r: Path, method: str) -> None:
    run, estimator = f"alt/ViT-T-12/{method}/s0", ESTIMATORS[method]
    (folder,) = {path.parent for path in (r / "retrieval" / run).rglob("retrieval.json")}
    record, matrix = read_json(folder / "retrieval.json"), load_file(folder / "matrix.safetensors")
    scoring = record["config"]["scoring"]
    model, _ = open_run(r / "runs" / run, "last")
    scorer = RunScorer(model, samples=scoring["samples"], precision="fp32", device=torch.device("cpu"))
    reader = ShardReader(r / "data/corpora/alt", "val")
    held_out = {key: (decode(data), one["captions"][0]) for key, data, one in map(reader.read, range(len(reader)))}
    pairs = [held_out[key] for key in record["keys"]]
    assert matrix[estimator].shape == (record["pairs"], record["pairs"]) == (len(pairs), len(pairs))
    for image, caption in ((0, 1), (1, 0), (2, 2), (len(pairs) - 1, 3)):
        seen = scorer.look(scorer.picture(pairs[image][0])[None])
        draws = [Draws(f"retrieval/{caption}", scoring["seed"], scoring["samples"], scorer.context_length)]
        (one,) = scorer.score(estimator, seen, [Pair(0, scorer.tokens(pairs[caption][1]))], draws)
        assert float(matrix[estimator][image, caption]) == pytest.approx(one.value, abs=1e-4)
        assert float(matrix[f"{estimator}.error"][image, caption]) == pytest.approx(one.error, abs=1e-4)


def test_the_table_is_recall_in_both_directions(r: Path) -> None:
    """Of rows without ties: an image's own caption, or one that is the same, among the first ones, and the other way round."""
    table = read_rows(r / "table_retrieval/table_retrieval_long.csv")
    lines = [line for line in table if (line["shown"], line["per"]) == ("own", "caption")]
    shown = {(line["method"], line["label"]): float(line["value"]) for line in lines if line["backbone"] == "ViT-T/12"}
    chances = {line["label"]: float(line["chance"]) for line in lines}
    found: dict[str, list[float]] = {}
    for seed in SEEDS:
        (path,) = (r / f"retrieval/alt/ViT-T-12/arc/s{seed}").rglob("matrix.safetensors")
        scores = load_file(path)["likelihood"].numpy()
        captions = [tuple(one) for one in read_json(path.with_name("retrieval.json"))["captions"]]
        same = np.array([[one == other for other in captions] for one in captions])
        for name, by_query in (("Image to text", scores), ("Text to image", scores.T)):
            for count in (1, 5):
                # equal captions are equal scores of a row, and equal images do not occur
                ranks = [
                    (row > np.where(right, row, -np.inf).max()).sum() for row, right in zip(by_query, same, strict=True)
                ]
                missed = [comb(len(right) - sum(right), count) / comb(len(right), count) for right in same]
                assert chances[f"{name} R@{count}"] == pytest.approx(100 * (1 - np.mean(missed)), abs=0.06)
                found.setdefault(f"{name} R@{count}", []).append(100 * float(np.mean(np.array(ranks) < count)))
    for benchmark, values in found.items():
        assert shown["ARC", benchmark] == pytest.approx(np.mean(values), abs=0.06), benchmark
