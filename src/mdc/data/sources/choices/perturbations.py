"""ARO's four perturbations of a caption's word order (Yuksekgonul et al., 2023), as pure functions.

Each takes the words of a caption, their Penn Treebank tags, and a generator, and returns the words in another order. Draws are
uniform, so a caption can stay unchanged (for example, with one noun and one adjective); ARO keeps it.
"""

import re
from collections.abc import Sequence

import numpy as np

NOUNS = frozenset({"NN", "NNS", "NNP", "NNPS"})
ADJECTIVES = frozenset({"JJ", "JJR", "JJS"})
_DROPPED = re.compile(r"[.!\"()*#:;~]")


def permute_nouns_and_adjectives(words: Sequence[str], tags: Sequence[str], rng: np.random.Generator) -> list[str]:
    """The nouns permuted among the nouns' places, the adjectives among the adjectives'."""
    nouns = [place for place, tag in enumerate(tags) if tag in NOUNS]
    adjectives = [place for place, tag in enumerate(tags) if tag in ADJECTIVES]
    return _permuted(_permuted(words, nouns, rng), adjectives, rng)


def permute_other_words(words: Sequence[str], tags: Sequence[str], rng: np.random.Generator) -> list[str]:
    """All words except nouns and adjectives permuted among their places; punctuation marks are words here."""
    return _permuted(words, [place for place, tag in enumerate(tags) if tag not in NOUNS | ADJECTIVES], rng)


def permute_within_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Words 1–3, 4–6, … (the last group can be shorter) permuted within each group."""
    return [words[place] for group in _trigrams(len(words)) for place in rng.permutation(group).tolist()]


def permute_trigrams(words: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Words 1–3, 4–6, … kept together, the groups permuted."""
    groups = _trigrams(len(words))
    return [words[place] for number in rng.permutation(len(groups)).tolist() for place in groups[number]]


def published_form(text: str, max_words: int) -> str:
    """A caption as ARO has it: lower case, without . ! " ( ) * # : ; ~, single spaces, at most ``max_words`` words.

    Applied to every option, the right one too; a separate punctuation mark that stays (a comma) counts as a word.
    """
    return " ".join(_DROPPED.sub(" ", text.lower()).split()[:max_words])


def perturbed(
    words: Sequence[str], tags: Sequence[str], untagged: Sequence[str], rng: np.random.Generator
) -> list[list[str]]:
    """The four in the order of the wrong options: two of ``words`` with their ``tags``, two of the ``untagged`` words."""
    return [
        permute_nouns_and_adjectives(words, tags, rng),
        permute_other_words(words, tags, rng),
        permute_within_trigrams(untagged, rng),
        permute_trigrams(untagged, rng),
    ]


def _permuted(words: Sequence[str], places: Sequence[int], rng: np.random.Generator) -> list[str]:
    result = list(words)
    for place, source in zip(places, rng.permutation(places).tolist(), strict=True):
        result[place] = words[source]
    return result


def _trigrams(count: int) -> list[list[int]]:
    return [list(range(first, min(first + 3, count))) for first in range(0, count, 3)]
