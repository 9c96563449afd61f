"""Corpora, probe sets and choice sets on disk, read: the index of a set, and random access to its samples.

What writes them is :mod:`mdc.shards.writer`; reading knows nothing of where samples come from, so a new source
retrains nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mdc.config import first_problem
from mdc.formats.tar import sample_spans, split_span, tar_members
from mdc.records import UserError, read_json, sha256_file
from mdc.text import CLIP_SOT

INDEX = "index.json"
Kind = Literal["corpus", "probe", "choices"]
_QUICK = 4 << 30  # bytes that are hashed without asking


def token_hash(ids: Sequence[int]) -> int:
    """A stable 63-bit hash of token ids: the same in every process, for finding equal captions in a batch."""
    digest = hashlib.blake2b(np.asarray(ids, dtype="<i4").tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


class _Part(BaseModel):
    """Of an index, what readers rely on; there may be more."""

    model_config = ConfigDict(strict=True)


Count = Annotated[int, Field(ge=0)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*$")]  # beside the index, nowhere else


class _Shard(_Part):
    file: FileName
    samples: Count
    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Split(_Part):
    samples: Count
    shards: list[_Shard]

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        found = sum(shard.samples for shard in self.shards)
        if found != self.samples:
            raise ValueError(f"samples = {self.samples}, but those of the shards add up to {found}")
        return self


class _Captions(_Part):
    duplicate_share: Annotated[
        dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Annotated[float, Field(ge=0, le=1)]], Field(min_length=1)
    ]


class _CorpusIndex(_Part):
    kind: Literal["corpus"]
    name: str
    splits: dict[str, _Split]
    skipped: dict[str, Count]
    captions: _Captions
    pieces: list[Annotated[int, Field(ge=0, lt=CLIP_SOT)]]

    @model_validator(mode="after")
    def _has_train(self) -> Self:
        if "train" not in self.splits:
            raise ValueError("splits: train is missing")
        return self


class _ProbeIndex(_Part):
    kind: Literal["probe"]
    name: str
    task: Literal["single", "multi"]
    classes: Annotated[list[str], Field(min_length=2)]
    chance: Annotated[float, Field(ge=0, le=1)]
    splits: dict[str, _Split]
    skipped: dict[str, Count]

    @model_validator(mode="after")
    def _has_both(self) -> Self:
        for split in ("train", "test"):
            if split not in self.splits or not self.splits[split].samples:
                raise ValueError(f"splits: {split} is missing or empty")
        return self


class _ChoiceIndex(_Part):
    kind: Literal["choices"]
    name: str
    chance: Annotated[float, Field(gt=0, lt=1)]
    options: dict[Annotated[str, Field(pattern="^[0-9]{1,9}$")], Count]
    groups: dict[str, Count]
    splits: dict[str, _Split]
    skipped: dict[str, Count]

    @model_validator(mode="after")
    def _counts(self) -> Self:
        if "test" not in self.splits or not self.splits["test"].samples:
            raise ValueError("splits: test is missing or empty")
        for name, counts in (("options", self.options), ("groups", self.groups)):
            if sum(counts.values()) != self.splits["test"].samples:
                raise ValueError(f"{name}: the counts do not add up to the samples of test")
        return self


def read_index(path: str | Path, verify: bool | Literal["auto"] = False, kind: Kind | None = None) -> dict[str, Any]:
    """The index of a corpus, probe set or choice set (its folder, or its ``index.json``), of this ``kind`` if one is given.

    ``verify`` counts the samples of every shard and computes its sha256 anew; "auto" does so up to 4 GiB (seconds) and
    looks at the shards' sizes beyond. UserError for an index that lacks something or does not add up; it names the
    first shard that does not hold.
    """
    path = _index_path(path)
    index = read_json(path)
    allowed: dict[str, type[BaseModel]] = {"corpus": _CorpusIndex, "probe": _ProbeIndex, "choices": _ChoiceIndex}
    found = index.get("kind")
    if not isinstance(found, str) or found not in allowed:
        raise UserError(
            f"{path}: describes neither a corpus nor a set of probes or choices; make it with `snakemake data`"
        )
    if kind is not None and found != kind:
        there, needed = ("choice set" if each == "choices" else each for each in (found, kind))
        raise UserError(f"{path}: describes a {there}, a {needed} is needed here")
    try:
        allowed[found].model_validate(index)
    except ValidationError as error:
        raise UserError(f"{path}: {first_problem(error)}; make the set again") from None
    if verify:
        listed = shard_list(index)
        whole = verify is True or sum(shard["bytes"] for shard in listed) <= _QUICK
        for shard in listed:
            verify_shard(path.parent / shard["file"], shard, whole)
    return index


def shard_list(index: dict[str, Any]) -> list[dict[str, Any]]:
    """The shards of all splits, as the index describes them."""
    return [shard for split in index["splits"].values() for shard in split["shards"]]


def _index_path(path: str | Path) -> Path:
    path = Path(path)
    return path / INDEX if path.is_dir() else path


def verify_shard(path: Path, shard: dict[str, Any], whole: bool) -> None:
    """Hold a shard's size against its index's words, and, if ``whole``, its sha256 and number of samples.

    UserError says what does not hold.
    """
    if not path.is_file():
        raise UserError(f"{path}: the shard is missing; make the set again")
    if path.stat().st_size != shard["bytes"]:
        raise UserError(f"{path}: the shard has another size than {INDEX} says; make the set again")
    if not whole:
        return
    if sha256_file(path) != shard["sha256"]:
        raise UserError(f"{path}: the shard's sha256 is not the one in {INDEX}; make the set again")
    samples = len(sample_spans(tar_members(path)))
    if samples != shard["samples"]:
        raise UserError(f"{path}: the shard holds {samples} samples, {INDEX} says {shard['samples']}")


def _check_record(record: Any, index: dict[str, Any]) -> None:
    """ValueError unless a sample's record holds what its set says: captions, a label, a label for each class, or options."""
    if not isinstance(record, dict):
        raise ValueError("its record is no JSON object")
    if index["kind"] == "corpus":
        captions = record.get("captions")
        if not isinstance(captions, list) or not captions or not all(isinstance(text, str) for text in captions):
            raise ValueError("its record has no captions")
    elif index["kind"] == "choices":
        _check_choice(record)
    elif index["task"] == "single":
        label = record.get("label")
        if type(label) is not int or not 0 <= label < len(index["classes"]):
            raise ValueError("its label is none of the classes")
    else:
        labels = record.get("labels")
        if not isinstance(labels, list) or len(labels) != len(index["classes"]):
            raise ValueError("its labels are not one for each class")
        if not all(type(label) is int and label in (0, 1) for label in labels):
            raise ValueError("its labels are not a 0 or 1 for each class")


def _check_choice(record: dict[str, Any]) -> None:
    options, answer, box = record.get("options"), record.get("answer"), record.get("box")
    if not isinstance(options, list) or len(options) < 2 or not all(isinstance(text, str) for text in options):
        raise ValueError("its record has no two options")
    if type(answer) is not int or not 0 <= answer < len(options):
        raise ValueError("its answer is none of the options")
    if not all(isinstance(record.get(key), str) for key in ("group", "id", "image")):
        raise ValueError("its record has no group, no id or no image")
    if box is not None and not (
        isinstance(box, list) and len(box) == 4 and all(type(side) in (int, float) for side in box) and min(box[2:]) > 0
    ):
        raise ValueError("its box is not left, top, width and height")


class ShardReader:
    """Random access to the samples of one split, numbered 0…n−1 in the order of the shards.

    Only headers are read at the start; a sample is one ``pread``. File handles belong to the process that opened
    them, so an object can be forked or pickled into workers.
    """

    def __init__(self, path: str | Path, split: str) -> None:
        index_path = _index_path(path)
        self.index = read_index(index_path)
        if split not in self.index["splits"]:
            allowed = ", ".join(sorted(self.index["splits"]))
            raise UserError(f"{index_path}: has no split {split!r}; allowed: {allowed}")
        self.split = split
        self._paths: list[Path] = []
        shards, starts, lengths = [], [], []
        for number, shard in enumerate(self.index["splits"][split]["shards"]):
            shard_path = index_path.parent / shard["file"]
            spans = np.asarray(sample_spans(tar_members(shard_path)), dtype=np.int64).reshape(-1, 2)
            if len(spans) != shard["samples"]:
                raise UserError(f"{shard_path}: holds {len(spans)} samples, {INDEX} says {shard['samples']}")
            self._paths.append(shard_path)
            shards.append(np.full(len(spans), number, dtype=np.int32))
            starts.append(spans[:, 0])
            lengths.append(spans[:, 1])
        self._shard = np.concatenate(shards) if shards else np.zeros(0, dtype=np.int32)
        self._start = np.concatenate(starts) if starts else np.zeros(0, dtype=np.int64)
        self._length = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int64)
        self._handles: dict[int, int] = {}
        self._owner = os.getpid()

    def __len__(self) -> int:
        return len(self._start)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_handles": {}, "_owner": -1}

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close this process's file handles; reading opens them again."""
        handles = self.__dict__.get("_handles", {})
        if self.__dict__.get("_owner") == os.getpid():
            for handle in handles.values():
                os.close(handle)
        handles.clear()

    def read(self, number: int) -> tuple[str, bytes, dict[str, Any]]:
        """(key, encoded image, record) of sample ``number``; the record holds "captions", "label", "labels" or "options"."""
        shard, start, length = int(self._shard[number]), int(self._start[number]), int(self._length[number])
        span = os.pread(self._handle(shard), length, start)
        try:
            if len(span) != length:
                raise ValueError("cut off")
            files = split_span(span)
            key = files.pop("__key__").decode()
            record = json.loads(files.pop("json"))
            files.pop("txt", None)
            (image,) = files.values()
            _check_record(record, self.index)
        except (ValueError, KeyError, RecursionError) as error:
            raise UserError(f"{self._paths[shard]}: sample {number} of {self.split} is damaged ({error})") from None
        return key, image, record

    def _handle(self, shard: int) -> int:
        if self._owner != os.getpid():
            # After a fork the parent's descriptors stay the parent's business.
            self._handles, self._owner = {}, os.getpid()
        if shard not in self._handles:
            if len(self._handles) >= 512:  # below the usual limit of 1,024 open files
                os.close(self._handles.pop(next(iter(self._handles))))
            try:
                self._handles[shard] = os.open(self._paths[shard], os.O_RDONLY)
            except OSError as error:
                raise UserError(f"{self._paths[shard]}: cannot be opened ({error.strerror})") from None
        return self._handles[shard]
