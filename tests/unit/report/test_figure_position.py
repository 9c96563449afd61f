"""The position figure on made-up tokens: the right-to-left control in the matched panel, and outside the claims."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from positions_world import CAPTIONS, METHODS, norm, positions_world, token_rows
from scale_files import scale_values
from scipy import stats
from shown import make, read_rows

from mdc.plan.config.read import validate
from mdc.plan.jobs.plan import Plan
from mdc.plan.records import UserError
from mdc.report.positions import Positions


@pytest.fixture
def found(tmp_path: Path) -> Positions:
    return Positions(*positions_world(tmp_path))


def test_the_control_is_drawn_in_matched_contexts_on_first_mentions_in_its_own_order(found: Positions) -> None:
    rows = token_rows("rtl")
    for number, places in enumerate([(1, 2), (3, 4), (5, 6)]):
        gains = [
            row["prefix"] - row["prefix_mismatched"] for row in rows if row["place"] in places and not row["after"]
        ]
        (_, gain) = found.curve("c/rtl", "prefix")[number]
        assert gain.value == pytest.approx(np.mean(gains)) and gain.n == len(gains)
    # what is a first mention from the right is not the same as one from the left
    assert [gain.n for _, gain in found.curve("c/rtl", "prefix")] == [CAPTIONS, 2 * CAPTIONS, 2 * CAPTIONS]
    assert [gain.n for _, gain in found.curve("c/mdc", "prefix")] == [2 * CAPTIONS, 2 * CAPTIONS, CAPTIONS]


def test_bins_outside_the_trained_range_are_marked(found: Positions, tmp_path: Path) -> None:
    """Seven tokens, t from 0.5 to 1: from the fifth on fewer than half of them are masked."""
    out = make(found.job, found.manifests, tmp_path / "out")
    lines = [line for line in read_rows(out / "figure_position.csv") if line["words"] == "all"]
    marks = {
        (method, context): [
            line["outside_trained_range"] for line in lines if (line["method"], line["context"]) == (method, context)
        ]
        for method, context in (("MDC", "prefix"), ("MDC", "own"), ("ARC", "prefix"))
    }
    expected = []
    for places in ((1, 2), (3, 4), (5, 6)):
        rows = [row for row in token_rows("mdc") if row["place"] in places and not row["before"]]
        expected.append(sum((7 - row["place"] + 1) / 7 < 0.5 for row in rows) / len(rows))
    assert [float(one) for one in marks["MDC", "prefix"]] == pytest.approx(expected) and expected == [0, 0, 1]
    assert marks["MDC", "own"] == marks["ARC", "prefix"] == ["", "", ""]


def test_the_control_is_named_and_stands_outside_the_claims(found: Positions, tmp_path: Path) -> None:
    out = make(found.job, found.manifests, tmp_path / "out")
    control = [line for line in read_rows(out / "figure_position.csv") if line["method"] == METHODS["rtl"]]
    assert {line["context"] for line in control} == {"own", "suffix"}
    claims = read_rows(out / "figure_position_contrasts.csv")
    (claim,) = [line for line in claims if line["primary"] == "True"]
    assert (claim["method"], claim["second_method"], claim["condition"]) == ("MDC", "ARC", "prefix")
    assert (claim["direction"], claim["p"], claim["groups"]) == ("too few groups", "", str(CAPTIONS)), (
        "one seed needs 50"
    )
    falls = [line for line in claims if line["method"] == METHODS["rtl"]]
    assert {line["condition"] for line in falls} == {"own", "suffix"}
    assert all(line["second"] == line["direction"] == "" for line in falls)
    drawn = (out / "figure_position.svg").read_text()
    assert "ARC right to left (control: suffix shown)" in drawn


@pytest.mark.parametrize("changed", [{"reference": "arc_rtl", "primary": []}, {"primary": ["alt/arc_rtl"]}])
def test_nothing_can_be_claimed_of_the_control(changed: dict[str, Any]) -> None:
    values = scale_values("mini")
    asked = values["tables"]["figure_position"]
    asked |= {"corpora": {"alt": ["arc", "arc_rtl", "mdc"]}, "function_words": [], **changed}
    with pytest.raises(UserError, match="reads from right to left, which is a control"):
        _ = Plan(validate(values)).jobs


def test_photos_have_no_known_kinds_of_words() -> None:
    values = scale_values("flickr8k-long")
    values["tables"]["figure_position"]["function_words"] = [["single/mdc", "single/arc"]]
    with pytest.raises(UserError, match="the kinds of words of single are not known"):
        _ = Plan(validate(values)).jobs


@pytest.mark.parametrize("seeds", [(0,), (0, 1, 2)])
def test_function_words_are_as_strong_as_their_gradients_over_those_of_all_words(
    tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    """In the made-up world words at even places are of no kind, and norms grow with the place: after training more steeply."""

    def strength(step: int, seed: int, places: tuple[int, ...]) -> float:
        own, every = (
            np.mean([norm(step, n, place, seed) for n in range(CAPTIONS) for place in some])
            for some in (places, range(1, 7))
        )
        return float(own / every)

    job, given = positions_world(tmp_path, seeds)
    job = job.but(more={**job.more, "function_words": [["c/mdc", "c/arc"]]})
    found = Positions(job, given)
    for step, more in ((0, {"step": 0}), (10, {})):
        expected = {"shape": (1, 3, 5), "function": (2, 4, 6)}
        told = dict(found.strengths("c/mdc", **more))
        for kind, places in expected.items():
            values = [strength(step, seed, places) for seed in seeds]
            assert told[kind].value == pytest.approx(np.mean(values)), "EOT is left out"
    (_, claim) = found.claims()
    assert (claim.first.key, claim.label, claim.estimate.value) == ("c/mdc", "function words", 0), (
        "both worlds have one norm"
    )
    assert claim.decision is not None and claim.decision.margin is None
    out = make(job, given, tmp_path / "out")
    lines = read_rows(out / "figure_position_kinds.csv")
    assert {(line["step"], line["words"]) for line in lines} == {
        (s, k) for s in ("0", "10") for k in ("shape", "function")
    }


def _gains(method: str, seed: int, context: str) -> list[tuple[dict[str, Any], float]]:
    return [(row, row[context] - row[f"{context}_mismatched"]) for row in token_rows(method, seed)]


@pytest.mark.parametrize("context", ["own", "prefix"])
@pytest.mark.parametrize("kind", ["shape", "function"])
def test_curves_of_a_kind_of_word_are_of_its_tokens_alone(found: Positions, context: str, kind: str) -> None:
    assert found.kinds["c/mdc"] == ["shape", "function"], "EOT is no kind of word"
    for number, gain in found.curve("c/mdc", context, kind):
        values = [
            value
            for row, value in _gains("mdc", 0, context)
            if row["kind"] == kind and (row["place"] - 1) // 2 == number and not (context == "prefix" and row["before"])
        ]
        assert gain.value == pytest.approx(np.mean(values)) and gain.n == len(values) > 0
        assert gain.low is not None and gain.high is not None
        assert gain.low < gain.value < gain.high


def test_three_seeds_are_a_source_of_their_own(tmp_path: Path) -> None:
    """The claim: by t, from the variance between the seeds' falls and that of captions, and wider than seeds alone would be."""
    seeds = (0, 1, 2)
    three = Positions(*positions_world(tmp_path, seeds))
    (contrast,) = three.claims()
    claim, decision = contrast.estimate, contrast.decision
    falls = []
    for seed in seeds:
        pairs = zip(_gains("mdc", seed, "prefix"), _gains("arc", seed, "prefix"), strict=True)
        gains = [(row, ours - theirs) for (row, ours), (_, theirs) in pairs if not (row["eot"] or row["before"])]
        late = [gain for row, gain in gains if row["place"] in (5, 6)]
        early = [gain for row, gain in gains if row["place"] in (1, 2)]
        falls.append(np.mean(late) - np.mean(early))
    assert decision and decision.direction in ("supported", "inconclusive", "reversed"), "three need 20 captions"
    assert claim.value == pytest.approx(np.mean(falls)) and (claim.kind, claim.seeds) == ("seeds and items", 3)
    assert claim.low is not None and claim.high is not None
    between = np.std(falls, ddof=1) / np.sqrt(3)
    half = (claim.high - claim.low) / 2
    assert claim.high - claim.value == pytest.approx(claim.value - claim.low)
    assert half > stats.norm.isf(0.025) * between


def test_the_learning_signal_is_the_mean_norm_by_place_and_over_the_training(found: Positions) -> None:
    signal = found.signal("c/arc")
    assert {step: [number for number, _ in norms] for step, norms in signal.items()} == {0: [0, 1, 2], 10: [0, 1, 2]}
    for step, number, mean in [(step, *one) for step, norms in signal.items() for one in norms]:
        places = (2 * number + 1, 2 * number + 2)
        norms = [norm(step, n, place, 0) for n in range(CAPTIONS) for place in places]
        assert mean.value == pytest.approx(np.mean(norms)) and mean.n == len(norms), "EOT is left out"
    for (share, ratio), step in zip(found.signal_ratio("c/arc"), (0, 10), strict=True):
        late, early = ([np.log(norm(step, n, p, 0)) for n in range(CAPTIONS) for p in two] for two in ((5, 6), (1, 2)))
        assert share == step / 10 and ratio.value == pytest.approx(np.mean(late) - np.mean(early))
