"""CoCa's captions against those that open_clip 3.3's own ``generate`` wrote under transformers 4.56 (coca_captions.json).

At most twelve tokens with start and end. ``greedy`` takes the likeliest token each time. ``plain`` searches six beams by log
probabilities, as open_clip 4 does. ``groups`` searches three groups of two beams by sums of logits, as 3.3 does by default.
"""

import json
from pathlib import Path

import pytest
import torch
from tiny_coca import EOT, SOT, pixels, tiny_coca

from mdc.evaluation.coca import search

THEIRS: dict[str, list[list[int]]] = json.loads(Path(__file__).with_name("coca_captions.json").read_text())


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def test_greedy_captions_are_open_clips() -> None:
    assert search(tiny_coca(seed=1), pixels(6), 1, 12) == THEIRS["greedy"]


@torch.no_grad()
def test_six_plain_beams_differ_from_open_clips_by_the_start_in_the_mean() -> None:
    """Theirs counts it as a token, which favours short captions: two of six are equal, four of ours are longer."""
    model, images = tiny_coca(seed=1), pixels(6)
    found, theirs = search(model, images, 6, 12), THEIRS["plain"]

    def log_prob(place: int, tokens: list[int]) -> float:
        """EOT included."""
        text = torch.tensor([[SOT, *tokens]])
        logits = model(images[place : place + 1], text, output_labels=False)["logits"][0].log_softmax(dim=-1)
        return float(logits.gather(1, torch.tensor([*tokens, EOT])[:, None]).sum())

    for place in range(6):
        for counted, better, worse in ((1, found, theirs), (2, theirs, found)):
            good, other = (log_prob(place, one[place]) / (len(one[place]) + counted) for one in (better, worse))
            assert good >= other - 1e-6
    assert [len(tokens) for tokens in found] == [4, 9, 6, 4, 6, 10]
    assert [len(tokens) for tokens in theirs] == [4, 5, 4, 4, 4, 4]
    assert [place for place in range(6) if found[place] == theirs[place]] == [0, 3]
    # three groups of beams are another search
    assert [place for place in range(6) if found[place] == THEIRS["groups"][place]] == [0, 1, 4]
