"""CLIPScore reads the tokens that were written, however the tokenizer splits their text; what it leaves out is counted."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import open_clip
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_clip import write_clip
from torch import Tensor

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.clip_score import ClipScore
from mdc.evaluation.predictors.open_clip_score import OpenClipScorer
from mdc.evaluation.predictors.score import caption_tokens
from mdc.models.text import Vocabulary, clip_pieces, clip_text

RED, DOG, RUNS, D, FOG = (clip_pieces(word)[0] for word in ("red", "dog", "runs", "d", "fog"))
(FO,) = (piece for piece in range(49_406) if clip_text([piece, D]) == "fod")  # "fo", which no word ends with
(G,) = (piece for piece in range(49_406) if clip_text([FO, piece, DOG]) == "fog dog")
WORDS = Vocabulary.corpus([FO, G, RED, DOG, RUNS])
ROOM = 6


class Scorer:
    """A made-up run of CLIP: a caption's embedding follows from its tokens and their order."""

    vocabulary, context_length, step = WORDS, ROOM, 0.1

    def tokens(self, caption: str) -> list[int]:
        return caption_tokens(WORDS, caption, ROOM)

    def picture(self, image: object) -> Tensor:
        return torch.zeros(1)

    def look(self, images: Tensor) -> Tensor:
        return torch.tensor([[1.0, 0.0]]).expand(len(images), -1)

    def read(self, captions: Sequence[Sequence[int]]) -> Tensor:
        angles = [
            0.1 + sum((place + 2) * (token + 1) for place, token in enumerate(one)) % 13 * self.step for one in captions
        ]
        return torch.tensor([[math.cos(angle), math.sin(angle)] for angle in angles])


class DecodedCache(Captioned):
    def image(self, number: int) -> Image.Image:
        return cast(Image.Image, None)


class Shown:
    """Images with references."""

    def __init__(self, images: list[Image.Image], references: list[list[str]]) -> None:
        self.images, self.references = images, references

    def __len__(self) -> int:
        return len(self.images)

    def image(self, number: int) -> Image.Image:
        return self.images[number]


def score(references: list[list[str]]) -> ClipScore:
    keys = [str(number) for number in range(len(references))]
    images = DecodedCache(cast(Any, None), keys, references, [None] * len(keys), [])
    return ClipScore(Scorer(), images, "", {})


def by_hand(pieces: list[int], *references: str) -> tuple[float, float]:
    ours, *theirs = Scorer().read([WORDS.encode_pieces(pieces), *map(WORDS.encode, references)])
    own, near = 2.5 * max(float(ours[0]), 0), max(0, *(float(ours @ one) for one in theirs))
    return 100 * own, 100 * 2 * own * near / (own + near)


def test_a_caption_is_scored_by_the_pieces_that_were_written() -> None:
    """… though the text that they make is split into pieces that the model does not have."""
    written = [[FO, G, DOG], [RED, DOG]]
    texts = [clip_text(pieces) for pieces in written]
    assert texts == ["fog dog", "red dog"] and clip_pieces("fog dog") == [FOG, DOG]
    one = score([["red dog"], ["dog runs"]])
    found = one.of(texts, written)
    assert [pytest.approx(row) for row in found] == [by_hand(written[0], "red dog"), by_hand(written[1], "dog runs")]
    assert min(row[0] for row in found) > 0
    assert one.metadata == {"prefix": "", "cut": 0, "unknown": 0, "empty": 0, "long_references": 0}


def test_what_a_model_cannot_read_is_left_out_and_counted() -> None:
    texts = ["red submarine dog", "submarine", "", "red dog dog red dog", "red dog"]
    one = score([["red dog"]] * 4 + [["red dog", "red dog red dog red"]])
    found = one.of(texts, [None] * 5)
    assert one.metadata == {"prefix": "", "cut": 1, "unknown": 2, "empty": 2, "long_references": 1}
    assert found[0] == found[4] == pytest.approx(by_hand([RED, DOG], "red dog"))
    assert found[1] == found[2] == (0.0, 0.0)
    assert found[3] == pytest.approx(by_hand([RED, DOG, DOG, RED], "red dog"))
    # pieces of a writer with more words than the model
    assert one.of(["red submarine dog"] + ["red"] * 4, [clip_pieces("red submarine dog")] + [[RED]] * 4)[0] == found[0]
    assert one.metadata["unknown"] == 3


def test_the_nearest_reference_counts_and_nothing_counts_below_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Scorer, "step", 0.2)  # some lie on the other side of each other
    texts, references = ["dog red", "dog", "red dog runs"], [["red", "runs"], ["red dog runs"], ["red dog"]]
    found = score(references).of(texts, [None] * 3)
    assert found[0] == pytest.approx(by_hand(clip_pieces(texts[0]), *references[0]))
    assert found[1][0] > 0 == found[1][1], "no reference is like it"
    assert found[2] == (0, 0), "the image is not like it"


def test_by_a_model_of_open_clip_it_is_what_open_clip_says_by_hand(tmp_path: Path) -> None:
    """… by the formulas of Hessel et al. (2021). A caption that is too long loses its end, and a reference goes."""
    folder, long = write_clip(tmp_path), "red " + "dog " * 100
    weights = load_file(
        folder / "open_clip_model.safetensors"
    )  # untrained, captions are on the other side of the images
    save_file(weights | {"visual.proj": -weights["visual.proj"]}, folder / "open_clip_model.safetensors")
    shown = [Image.new("RGB", (40, 32), colour) for colour in ((200, 10, 10), (10, 10, 200))]
    captions, references = (
        [long, "two men ride a horse"],
        [["a brown dog"], ["two men are riding horses", "men on a horse"]],
    )
    images = Shown(shown, [[*some, long] for some in references])
    scorer = OpenClipScorer(f"local-dir:{folder}", None, "fp32", torch.device("cpu"))
    scored = ClipScore(scorer, cast(Any, images), "A photo depicts ", {})
    found = scored.of(captions, [None, None])
    model, _, preprocess = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    tokenizer = open_clip.get_tokenizer(f"local-dir:{folder}")
    for place, image in enumerate(shown):
        texts = tokenizer([f"A photo depicts {one}" for one in (captions[place], *references[place])])
        with torch.no_grad():
            seen = model.eval().encode_image(preprocess(image)[None], normalize=True)[0]
            own, *others = model.encode_text(texts, normalize=True)
        score, near = 2.5 * float(seen @ own), max(float(own @ other) for other in others)
        assert score > 0 and near > 0
        assert found[place] == pytest.approx((100 * score, 100 * 2 * score * near / (score + near)), abs=1e-3)
    assert (scored.metadata["cut"], scored.metadata["long_references"]) == (1, 2)
