"""How descriptive and how varied captions are: content words, distinct n-grams, self-BLEU.

All take captions as tokens separated by spaces, as :func:`mdc.evaluation.metrics.metrics.tokenized` makes them.
"""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from mdc.report.statistics.corpus_scores import bleu

_CLOSED = """
    a an the this that these those some any each every either neither no all both half several many much more most few
    less least other another such same own enough i you he she it we they me him her us them my your his its our their
    mine yours hers ours theirs myself yourself himself herself itself ourselves themselves who whom whose which what where
    when why how someone somebody something anyone anybody anything everyone everybody everything nobody nothing none one
    ones there here be am is are was were been being have has had having do does did doing done will would shall should can
    could may might must get gets getting got and or but nor so yet if then else than as because while although though
    unless until since whether of in on at by for with without from to into onto out off up down over under above below
    between among through across along around behind beside besides near against about before after during within toward
    towards upon via per not n't 's 're 've 'll 'd 'm ca wo also just only very too quite rather now very still already again
    ever never always often
"""
#: English function words, and a tokeniser's parts of contractions; all other words are content words
FUNCTION_WORDS = frozenset(_CLOSED.split())


def content_words(tokens: str) -> list[str]:
    """The content words of a caption, in order, with repetitions."""
    return [word for word in tokens.split() if word not in FUNCTION_WORDS]


def content_recall(caption: str, references: Sequence[str]) -> float:
    """The share of a reference's distinct content words that a caption has, in the mean over the references that have any;
    0 if none has."""
    words = set(content_words(caption))
    by_reference = [content for text in references if (content := set(content_words(text)))]
    return float(np.mean([len(words & content) / len(content) for content in by_reference])) if by_reference else 0.0


def distinct(captions: Sequence[str], order: int) -> float:
    """Distinct n-grams of a set of captions over all of them (Li et al., 2016), 0…1."""
    counts = sum((_ngrams(text, order) for text in captions), Counter[tuple[str, ...]]())
    return len(counts) / max(sum(counts.values()), 1)


def self_bleu(captions: Sequence[str], order: int = 4) -> float:
    """BLEU of each caption with all others as its references (Zhu et al., 2018), over the whole set, 0…1: 1 if all are alike.

    N-grams are counted once; the two highest counts of each are kept, so that a caption's own can be left out.
    """
    lengths = [len(text.split()) for text in captions]
    counts = [[_ngrams(text, n) for text in captions] for n in range(1, order + 1)]
    sums = np.zeros((1, 10))
    ordered = Counter(lengths)
    for length in lengths:
        others = (other for other, number in ordered.items() if number > (other == length))
        nearest = min(((abs(other - length), other) for other in others), default=(0, 0))[1]
        sums[0, :2] += [length, nearest]
    for n, grams in enumerate(counts):
        best: dict[tuple[str, ...], tuple[int, int, int]] = {}  # highest count, its caption, next highest
        for place, ngrams in enumerate(grams):
            for gram, number in ngrams.items():
                first, holder, second = best.get(gram, (0, -1, 0))
                best[gram] = (number, place, first) if number > first else (first, holder, max(second, number))
        for place, ngrams in enumerate(grams):
            sums[0, 2 + n] += sum(ngrams.values())
            sums[0, 6 + n] += sum(
                min(number, second if holder == place else first)
                for gram, number in ngrams.items()
                for first, holder, second in [best[gram]]
            )
    return float(bleu(sums, order)[0])


def _ngrams(caption: str, order: int) -> Counter[tuple[str, ...]]:
    words = caption.split()
    return Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
