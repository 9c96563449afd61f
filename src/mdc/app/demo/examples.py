"""Example images: held-out ones of a run's corpus that it captions correctly."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.app.model import Model
from mdc.data.formats.images import decode
from mdc.data.scenes.oracle import judge
from mdc.data.scenes.world import Scene
from mdc.data.shards.index import ShardReader
from mdc.evaluation.retrieval import SPLIT
from mdc.plan.records import UserError

_SHOWN, _TRIED, _AT_ONCE = 4, 32, 8
_SEED = 0


@dataclass(frozen=True)
class Examples:
    """``images``: (file, the run's caption of it); ``text``: what they are, or why there are none."""

    images: list[tuple[Path, str]]
    text: str


def examples(model: Model, folder: Path) -> Examples:
    """Up to 4 images that are captioned rightly, of 32 held-out ones that a seed chooses; ``folder``: where their files go."""
    if not model.writes:
        return Examples([], "No examples: this run writes no captions.")
    if not model.has_corpus:
        return Examples([], "No examples: this run lies without the corpus that it was trained on.")
    try:
        images, tried = _right(model, folder)
    except UserError as error:
        return Examples([], f"No examples: {error}.")
    if not images:
        return Examples(
            [],
            f"No examples: of {tried} held-out images, chosen by a seed, this run captions none rightly.",
        )
    text = (
        f"Examples: held-out images that this run captions rightly (as a reference, or, of a scene, with true statements "
        f"alone); {len(images)} of {tried} that were tried, chosen by a seed. So they show it at its best."
    )
    return Examples(images, text)


def _right(model: Model, folder: Path) -> tuple[list[tuple[Path, str]], int]:
    reader = ShardReader(model.corpus, SPLIT)
    numbers = random.Random(_SEED).sample(range(len(reader)), min(_TRIED, len(reader)))
    images: list[tuple[Path, str]] = []
    for first in range(0, len(numbers), _AT_ONCE):
        samples = [reader.read(number) for number in numbers[first : first + _AT_ONCE]]
        captions = model.caption([decode(data) for _, data, _ in samples])
        for number, (_, data, record), caption in zip(numbers[first:], samples, captions, strict=False):
            if _is_right(caption.text, record):
                path = folder / f"example-{number}.png"
                path.write_bytes(data)
                images.append((path, caption.text))
        if len(images) >= _SHOWN:
            return images[:_SHOWN], first + len(samples)
    return images, len(numbers)


def _is_right(caption: str, record: Mapping[str, Any]) -> bool:
    """Whether it is a reference, or, of a rendered scene, states something, all of it true."""
    if _plain(caption) in map(_plain, record["captions"]):
        return True
    if (truth := record.get("truth")) is None:
        return False
    verdict = judge(Scene.from_json(dict(truth)), caption)
    return 0 < verdict.all.true == verdict.all.stated and not verdict.unreadable


def _plain(caption: str) -> str:
    """A caption in lower case, without the full stop."""
    return " ".join(caption.lower().split()).rstrip(" .")
