"""How often a judge chooses each system, over the images with an answer for every seed; and the test whether letters matter."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, kstest
from shown import STATISTICS

from mdc.plan.jobs.shown import Statistics
from mdc.plan.records import sha256_file, write_json
from mdc.report.judged import judged, places_p

#: of each seed: image → the systems by letter, and the votes of the letters; None: no answer
SEEDS: list[dict[str, tuple[str, list[float] | None]]] = [
    {"a": ("xy", [1.0, 0.0]), "b": ("yx", [1.0, 0.0]), "c": ("xy", [0.5, 0.5]), "d": ("xy", None)},
    {"a": ("yx", [0.0, 1.0]), "b": ("xy", None), "c": ("yx", [1.0, 0.0]), "d": ("xy", [1.0, 0.0])},
]


def test_an_image_without_an_answer_with_some_seed_counts_for_no_system(tmp_path: Path) -> None:
    given = {}
    for seed, answers in enumerate(SEEDS):
        rows: list[dict[str, Any]] = [
            {"contest": "n", "image": image, "systems": list(systems), "votes": votes}
            | {"status": "chosen" if votes else "failed"}
            for image, (systems, votes) in answers.items()
        ]
        folder = tmp_path / f"s{seed}"
        folder.mkdir()
        parquet.write_table(pa.Table.from_pylist([*rows, {**rows[0], "contest": "another"}]), folder / "judged.parquet")
        outputs = {"judged.parquet": sha256_file(folder / "judged.parquet")}
        record = {"kind": "judged", "id": f"judged/s{seed}", "config": {"scale": "s"}, "config_sha256": "h"}
        given[f"judged/s{seed}"] = folder / "judged.json"
        write_json(folder / "judged.json", record | {"outputs": outputs})
    contest = {"name": "n", "label": "N", "dataset": "d", "systems": ["x", "y"], "records": list(given)}
    expected, statistics = dict.fromkeys(given, "h"), Statistics(**STATISTICS)
    job: Any = SimpleNamespace(artefact="table3", scale="s", expected=expected, statistics=statistics)
    found = judged(job, given, contest)
    assert found.share["x"].n == 2 and found.answers == {"chosen": 6, "failed": 2}
    # of image a x is chosen with both seeds; of image c half of the first vote is its
    assert found.share["x"].value == pytest.approx(100 * (1 + 1 + 0.5 + 0) / 4)
    assert found.share["y"].value == pytest.approx(100 * (0 + 0 + 0.5 + 1) / 4)
    assert found.letters == {"A": pytest.approx(4.5), "B": pytest.approx(1.5)}


def _whole(chosen: NDArray[np.int64], count: int = 4) -> NDArray[np.float64]:
    return np.eye(count)[chosen]


def test_with_one_whole_vote_an_item_it_is_the_chi_square_test() -> None:
    rng = np.random.default_rng(0)
    for count in (2, 4, 7):
        votes = _whole(rng.integers(count, size=90), count)
        assert places_p(votes) == pytest.approx(chisquare(votes.sum(axis=0)).pvalue)


def _agreeing(rng: np.random.Generator, images: int, seeds: int, same_order: bool) -> NDArray[np.float64]:
    """Votes (seeds, images, 4) of a judge that looks at captions alone and prefers the same system with every seed."""
    best = rng.integers(4, size=images)
    orders = rng.permuted(np.tile(np.arange(4), (seeds, images, 1)), axis=-1)
    if same_order:
        orders[:] = orders[0]
    return (orders == best[:, None]).astype(np.float64)


@pytest.mark.parametrize("same_order", [False, True])
def test_p_is_even_where_letters_do_not_matter_though_all_seeds_agree(same_order: bool) -> None:
    rng = np.random.default_rng(1)
    found = [_agreeing(rng, 120, 3, same_order) for _ in range(600)]
    assert kstest([places_p(votes.sum(axis=0)) for votes in found], "uniform").pvalue > 0.001
    pooled = [places_p(votes.reshape(-1, 4)) for votes in found]
    # three seeds of one order are one observation an image; taken for three they say far too often that letters matter
    assert (np.mean(np.array(pooled) < 0.05) > 0.2) == same_order


def test_shared_votes_count_for_what_they_say() -> None:
    rng = np.random.default_rng(2)
    pattern = np.array([[1, 0, 0, 0], [0.5, 0.5, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0], [0.25] * 4])
    ps = [places_p(rng.permuted(pattern[rng.integers(4, size=150)], axis=1)) for _ in range(600)]
    assert kstest(ps, "uniform").pvalue > 0.001
    # captions that are all alike say nothing of letters
    assert places_p(np.full((50, 4), 0.25)) == 1.0 and places_p(np.full((50, 3), 1 / 3)) == 1.0


def test_a_judge_that_prefers_a_letter_is_found_out() -> None:
    rng = np.random.default_rng(3)
    votes = _agreeing(rng, 200, 3, same_order=False)
    votes[:, rng.random(200) < 0.25] = _whole(np.array([0]))  # one image in four by its first letter
    assert places_p(votes.sum(axis=0)) < 1e-3
