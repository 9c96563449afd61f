"""What a judge is asked about one image, what its answer means, and how its vote is shared (paper, section 4.2)."""

from __future__ import annotations

import hashlib
import re
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


def question(image: str, systems: Sequence[str], captions: Sequence[str], seed: int) -> Question:
    """The captions in an order that is drawn for each image: it follows from its key, the systems and the seed alone."""
    digest = hashlib.blake2b(f"{seed} judge {' '.join(systems)} {image}".encode(), digest_size=16).digest()
    order = np.random.Generator(np.random.Philox(key=int.from_bytes(digest))).permutation(len(systems)).tolist()
    return Question(tuple(systems[n] for n in order), tuple(captions[n] for n in order))


def chosen_letter(answer: str, letters: str) -> str | None:
    """The letter that an answer chooses, None if it chooses none, or more than one.

    A letter alone (``B``, ``(b).``), one that begins the answer as a label (``B. A dog``, ``B: because``), or one that is named
    (``caption B``, ``the answer is B``, ``I choose **B**``). The article of "A dog runs" is no choice.
    """
    text = answer.strip()
    some = f"[{letters}]"
    alone = re.fullmatch(rf"\W*({some})\W*", text, re.IGNORECASE)
    if alone:
        return alone[1].upper()
    first = re.match(rf"\W*({some})[.):,\]*\"']", text)
    words = r"(?i:\b(?:caption|option|letter|choose|choice|select|pick)\b|\b(?:answer|best)(?:\s+\w+)?\s+is\b|\banswer\b\s*:)"
    named = re.findall(rf"{words}(?i:\s+(?:is|caption|option|letter))*[\s:*\"'(]*\b({some})\b", text)
    found = set(named) | ({first[1]} if first else set())
    return found.pop() if len(found) == 1 else None


def votes(asked: Question, letter: str) -> dict[str, float]:
    """What each system gets: identical captions share the vote."""
    winner = asked.captions[asked.letters.index(letter)]
    same = [system for system, caption in zip(asked.systems, asked.captions, strict=True) if caption == winner]
    return {system: 1 / len(same) if system in same else 0.0 for system in asked.systems}
