"""Words of an English caption, and their parts of speech as Penn Treebank tags.

``treebank_words`` is what ARO's trigrams are made of (Penn Treebank tokenisation, as NLTK's ``word_tokenize`` does it).
Tags come from a package that the user installs, because none that can tag is needed for anything else here:

``spacy``     spaCy with its model ``en_core_web_sm``: what ARO's published numbers were made with
``textblob``  TextBlob's rules and word list: no model to fetch, but it errs more often

The two tag some words differently, so they make different options: the index of a set says which one was used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from typing import Any

from mdc.records import UserError

Tagged = tuple[list[str], list[str]]  # words, tags
TAGGERS = ("spacy", "textblob")
_SPACY_MODEL = "en_core_web_sm"

# Penn Treebank tokenisation (Marcus, Santorini and Marcinkiewicz, 1993), for text without quotations across lines
_STEPS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(^|[\s(\[{<])\"", r"\1 `` "),  # an opening quotation mark
        (r"\"", " '' "),
        (r"(\.{2,})", r" \1 "),
        (r"([:,])(?!\d)", r" \1 "),
        (r"([;@#$%&?!])", r" \1 "),
        (r"--", " -- "),
        (r"([\[\](){}<>])", r" \1 "),
        (r"([^.\s])\.(?=[\s\])}>\"']*$)", r"\1 . "),  # the full stop that ends the text
        (r"([a-z][^.\s]{2,})\.(?=\s+[A-Z])", r"\1 . "),
        (r"(?i)(^|\s)'(?!(?:s|m|d|ll|re|ve)\b)(?=\w)", r"\1' "),  # an opening mark, and no ending apart from its word
        (r"([^'\s])'(?=\s|$)", r"\1 ' "),
        (r"(?i)(\w)('s|'m|'d|'ll|'re|'ve)\b", r"\1 \2 "),
        (r"(?i)(\w)(n't)\b", r"\1 \2 "),
        (r"(?i)\b(can)(not)\b", r"\1 \2"),
        (r"(?i)\b(gon|wan)(na)\b", r"\1 \2"),
    )
)


def treebank_words(text: str) -> list[str]:
    """The words and punctuation marks of ``text`` by the Penn Treebank's rules."""
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    return text.split()


def tagger(name: str) -> tuple[Callable[[str], Tagged], dict[str, str]]:
    """A function from text to (words, tags), and what it is, with versions. UserError if it is not installed."""
    match name:
        case "spacy":
            return _spacy()
        case "textblob":
            return _textblob()
        case _:
            raise UserError(f"tagger {name!r} is not known; allowed: {', '.join(TAGGERS)}")


@lru_cache(maxsize=1)
def _spacy() -> tuple[Callable[[str], Tagged], dict[str, str]]:
    try:
        import spacy

        pipeline: Any = spacy.load(_SPACY_MODEL, exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:  # OSError: spaCy is there, its model is not
        raise UserError(
            f"the tagger of ARO's order sets is missing ({type(error).__name__}): it is spaCy with {_SPACY_MODEL}, "
            f"installed by `pip install spacy` and `python -m spacy download {_SPACY_MODEL}`; without access to the "
            "model, `pip install textblob` and tagger: textblob give other, less exact negatives"
        ) from None

    def tag(text: str) -> Tagged:
        document = pipeline(text)
        return [token.text for token in document], [token.tag_ for token in document]

    model = pipeline.meta
    return tag, {"tagger": "spacy", "version": spacy.__version__, "model": f"{_SPACY_MODEL} {model.get('version')}"}


@lru_cache(maxsize=1)
def _textblob() -> tuple[Callable[[str], Tagged], dict[str, str]]:
    try:
        from textblob.en import tag as pattern_tag
    except ImportError:
        raise UserError("tagger textblob needs the package textblob: `pip install textblob`") from None

    def tag(text: str) -> Tagged:
        words = treebank_words(text)
        found = pattern_tag(" ".join(words), tokenize=False) if words else []
        return [str(word) for word, _ in found], [str(kind) for _, kind in found]

    return tag, {"tagger": "textblob", "version": metadata.version("textblob")}
