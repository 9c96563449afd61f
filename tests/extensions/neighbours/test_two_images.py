"""Items of two images and two captions: the built-in world's and Winoground's own, how they are scored, and what they count."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_samples import choices_of, encoded, iter_choices, write_choices, write_parquet

from mdc.data.formats.samples import Skipped
from mdc.data.formats.winoground import pair_values
from mdc.data.scenes.check import check_caption, false_claims
from mdc.data.scenes.drawing import OWNED, bucket
from mdc.data.scenes.language import words_of
from mdc.data.scenes.world import Scene
from mdc.evaluation.option_scores import Questions
from mdc.plan.records import UserError
from mdc.report.scored_sets import Scored, ScoredSet, pairs_of

SCENES = {"kind": "scenes_pairs", "items": 24, "seed": 4, "pixels": 48}
WINOGROUND = {"kind": "winoground", "dataset": "winoground", "path": "wino"}


def test_each_caption_holds_in_its_own_scene_and_is_false_in_the_other(tmp_path: Path) -> None:
    found = list(iter_choices(SCENES, tmp_path))
    assert len(found) == 48 and len({sample.image for sample in found}) == 48
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert one.group == other.group and one.options == other.options[::-1]
        drop = {"a", "an"}
        first, second = (Counter(set_of) for set_of in map(words_of, one.options))
        assert {w: n for w, n in first.items() if w not in drop} == {w: n for w, n in second.items() if w not in drop}
        scenes = [Scene.from_json(sample.truth or {}) for sample in (one, other)]
        # the same objects, at the same places
        for kept in (lambda o: (o.shape, o.colour, o.size, o.shade), lambda o: (o.x, o.y)):
            assert Counter(map(kept, scenes[0].objects)) == Counter(map(kept, scenes[1].objects))
        for scene, sample in zip(scenes, (one, other), strict=True):
            assert check_caption(scene, sample.options[0]) == [] and false_claims(scene, sample.options[1])[0]
            assert bucket(scene) in OWNED["choices"]["test"]
    again = list(iter_choices({**SCENES, "items": 3}, tmp_path))
    assert again == found[:6]


def _write(path: Path, broken: dict[tuple[int, int], Any], captions: dict[int, str]) -> None:
    images = {
        n: [{"bytes": broken.get((n, side), encoded(2 * n + side)), "path": None} for side in (0, 1)] for n in range(4)
    }
    columns = {f"image_{side}": [images[n][side] for n in range(4)] for side in (0, 1)}
    columns |= {"caption_0": [captions.get(n, f"a dog {n} cat") for n in range(4)]}
    columns |= {"caption_1": [f"a cat {n} dog" for n in range(4)], "id": [10, 11, 12, 13], "tag": ["x"] * 4}
    write_parquet(path / "mirror/data/test-00000-of-00001.parquet", columns)


def test_an_item_whose_image_is_missing_or_broken_is_left_out_whole_and_counted(tmp_path: Path) -> None:
    _write(tmp_path / "wino", {(1, 0): None, (2, 1): encoded(0)[:30]}, {})
    skipped = Skipped()
    found = list(iter_choices(WINOGROUND, tmp_path, skipped))
    assert [(s.key, s.id, s.group, s.options, s.image) for s in found] == [
        (f"{n:08d}-{side}", f"{10 + n}-{side}", str(10 + n), options[:: 1 - 2 * side], encoded(2 * n + side))
        for n in (0, 3)
        for options in [(f"a dog {n} cat", f"a cat {n} dog")]
        for side in (0, 1)
    ]
    assert sum(skipped.counts.values()) == 2 and skipped.counts["no image"] == 1
    assert "id 11, image_0" in str(skipped)
    with pytest.raises(UserError, match="wino: 2 of 6 samples were skipped"):
        write_choices("wino", WINOGROUND, tmp_path / "out", tmp_path, max_skipped=0.0)


def test_files_that_are_not_winogrounds_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder; put winoground there"):
        choices_of(WINOGROUND, tmp_path)
    (tmp_path / "wino").mkdir()
    with pytest.raises(UserError, match=r"wino: no file test-\*.parquet lies there or below"):
        choices_of(WINOGROUND, tmp_path)
    write_parquet(tmp_path / "wino/test-0.parquet", {"image": [encoded(0)], "id": [1]})
    with pytest.raises(UserError, match="column"):
        list(iter_choices(WINOGROUND, tmp_path))


def test_the_two_images_of_an_item_share_masks_and_other_images_which_are_neither(tmp_path: Path) -> None:
    write_choices("pairs", SCENES, tmp_path / "pairs", tmp_path)
    plain = {"trained": None, "seed": 0, "others": 3, "samples": 16, "context_length": 12}
    asked = Questions.open("pairs", tmp_path / "pairs/index.json", **plain)
    assert len(asked.images) == 48
    for number in range(48):
        pair = number // 2 * 2
        assert asked.of_pair(number) == [pair, pair + 1]
        assert asked.other_items(number) == asked.other_items(pair) and not {pair, pair + 1} & {
            *asked.other_items(number)
        }
        assert asked.draws(number) == asked.draws(pair)
    assert len({tuple(asked.other_items(number)) for number in range(0, 48, 2)}) > 12
    assert asked.draws(0) != asked.draws(2)


# --- the three scores, by hand ----------------------------------------------------------------------------------------

#: s(c0, i0), s(c1, i0), s(c0, i1), s(c1, i1) → text, image, group
BY_HAND = [
    ((3, 1, 0, 2), (1, 1, 1)),  # each caption with its image is above all
    ((5, 4, 1, 2), (1, 0, 0)),  # the second caption prefers the first image
    ((2, 1, 1, 0), (0, 0, 0)),  # the first caption and the first image are always likelier
    ((2, 3, 1, 5), (0, 1, 0)),  # the second caption is always likelier, each has its own image
    ((2, 1, 2, 3), (1, 0, 0)),  # the first caption ties between the images
    ((4, 4, 1, 5), (0, 1, 0)),  # the first image ties between the captions
    ((1, 2, 1, 2), (0, 0, 0)),  # the image is ignored
    ((0, 0, 0, 0), (0, 0, 0)),
]


def _set() -> ScoredSet:
    rows = [row for (c0i0, c1i0, c0i1, c1i1), _ in BY_HAND for row in ((c0i0, c1i0), (c1i1, c0i1))]
    scores = np.array(rows, dtype=np.float64)
    count, zeros = len(rows), np.zeros_like(scores)
    by = {"likelihood": Scored(scores, zeros, zeros, zeros, zeros[..., None], zeros, zeros, zeros)}
    whole = np.zeros((count, 2), dtype=np.int64)
    items, groups = tuple(f"{n}" for n in range(count)), tuple(f"g{n // 2}" for n in range(count))
    return ScoredSet(items, items, groups, whole == 0, whole, whole, whole + np.arange(2), by)


@pytest.mark.parametrize(("place", "score"), [(0, "text"), (1, "image"), (2, "group")])
def test_winogrounds_scores_are_strict(place: int, score: str) -> None:
    one = _set()
    found = pair_values(one.by["likelihood"].own, pairs_of(one), score)
    assert found.tolist() == [expected[place] for _, expected in BY_HAND]


def test_guessing_gets_a_quarter_a_quarter_and_a_sixth() -> None:
    scores = np.random.default_rng(0).normal(size=(200_000, 2))
    pairs = [(n, n + 1) for n in range(0, len(scores), 2)]
    found = [100 * float(pair_values(scores, pairs, score).mean()) for score in ("text", "image", "group")]
    assert found == pytest.approx([25, 25, 100 / 6], abs=0.5)


def test_a_set_that_is_not_of_pairs_is_refused() -> None:
    one = _set()
    for groups in (("g0",) * len(one.items), one.items):
        told = ScoredSet(one.items, one.images, groups, one.present, one.pieces, one.unseen, one.same_as, one.by)
        with pytest.raises(ValueError, match="not of two images and two captions"):
            pairs_of(told)
    with pytest.raises(ValueError, match="no number"):
        pair_values(np.array([[1.0, np.nan], [0.0, 1.0]]), [(0, 1)], "text")
