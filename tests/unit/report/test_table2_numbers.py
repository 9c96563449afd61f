"""Table 2's numbers from made-up scores: what each row chooses by, its errors, and which items count; against plain loops."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report.held_out import Matrix, best_alpha
from mdc.report.scored_sets import Scored, ScoredSet, right_share
from mdc.report.scores import Choices, Retrieval, Store, kept_items, shown_errors, shown_scores
from mdc.report.tables.table2 import _errors

ITEMS, OPTIONS, OTHERS = 40, 3, 4
SHOWN = ("own", "constant", "mismatched", "mismatched_mean", "shorter", "prior_subtracted")


def scored_set(seed: int = 0, groups: tuple[str, ...] = ("a", "b"), images: int = 8) -> ScoredSet:
    """Items of two or three options; some wrong options are the right one, some pieces were never trained."""
    rng = np.random.default_rng(seed)
    there = np.ones((ITEMS, OPTIONS), dtype=bool)
    there[::5, 2] = False
    shape = there.shape

    def values(*more: int) -> Any:
        found = -20 + 5 * rng.normal(size=(*shape, *more))
        found[~there] = -np.inf
        return found

    def errors() -> Any:
        return np.where(there, rng.random(shape) + 0.5, 0.0)

    by = {}
    for name in ("monte_carlo", "likelihood", "cosine"):
        own = (values(), errors(), values(), errors(), values(OTHERS))
        by[name] = Scored(*own, errors(), errors() / 8, errors())
    same_as = np.tile(np.arange(OPTIONS), (ITEMS, 1))
    same_as[1::7, 1] = 0
    unseen = (rng.random(shape) < 0.1).astype(np.int64)
    unseen[::5, 2] = 1  # of options that are not there
    ids = tuple(f"i{n}" for n in range(ITEMS))
    of = tuple(f"image{n % images}" for n in range(ITEMS)), tuple(groups[n % len(groups)] for n in range(ITEMS))
    return ScoredSet(ids, *of, there, rng.integers(1, 9, size=shape), unseen, same_as, by)


def system(shown: str, estimator: str = "monte_carlo", per_token: bool = False) -> Any:
    return SimpleNamespace(estimator=estimator, more={"shown": shown, "per_token": per_token})


def _brute(one: ScoredSet, shown: str, estimator: str, per_token: bool, alpha: float, n: int, k: int) -> float:
    """What an option is chosen by, in plain Python."""
    scored, pieces = one.by[estimator], int(one.pieces[n, k])
    others = [float(value) for value in scored.others[n, k]]
    mean = sum(others) / len(others)
    mismatched = mean if estimator == "cosine" else math.log(sum(math.exp(value) for value in others) / len(others))
    if shown == "shorter":
        return -float(pieces)
    found = {
        "own": float(scored.own[n, k]),
        "constant": float(scored.constant[n, k]),
        "mismatched": mismatched,
        "mismatched_mean": mean,
        "prior_subtracted": float(scored.own[n, k]) - alpha * mismatched,
    }[shown]
    return found / (pieces + 1) if per_token else found


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("estimator", ["monte_carlo", "likelihood", "cosine"])
@pytest.mark.parametrize("shown", SHOWN)
def test_each_row_chooses_by_its_own_rule(shown: str, estimator: str, per_token: bool) -> None:
    one = scored_set()
    found = shown_scores(system(shown, estimator, per_token), one, 0.75)
    shares = []
    for n in range(ITEMS):
        options = [k for k in range(OPTIONS) if one.present[n, k]]
        scores = [_brute(one, shown, estimator, per_token, 0.75, n, k) for k in options]
        assert found[n, options].tolist() == pytest.approx(scores, rel=1e-12)
        top = [k for k, score in zip(options, scores, strict=True) if score == max(scores)]
        shares.append(1 / len(top) if 0 in top else 0.0)
    assert right_share(found, one.present).tolist() == pytest.approx(shares)
    assert 0 < np.mean(shares) < 1


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("shown", SHOWN)
def test_each_row_has_the_error_of_its_own_score(shown: str, per_token: bool) -> None:
    one, alpha = scored_set(), 0.75
    scored = one.by["monte_carlo"]
    found = shown_errors(system(shown, per_token=per_token), one, alpha)
    for n, k in np.argwhere(one.present).tolist():
        own, mismatched = scored.error[n, k], scored.mismatched_error[n, k]
        shared = scored.mismatched_covariance[n, k]
        expected = {
            "own": own,
            "constant": scored.constant_error[n, k],
            "mismatched": mismatched,
            "mismatched_mean": scored.mismatched_mean_error[n, k],
            "shorter": 0.0,
            "prior_subtracted": math.sqrt(own * own + alpha * alpha * mismatched * mismatched - 2 * alpha * shared),
        }[shown]
        tokens = one.pieces[n, k] + 1 if per_token and shown != "shorter" else 1
        assert found[n, k] == pytest.approx(expected / tokens)


def test_items_that_count_with_and_without_equal_options_and_unseen_pieces() -> None:
    one = scored_set()
    for n in range(ITEMS):
        options = [k for k in range(OPTIONS) if one.present[n, k]]
        distinct = all(one.same_as[n, k] != 0 for k in options if k)
        trained = all(one.unseen[n, k] == 0 for k in options)
        found = [bool(kept_items(one, kept)[n]) for kept in ("all", "distinct", "trained")]
        assert found == [True, distinct, trained]
    assert 0 < kept_items(one, "distinct").sum() < ITEMS and 0 < kept_items(one, "trained").sum() < ITEMS


def _choices(found: ScoredSet, kept: str) -> Choices:
    choices = Choices.__new__(Choices)
    choices.kept, choices.title = kept, "table 2"
    choices.job, choices.manifests = SimpleNamespace(artefact="table2"), {"r": Path("scored.json")}  # type: ignore[assignment]
    choices.store = SimpleNamespace(scores=lambda name: {"set": found})  # type: ignore[assignment]
    return choices


@pytest.mark.parametrize("kept", ["all", "distinct", "trained"])
def test_a_column_of_groups_counts_groups_of_enough_items_that_are_not_left_out(kept: str) -> None:
    """A group's size is what it has in the set, whatever is kept of it, as the benchmark defines its groups."""
    groups = ("a", "a", "b", "c", "c", "c", "d")
    one = scored_set(groups=groups)
    sizes = {name: one.groups.count(name) for name in set(one.groups)}
    least = sorted(sizes.values())[1]
    out = next(name for name, size in sizes.items() if size == max(sizes.values()))
    more = {"sets": ["set"], "parts": "groups", "min_items": least, "omit": [out], "ties": "shared", "score": None}
    column: Any = SimpleNamespace(key="column", more=more)
    wanted = [
        n
        for n in range(ITEMS)
        if sizes[one.groups[n]] >= least and one.groups[n] != out and bool(kept_items(one, kept)[n])
    ]
    rows: Any = SimpleNamespace(**vars(system("own")), records=["r"])
    ((name, _, chosen),) = _choices(one, kept).chosen(rows, 0, column)
    assert (name, chosen) == ("set", wanted) and 0 < len(wanted) < ITEMS
    items = _choices(one, kept)._items(rows, 0, column, None)
    assert items.ids == tuple(f"set/i{n}" for n in wanted)
    assert items.groups == tuple(one.images[n] for n in wanted)
    assert items.parts == tuple(one.groups[n] for n in wanted)
    assert (
        isinstance(items.of, np.ndarray)
        and items.of.tolist() == right_share(one.by["monte_carlo"].own, one.present)[wanted].tolist()
    )


@pytest.mark.parametrize("ties", ["shared", "right", "wrong"])
def test_the_ceiling_is_what_a_perfect_scorer_reaches(ties: str) -> None:
    """It knows the right caption, sees no difference between captions that are the same, and chooses by argmax: with the right
    option first, last, or in the mean over all places."""
    one, expected = scored_set(), []
    for n in range(ITEMS):
        options = [k for k in range(OPTIONS) if one.present[n, k]]
        scores = {k: float(one.same_as[n, k] == 0) for k in options}
        wrong = options[1:]
        orders: list[tuple[int, ...]] = [(0, *wrong)] if ties == "right" else [(*wrong, 0)]
        orders = list(itertools.permutations(options)) if ties == "shared" else orders
        expected.append(sum(max(order, key=lambda k: scores[k]) == 0 for order in orders) / len(orders))
    assert one.ceiling(ties).tolist() == pytest.approx(expected)
    assert (np.mean(expected) == 1) == (ties == "right") and one.chance.tolist() == [
        1 / row.sum() for row in one.present
    ]


def test_a_set_of_equal_options_has_another_ceiling_by_each_rule_of_ties() -> None:
    one, columns = scored_set(), []
    for key, ties in (("plain", "shared"), ("aro", "right"), ("other", "shared")):
        more = {"sets": ["set"], "parts": "sets", "ties": ties, "score": None}
        columns.append(SimpleNamespace(key=key, more=more))
    choices, rows = _choices(one, "all"), SimpleNamespace(**vars(system("own")), records=["r"])
    choices.job = SimpleNamespace(columns=columns)  # type: ignore[assignment]
    choices.job.systems = [rows]  # type: ignore[list-item]
    level = {c.key: choices._level(c, {"set": one.ceiling(c.more["ties"])}) for c in columns}
    assert level["plain"] == level["other"] < level["aro"] == 100
    assert level["plain"] == pytest.approx(100 * float(np.mean(one.ceiling())))


@pytest.mark.parametrize(("second", "expected"), [(0.7, 60), (None, None)])
def test_a_column_has_a_shortcut_where_each_of_its_sets_has_one(second: float | None, expected: float | None) -> None:
    """Of items, and not for one of Winoground's scores of pairs."""
    choices, one = _choices(scored_set(), "all"), scored_set()
    rows: Any = SimpleNamespace(**vars(system("own")), records=["r"], key="a/mdc")
    more = {"sets": ["first", "second"], "parts": "sets", "ties": "shared", "score": None}
    column: Any = SimpleNamespace(key="column", more=more)
    choices.job = SimpleNamespace(artefact="table2", systems=[rows], columns=[column])  # type: ignore[assignment]
    choices.store = SimpleNamespace(scores=lambda _: {"first": one, "second": one}, alphas=lambda _: [None])  # type: ignore[assignment]
    found = [{"what": "no image", "value": 0.9, "score": "text"}]
    of = {
        name: [*found, *({"what": "colour", "value": v} for v in (0.1, value) if value)]
        for name, value in (("first", 0.5), ("second", second))
    }
    choices.record = lambda _: {"sets": {name: {"shortcuts": shortcuts} for name, shortcuts in of.items()}}  # type: ignore[method-assign]
    choices.items, choices.chance, choices.ceiling, choices.shortcut, choices.shortcut_by = {}, {}, {}, {}, {}
    choices.read()
    assert choices.shortcut.get("column") == (expected and pytest.approx(expected))


def test_errors_and_bits_a_token_over_all_sets_and_seeds() -> None:
    sets = [scored_set(1), scored_set(2)]
    store: Any = SimpleNamespace(scores=lambda name: {"set": sets[int(name)]})
    place = {
        "corpus": None,
        "backbone": SimpleNamespace(label="B"),
        "pooling": "",
        "weights": "last",
        "records": ["0", "1"],
    }
    rows = [
        SimpleNamespace(
            key=f"{estimator}/{shown}",
            **vars(system(shown, estimator, per_token)),
            **place,
            method=SimpleNamespace(label=f"{estimator} {shown}"),
        )
        for estimator in ("monte_carlo", "likelihood")
        for shown in SHOWN
        for per_token in (False, True)
    ]
    alphas = {"monte_carlo/prior_subtracted": [0.25, 1.0], "likelihood/prior_subtracted": [0.5, 0.5]}
    job = SimpleNamespace(systems=rows, scale="s", artefact="table2")
    alpha = {row.key: alphas.get(row.key, [None, None]) for row in rows}
    choices: Any = SimpleNamespace(job=job, store=store, alpha=alpha)
    found = {(one["estimator"], one["shown"]): one for one in _errors(choices)}
    assert set(found) == {("likelihood", "own"), *(("monte_carlo", s) for s in SHOWN if s != "shorter")}
    for (estimator, shown), one in found.items():
        scores, squares, tokens = [], [], []
        for seed, scored in enumerate(sets):
            taken_off = alphas[f"{estimator}/prior_subtracted"][seed]
            errors = shown_errors(system(shown, estimator), scored, taken_off)
            for n in range(ITEMS):
                scores.append(_brute(scored, shown, estimator, False, taken_off, n, 0))
                squares.append(float(errors[n, 0]) ** 2)
                tokens.append(int(scored.pieces[n, 0]) + 1)
        assert one["captions"] == 2 * ITEMS and one["tokens"] == pytest.approx(sum(tokens) / len(tokens))
        assert one["score"] == pytest.approx(sum(scores) / len(scores))
        assert one["error"] == pytest.approx(math.sqrt(sum(squares) / len(squares)))
        bits = -sum(scores) / sum(tokens) / math.log(2)
        assert one["bits_per_token"] == (pytest.approx(bits) if shown == "own" else None)


def _rank(scores: list[float], right: list[int]) -> Callable[[int], bool]:
    """Whether a right answer is among the first so many; no two scores are equal."""
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    return lambda count: any(place in right for place in order[:count])


@pytest.mark.parametrize("per_token", [False, True])
@pytest.mark.parametrize("alpha", [None, 0.5])
def test_recall_both_ways_is_what_sorting_gives(alpha: float | None, per_token: bool) -> None:
    rng = np.random.default_rng(4)
    count = 24
    scores = rng.normal(size=(count, count)) * 3 - 30 + 4 * np.eye(count)
    captions = [(n,) for n in range(count)]
    captions[7] = captions[2]
    matrix = Matrix(tuple(f"k{n}" for n in range(count)), scores, rng.integers(3, 9, size=count), tuple(captions))
    scores[:, 7] = scores[:, 2] - 1e-9
    keys = [f"{way}_{k}" for way in ("text", "image") for k in (1, 5, 10)]
    table = Retrieval.__new__(Retrieval)
    table.job = SimpleNamespace(columns=[SimpleNamespace(key=key) for key in keys])  # type: ignore[assignment]
    found = table._queries(system("prior_subtracted", per_token=per_token), matrix, alpha)
    taken = scores.copy()
    for image in range(count):
        for caption in range(count):
            others = [math.exp(scores[other, caption]) for other in range(count) if other != image]
            taken[image, caption] -= (alpha or 0.0) * math.log(sum(others) / len(others))
            taken[image, caption] /= matrix.pieces[caption] + 1 if per_token else 1
    for query in range(count):
        right = [other for other in range(count) if captions[other] == captions[query]]
        by_image, by_caption = _rank(taken[query].tolist(), right), _rank(taken[:, query].tolist(), right)
        for k in (1, 5, 10):
            assert found[f"text_{k}"].of[query] == by_image(k)  # type: ignore[index]
            assert found[f"image_{k}"].of[query] == by_caption(k)  # type: ignore[index]
    for one in found.values():
        assert one.kind == "share", "queries share one gallery, so no interval is exact"
        assert one.ids == one.groups == matrix.keys and 0 < one.value <= 1


def test_alpha_is_the_least_of_those_that_find_most_captions_at_the_first_place() -> None:
    rng = np.random.default_rng(6)
    scores = rng.normal(size=(30, 30)) + 1.5 * np.eye(30) + 3 * rng.normal(size=30)
    alphas, right = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25], np.eye(30, dtype=bool)
    hits = []
    for alpha in alphas:
        hit = 0
        for image in range(30):
            taken = []
            for caption in range(30):
                others = [math.exp(scores[other, caption]) for other in range(30) if other != image]
                taken.append(scores[image, caption] - alpha * math.log(sum(others) / 29))
            hit += int(np.argmax(taken)) == image
        hits.append(hit)
    assert best_alpha(scores, right, alphas) == alphas[hits.index(max(hits))] > 0


def test_each_seed_has_the_alpha_of_its_own_held_out_pairs_and_of_as_many_other_images() -> None:
    rng, alphas, keys = np.random.default_rng(1), [0.0, 0.25, 0.5, 0.75, 1.0], tuple(map(str, range(300)))
    matrices = {}
    for run, prior in (("s0", 0), ("s1", 1)):
        scores = 2.2 * np.eye(300) + rng.normal(size=(300, 300)) + prior * rng.normal(size=300)
        matrices[run] = Matrix(keys, scores, np.full(300, 5), tuple((n,) for n in range(300)))
    rows: Any = SimpleNamespace(**vars(system("prior_subtracted")), records=["r0", "r1"])
    rows.more["held_out"] = ["s0", "s1"]
    found = []
    for more, others in (({"others": 1}, 1), ({}, None)):
        store = Store(ArtefactJob.model_construct(more={**more, "language_prior_weights": alphas}), {})
        store.matrix = lambda run, _: matrices[run]  # type: ignore[assignment]
        found.append(store.alphas(rows))
        assert found[-1] == [best_alpha(m.scores, m.same, alphas, None, others) for m in matrices.values()]
    assert len({tuple(of) for of in found}) == 2 and found[1][0] != found[1][1]


@pytest.mark.parametrize("seed", range(4))
def test_alpha_is_that_of_as_many_other_images_as_it_is_used_with(seed: int) -> None:
    """Scores that are the fit, how likely the caption is, and noise: the mean over all other images has next to no noise, and 1
    or a little less is best; a single one has as much noise as the score itself, and half of it is best."""
    rng = np.random.default_rng(seed)
    scores = 2.2 * np.eye(300) + rng.normal(size=(300, 300)) + rng.normal(size=300)
    right, alphas = np.eye(300, dtype=bool), [0.0, 0.25, 0.5, 0.75, 1.0, 1.25]
    one, most, every = (best_alpha(scores, right, alphas, None, others) for others in (1, 298, None))
    assert 0.25 <= one <= 0.75 <= most and one < every and every >= 0.75
