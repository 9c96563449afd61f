"""The question to a judge about one image, and how its vote is shared (paper, section 4.2)."""

import hashlib
import string
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: the paper's prompt, word for word; the letter-labelled captions are appended to it
PROMPT = "Which caption best depicts the image and is also coherent (no duplicate words or awkward phrasing)?"


@dataclass(frozen=True)
class Question:
    """``systems`` in the order of their letters, and their ``captions``."""

    systems: tuple[str, ...]
    captions: tuple[str, ...]

    @property
    def letters(self) -> str:
        return string.ascii_uppercase[: len(self.systems)]

    @property
    def text(self) -> str:
        """The prompt and the captions, a line each."""
        lines = (f"{letter}. {caption}" for letter, caption in zip(self.letters, self.captions, strict=True))
        return "\n".join([PROMPT, *lines])


def question(
    image: str, systems: Sequence[str], captions: Sequence[str], seed: int, training_seed: int = 0
) -> Question:
    """The captions in a random order for each image, which depends only on its key, the systems and the two seeds.

    Orders differ between ``training_seed``s, so a system gets several letters on one image.
    """
    named = f"{seed} {training_seed} judge {' '.join(systems)} {image}"
    digest = hashlib.blake2b(named.encode(), digest_size=16).digest()
    order = np.random.Generator(np.random.Philox(key=int.from_bytes(digest))).permutation(len(systems)).tolist()
    return Question(tuple(systems[n] for n in order), tuple(captions[n] for n in order))


def votes(question: Question, letter: str) -> dict[str, float]:
    """Each system's share of the vote; identical captions share it."""
    winner = question.captions[question.letters.index(letter)]
    same = [system for system, caption in zip(question.systems, question.captions, strict=True) if caption == winner]
    return {system: 1 / len(same) if system in same else 0.0 for system in question.systems}
