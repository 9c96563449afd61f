"""One sample on its way from a source into a shard, and the list of those left out."""

import ast
import hashlib
import json
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mdc.data.formats.images import ENDINGS, ImageError, at_most
from mdc.data.formats.lfs import is_lfs_pointer
from mdc.data.formats.tar import MAX_FILE, Place
from mdc.plan.records import atomic_path

IMAGE_ENDINGS = frozenset(ending for endings in ENDINGS.values() for ending in endings)
_LONGEST_KEY = 80  # characters of a name
_SHOWN = 200  # characters of a detail
_STRING = r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"  # as Python writes it
_LIST = re.compile(rf"\[\s*{_STRING}(?:[\s,]+{_STRING})*,?\s*\]", re.DOTALL)


@dataclass(frozen=True)
class RawSample:
    """One sample for a shard: ``image`` is encoded bytes, ``extension`` their format.

    A corpus sample has captions; a probe sample has a ``label`` (single) or ``labels`` of zeros and ones (multi). ``place``:
    (offset, size) of an image in its source's tar. ``name``: of its file, if it is a person's own.
    """

    key: str
    image: bytes
    extension: str
    captions: tuple[str, ...] = ()
    truth: dict[str, Any] | None = None
    label: int | None = None
    labels: tuple[int, ...] | None = None
    place: Place | None = None
    name: str = ""


@dataclass(frozen=True)
class ChoiceSample(RawSample):
    """An image and its ``options``, captions of which the first is right.

    ``group`` is what the published score is averaged over (a relation, a pair of attributes) or the task; ``id`` is the item's
    number in the published file. ``box``, to which the image is cropped before it is scored, is (left, top, width, height) in
    pixels of the stored image. ``image_name`` is the image's name in all sets that show it: items with the same image are
    resampled together.
    """

    options: tuple[str, ...] = ()
    group: str = ""
    id: str = ""
    box: tuple[float, float, float, float] | None = None
    image_name: str = ""


@dataclass(frozen=True)
class Shortcut:
    """The accuracy of answers that do not need what a set tests. ``kind``: nothing, no image, one object, places, words or added
    up; ``what``: the features used; ``value``: the accuracy; ``score``: for pairs, which of Winoground's scores ``value`` is."""

    kind: str
    what: str
    value: float
    score: str | None = None

    def row(self) -> dict[str, Any]:
        """For a set's index."""
        return {name: value for name, value in vars(self).items() if value is not None}


class Skipped:
    """The samples left out: ``counts`` by reason, the first of each reason as an example, and a list of all; and how many
    ``captions`` are left out of samples that keep others.

    ``split`` is the split being read. Each sample left out is written to ``lines``, if given, as a line of JSON.
    """

    def __init__(self, lines: IO[str] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.captions = 0
        self.split = ""
        self._lines = lines

    def add(self, reason: str, key: str, file: str = "", detail: str = "") -> None:
        """Leave out one sample; ``key`` and ``file`` identify it, ``detail`` is what was wrong."""
        self.counts[reason] += 1
        where = {"split": self.split, "key": key, "file": file}
        self.examples.setdefault(reason, ", ".join(f"{name} {_short(value)}" for name, value in where.items() if value))
        if self._lines is not None:
            row = {**where, "reason": reason, "detail": detail}
            self._lines.write(json.dumps({name: _short(value) for name, value in row.items()}) + "\n")

    def join(self, lines: Iterable[str]) -> None:
        """Append the list of another ``Skipped``."""
        for line in lines:
            row = json.loads(line)
            self.split = row["split"]
            self.add(row["reason"], row["key"], row["file"], row["detail"])

    def __str__(self) -> str:
        """The reasons, most frequent first, each with its count and its first example."""
        ranked = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return "; ".join(f"{reason}: {count} (first: {self.examples[reason]})" for reason, count in ranked)


@contextmanager
def skipped_list(path: Path) -> Iterator[Skipped]:
    """A ``Skipped`` whose list becomes ``path`` when the block ends without error; no file if nothing was left out."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as lines:
        skipped = Skipped(lines)
        yield skipped
    if not skipped.counts:
        path.unlink()


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


class LeftOut(Exception):
    """Why a sample is left out: ``reason``, by which it is counted, and ``detail``, what was wrong."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


Encoded = tuple[bytes, str]  # an image's bytes, and the extension of their format


def read_image(image: object, image_size: int | None = None) -> Encoded:
    """Encoded bytes, or those in a struct as in Hugging Face's datasets, with their extension. LeftOut if they cannot be decoded
    completely.

    With ``image_size``, an image whose shorter side has more pixels is resized to a JPEG.
    """
    if isinstance(image, dict):
        if image.get("bytes") is None and image.get("path"):
            raise LeftOut("image is a path without bytes", str(image["path"]))
        image = image.get("bytes")
    if not isinstance(image, bytes) or not image:
        raise LeftOut("no image", "zero bytes" if image == b"" else "")
    if len(image) > MAX_FILE:
        raise LeftOut("image too large", f"{len(image)} bytes, at most {MAX_FILE} allowed")
    if is_lfs_pointer(image):
        raise LeftOut("image is a Git LFS pointer", "run `git lfs pull`")
    try:
        return at_most(image, image_size)
    except ImageError as error:
        raise LeftOut(error.reason, str(error)) from None


def read_file(path: Path, image_size: int | None = None) -> Encoded:
    """``read_image`` of a plain file; reading a pipe would block. A name that has another Unicode form in the folder (as on
    macOS) is found."""
    try:
        path = _existing_form(path)
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise LeftOut("image file cannot be read", "not a plain file")
        if status.st_size > MAX_FILE:
            raise LeftOut("image too large", f"{status.st_size} bytes, at most {MAX_FILE} allowed")
        return read_image(path.read_bytes(), image_size)
    except FileNotFoundError:
        raise LeftOut("image file is missing") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        raise LeftOut("image file cannot be read", getattr(error, "strerror", None) or str(error)) from None


def counted(read: Callable[[], Encoded], skipped: Skipped, key: str, file: str) -> Encoded | None:
    """The result of ``read``; None if it raises LeftOut, which ``skipped`` counts."""
    try:
        return read()
    except LeftOut as left:
        skipped.add(left.reason, key, file, left.detail)
        return None


def _existing_form(path: Path) -> Path:
    if str(path).isascii() or path.exists():
        return path
    whole = (Path(unicodedata.normalize(form, str(path))) for form in ("NFC", "NFD"))
    name_only = (path.with_name(unicodedata.normalize(form, path.name)) for form in ("NFC", "NFD"))
    return next((candidate for candidate in (*name_only, *whole) if candidate.exists()), path)


def texts_of(value: Any) -> list[str]:
    """The texts of a source's field: a text, or those of a list, which may be written as text, with "" for its other values; none
    of another value."""
    if isinstance(value, str):
        return _listed(value)
    return [text if isinstance(text, str) else "" for text in value] if isinstance(value, list | tuple) else []


def _listed(text: str) -> list[str]:
    """The texts of a list that is written as text in JSON's or Python's form, as by pandas and numpy in a CSV file, or in
    Flickr30k's table. Any other text is returned as it is."""
    if not (text.startswith("[") and text.endswith("]")):
        return [text]
    texts: Any = None
    try:
        texts = json.loads(text)
    except (ValueError, RecursionError):
        if _LIST.fullmatch(text):
            # one by one: numpy writes no commas, and Python would concatenate the strings
            with suppress(ValueError, SyntaxError):
                texts = [ast.literal_eval(literal) for literal in re.findall(_STRING, text, re.DOTALL)]
    return texts if isinstance(texts, list) and all(isinstance(value, str) for value in texts) else [text]


def safe_key(name: str) -> str:
    """``name`` as a webdataset key: letters, digits, '-' and '_' stay, all else becomes '_' (a dot would end the key).

    A name with characters beyond ASCII, or of more than 80 characters, becomes its hash and its last 80 characters, so that such
    names stay distinct. Collisions of other names are an error when shards are written.
    """
    name = unicodedata.normalize("NFC", name)
    key = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    if len(key) > _LONGEST_KEY or not name.isascii():
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6)
        return f"{digest.hexdigest()}-{key[-_LONGEST_KEY:]}"
    return key or "_"


def held_out(name: str, share: float) -> bool:
    """Whether ``name`` is in the held-out ``share``, by its hash alone, so that more data moves no sample."""
    return _hash(name) < share * 2**64


def drawn_split(name: str, val_fraction: float) -> str:
    """The split of ``name``: "val" if it is held out, else "train"."""
    return "val" if held_out(name, val_fraction) else "train"


def distance(name: str, share: float) -> float:
    """How far the hash of ``name`` is from where the held-out ``share`` ends."""
    return abs(_hash(name) - share * 2**64)


def _hash(name: str) -> int:
    return hash64(name.encode("utf-8", "replace"))


def hash64(content: bytes) -> int:
    """64 bits of BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest())


def rank_hash(seed: int, key: str) -> int:
    """The rank of ``key``: the N lowest are a random subset of size N, and smaller subsets are in larger ones."""
    # keys with lone surrogates are ranked too, before their rows are left out
    return hash64(f"{seed}\0{key}".encode("utf-8", "surrogatepass"))
