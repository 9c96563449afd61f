"""A multi-label probe from captioned images: which of the ``count`` most frequent nouns occur in an image's captions.

Two distributional signs identify a noun in English captions: it follows a determiner, perhaps with an adjective between, and it
ends its noun phrase, so that a function word, an -ing form or punctuation follows. An adjective shows only the first sign, a
verb neither. Both are counted over all occurrences of a form. The resulting list is in the probe's index.json.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.data.formats.reading import SourceItem
from mdc.data.formats.split_words import listed
from mdc.data.sources.cleaned import LabelledImages
from mdc.data.sources.parquet import ParquetFiles, captions_of_file
from mdc.plan.records import UserError


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOKEN = re.compile(r"[a-z]+|[^\sa-z]")
_DETERMINERS = _set(
    "a an the this that these those his her their its my our your two three four five six seven eight several some "
    "many one another each every no"
)
_FUNCTION_WORDS = _set(
    "about above across after against along alongside among and around as at away atop before behind below beneath "
    "beside between beyond but by down during for from he her him his if in inside into is are was were be been being "
    "it its like near next of off on onto or out outside over past she so than that the their them they through to "
    "together toward towards under underneath until up upon when where which while whilst who with within without a "
    "an has have wears sits sit stands stand runs run walks walk plays play jumps jump looks look holds hold"
)
# Nouns by the rule that name nothing visible in an image, and forms that are adjectives as often.
_NOT_VISIBLE = _set(
    "background front foreground top bottom side back middle edge end center rest distance other others one ones "
    "group couple pair number lot bunch type kind piece part area place way something someone somebody picture photo "
    "photograph image camera view scene time day close line row crowd air it him them jump run look watch walk ride "
    "play leap race fall trick pose turn match game adult male female open light color outside inside stunt shot body "
    "midair spot corner setting surface team sport event position style"
)
_IRREGULAR = {
    "men": "man",
    "women": "woman",
    "children": "child",
    "people": "person",
    "feet": "foot",
    "teeth": "tooth",
    "leaves": "leaf",
    "knives": "knife",
    "shelves": "shelf",
    "wolves": "wolf",
    "mice": "mouse",
    "geese": "goose",
    "firemen": "fireman",
    "policemen": "policeman",
}
_LEAST_OCCURRENCES = 5
_AFTER_DETERMINER = 0.4  # least share of a noun's occurrences after a determiner or an adjective
_ENDS_PHRASE = 0.5  # least share of a noun's occurrences that end their phrase
_ADJECTIVE_ENDS = 0.4  # a form after determiners that ends its phrase more rarely is an adjective


def words(caption: str) -> list[str]:
    """Lower-case words and single punctuation marks of a caption."""
    return _TOKEN.findall(caption.lower())


def noun_forms(captions: Iterable[str]) -> set[str]:
    """Surface forms (singular and plural are separate) that behave as nouns in these captions and name something visible."""
    sentences = [words(caption) for caption in captions]
    total: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    after_determiner: Counter[str] = Counter()
    for sentence in sentences:
        for before, word, after in _neighbours(sentence):
            total[word] += 1
            ends[word] += after in _FUNCTION_WORDS or not after.isalpha() or after.endswith("ing")
            after_determiner[word] += before in _DETERMINERS
    adjectives = {
        word
        for word, count in total.items()
        if after_determiner[word] >= _AFTER_DETERMINER * count and ends[word] < _ADJECTIVE_ENDS * count
    }
    described: Counter[str] = Counter()
    for sentence in sentences:
        for before, word, _ in _neighbours(sentence):
            described[word] += before in _DETERMINERS or before in adjectives
    closed = _DETERMINERS | _FUNCTION_WORDS | _NOT_VISIBLE
    return {
        word
        for word, count in total.items()
        if count >= _LEAST_OCCURRENCES
        and len(word) > 1
        and word not in closed
        and described[word] >= _AFTER_DETERMINER * count
        and ends[word] >= _ENDS_PHRASE * count
    }


def _neighbours(sentence: Sequence[str]) -> Iterable[tuple[str, str, str]]:
    padded = [".", *sentence, "."]
    return ((a, b, c) for a, b, c in zip(padded, padded[1:], padded[2:], strict=False) if b.isalpha())


def singular(form: str, forms: set[str]) -> str:
    """The singular of a form, where that is irregular or itself a noun form; otherwise the form ("shorts")."""
    if form in _IRREGULAR:
        return _IRREGULAR[form]
    candidates = []
    if form.endswith("ies"):
        candidates.append(form[:-3] + "y")
    if form.endswith("s") and not form.endswith("ss"):
        candidates.append(form[:-1])
    if form.endswith(("ses", "xes", "zes", "ches", "shes")):
        candidates.append(form[:-2])
    return next((candidate for candidate in candidates if candidate in forms), form)


def commonest_nouns(caption_lists: Sequence[Sequence[str]], count: int) -> dict[str, tuple[str, ...]]:
    """The ``count`` nouns that occur with the most images, each with its surface forms.

    ``caption_lists``: the captions of each image. An image counts once for a noun. The result is ordered by falling frequency,
    ties alphabetically.
    """
    forms = noun_forms(caption for captions in caption_lists for caption in captions)
    forms |= {form for form, base in _IRREGULAR.items() if base in forms}
    images: Counter[str] = Counter()
    surface: dict[str, set[str]] = {}
    base_of = {form: singular(form, forms) for form in forms}
    for captions in caption_lists:
        present = {word for caption in captions for word in words(caption) if word in base_of}
        images.update({base_of[word] for word in present})
        for word in present:
            surface.setdefault(base_of[word], set()).add(word)
    ranked = sorted(images, key=lambda noun: (-images[noun], noun))[:count]
    return {noun: tuple(sorted(surface[noun])) for noun in ranked}


def presence(captions: Iterable[str], nouns: dict[str, tuple[str, ...]]) -> list[int]:
    """1 for each noun (in order) that any of the captions has in any of its forms, otherwise 0."""
    present = {word for caption in captions for word in words(caption)}
    return [int(not present.isdisjoint(forms)) for forms in nouns.values()]


class CaptionNouns(LabelledImages):
    """Images of one split with a zero or one for each noun; the nouns are counted only in the split ``vocabulary``."""

    task = "multi"

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._files = ParquetFiles(source, data_dir, self.links)
        self._files.counts()
        wanted = listed(source["splits"]["vocabulary"])
        columns = source["caption_column"], source["split_column"], wanted
        captions = [texts for path in self._files.paths for texts in captions_of_file(path, *columns)]
        self._nouns = commonest_nouns(captions, source["count"])
        if not self._nouns:
            raise UserError(f"{source['path']}: no nouns found in the captions of split {', '.join(wanted)}")
        self.classes = list(self._nouns)

    def items(self, split: str) -> Iterator[SourceItem]:
        for row in self._files.rows(split, captions=True):
            yield row._replace(label=tuple(presence(row.captions, self._nouns)))


open_source = CaptionNouns  # see mdc.data.sources.source
