"""Words of an English caption, and their parts of speech as Penn Treebank tags.

ARO's trigrams are of NLTK's words (the extra ``order`` installs NLTK). The tagger is an optional package:

``spacy``     spaCy with its model ``en_core_web_sm``, as for ARO's published numbers
``textblob``  TextBlob's rules and word list: no model to fetch, but it errs more often

The two tag some words differently, and so give different options: a set's index names the one used.
"""

import re
from collections.abc import Callable
from importlib import metadata
from typing import Any

from mdc.plan.records import UserError

Tagged = tuple[list[str], list[str]]  # words, tags
_SPACY_MODEL = "en_core_web_sm"

# A full stop between two sentences: NLTK's tokenizer splits off only the last one; its sentence splitter is a download.
_BETWEEN = re.compile(r"([a-z][^.\s]{2,})\.(?=\s+[A-Z])")


def treebank_words() -> tuple[Callable[[str], list[str]], dict[str, str]]:
    """A function from text to words and punctuation marks by the Penn Treebank's rules, and its name and version.

    UserError if NLTK is not installed.
    """
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError:
        raise UserError(
            "ARO's order sets are made of NLTK's words: `pip install nltk`, or this package's extra `order`"
        ) from None
    tokenizer = NLTKWordTokenizer()

    def words(text: str) -> list[str]:
        return list(tokenizer.tokenize(_BETWEEN.sub(r"\1 .", text)))

    return words, {"tokenizer": "nltk", "version": metadata.version("nltk")}


def tagger(name: str) -> tuple[Callable[[str], Tagged], dict[str, str]]:
    """A function from text to (words, tags), and its name and versions. UserError if it is not installed."""
    return {"spacy": _spacy, "textblob": _textblob}[name]()


def _spacy() -> tuple[Callable[[str], Tagged], dict[str, str]]:
    try:
        import spacy

        pipeline: Any = spacy.load(_SPACY_MODEL, exclude=["parser", "ner", "lemmatizer"])
    except (ImportError, OSError) as error:  # OSError: spaCy is installed, its model is not
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


def _textblob() -> tuple[Callable[[str], Tagged], dict[str, str]]:
    try:
        from textblob.en import tag as pattern_tag
    except ImportError:
        raise UserError("tagger textblob needs the package textblob: `pip install textblob`") from None

    words_of, _ = treebank_words()

    def tag(text: str) -> Tagged:
        words = words_of(text)
        tagged = pattern_tag(" ".join(words), tokenize=False) if words else []
        return [str(word) for word, _ in tagged], [str(kind) for _, kind in tagged]

    return tag, {"tagger": "textblob", "version": metadata.version("textblob")}
