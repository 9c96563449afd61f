"""webdataset shards, as img2dataset and others write them: tars of ``key.jpg``, ``key.txt`` and ``key.json``.

Failed downloads stand in no tar (only in the parquet file beside it), so nothing is counted for them here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name, decoded_text
from mdc.data.formats.folders import files_below, needed, size_and_time
from mdc.data.formats.foreign_tar import TarSample, first_key, tar_samples
from mdc.data.formats.reading import Found, Reader
from mdc.data.formats.samples import IMAGE_ENDINGS, LeftOut, held_out, read_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords
from mdc.data.formats.tar import Place
from mdc.data.sources.cleaned import InParts
from mdc.plan.records import UserError, read_json

_TEXTS = ("txt", "text", "caption", "transcript")  # endings of captions; the first is img2dataset's
_RECORDS = ("json", "jsn")
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class Webdataset(InParts):
    """The samples of each split, shard by shard in the order of their names; a part is a shard."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path, path: str, splits: Mapping[str, str] | None) -> None:
        """``path``: the folder of shards, or a shard; ``splits``: the folder of each split under it, None for none: then shards
        are of the split that they are named after."""
        super().__init__(source, data_dir)
        root = data_dir / path
        if splits is None:
            self._shards = _named_after_splits(root, _shards(root), bool(source["val_fraction"]))
        else:
            self._shards = [(split, shard) for split, name in splits.items() for shard in _shards(root / name)]
        firsts = [first_key(shard) for _, shard in self._shards]
        # webdataset's keys are those of a shard: where they begin anew in each, the shard's name tells them apart
        self._restart = len({key for key in firsts if key is not None}) < len(firsts) - firsts.count(None)

    @property
    def parts(self) -> int:
        return len(self._shards)

    @property
    def shards(self) -> list[tuple[str | None, Path]]:
        """Each shard with the split that it is named after; None where samples are drawn."""
        return list(self._shards)

    def seal(self, part: int) -> Any:
        return size_and_time(self._shards[part][1])

    def tar(self, part: int) -> Path:
        return self._shards[part][1]

    def found_in(self, part: int, splits: Collection[str]) -> Iterator[Found]:
        named, shard = self._shards[part]
        share, field = self.config["val_fraction"], self.config["caption_field"]
        if named is not None and named not in splits:
            return
        count, seen = 0, set[int]()
        for sample in tar_samples(shard):
            count += 1
            _apart(shard, sample.key, seen)
            whole = f"{shard.stem}/{sample.key}" if self._restart else sample.key
            split = named or ("val" if held_out(whole, share) else "train")
            if split not in splits:
                continue
            read, place = _image(sample)
            yield Found(safe_key(whole), shard.name, read, captions_of(sample, field), split, place=place)
        _as_many_as_downloaded(shard, count)


def _shards(folder: Path) -> list[Path]:
    """All tars under ``folder``. UserError if there is none, or one that is compressed, whose samples would be lost."""
    if needed(folder, "file or folder").is_file():
        return [folder]
    there = sorted(files_below(folder))
    found = [path for path in there if path.suffix.lower() == ".tar"]
    packed = next((path for path in there if path.name.lower().endswith(_PACKED)), None)
    if packed is not None:
        raise UserError(f"{packed}: a compressed tar, which cannot be read in parts; unpack it to a .tar")
    if not found:
        raise UserError(f"{folder}: contains no .tar file")
    return found


def _named_after_splits(root: Path, shards: list[Path], shared: bool) -> list[tuple[str | None, Path]]:
    """The shards, each with the split that it is named after, as Hugging Face's datasets reads names; None for each if they
    do not tell several apart. ``shared``: some of the samples are to be held out."""
    words = SplitWords({})
    named = [(None if path == root else words.of_name(path.relative_to(root)), path) for path in shards]
    splits = {split for split, _ in named}
    if splits <= {None, "train"} or len(splits) == 1:
        return [(None, path) for path in shards]
    if None in splits:
        nameless = next(path for split, path in named if split is None)
        raise UserError(
            f"{nameless}: named after no split, as other shards are; rename it, or give source.splits folders"
        )
    if shared:
        other = next(path for split, path in named if split != "train")
        raise UserError(
            f"{other}: named after a split, but val_fraction holds samples out; move it, or leave val_fraction out"
        )
    return named


def _apart(shard: Path, key: str, seen: set[int]) -> None:
    """UserError for a key that was there before, with others since then: its image and its caption lie apart."""
    if (number := hash(key)) in seen:
        raise UserError(
            f"{shard}: the files of sample {key!r} are not consecutive; webdataset needs them side by side: make the tar with "
            "`tar --sort=name`"
        )
    seen.add(number)


def _one_of(sample: TarSample, endings: Collection[str]) -> list[str]:
    """The file endings of a sample that are among ``endings``, or else those of several parts (input.jpg) whose last one is."""
    return [ending for ending in sample.files if ending in endings] or [
        ending for ending in sample.files if ending.rpartition(".")[2] in endings
    ]


def _image(sample: TarSample) -> tuple[Reader | LeftOut, Place | None]:
    """How the image of a sample is read, and where it lies."""
    there = _one_of(sample, IMAGE_ENDINGS)
    if not there:
        return LeftOut("no image", f"files: {', '.join(sample.files)}"), None
    if len(there) > 1 and there[0] not in IMAGE_ENDINGS:
        return LeftOut("several images under one key (it ends at a name's first dot)", ", ".join(there)), None
    if (image := sample.read(there[0])) is None:
        return LeftOut("image too large"), None
    return partial(read_image, image), sample.files[there[0]]


def captions_of(sample: TarSample, field: str | None) -> list[str]:
    """From the text file or a field of the JSON file: of the one named, or of the first that is there."""
    first = next((ending for ending in _TEXTS if ending in sample.files), None)
    if field is None and first is not None and (text := sample.read(first)) is not None:
        return [decoded_text(text)]
    record = record_of(sample)
    found = texts_of(record.get(field or caption_name(record) or ""))
    if field is None and not found:
        parted = _one_of(sample, _TEXTS)
        found = [decoded_text(text) for ending in parted if len(parted) == 1 and (text := sample.read(ending))]
    return found


def record_of(sample: TarSample) -> dict[str, Any]:
    """What a sample's JSON file holds; empty if it is none, or no object."""
    records = _one_of(sample, _RECORDS)
    try:
        record = json.loads(sample.read(records[0]) or b"{}") if len(records) == 1 else {}
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _as_many_as_downloaded(shard: Path, count: int) -> None:
    """img2dataset says in NNNNN_stats.json how many images it got; a download that was broken off leaves fewer."""
    path = shard.with_name(f"{shard.stem}_stats.json")
    if not path.is_file():
        return
    told = read_json(path).get("successes")
    if told != count:
        raise UserError(f"{shard}: contains {count} samples, expected {told} ({path.name}); download this shard again")


def open_source(source: Mapping[str, Any], data_dir: Path) -> Webdataset:
    """See mdc.data.sources.source."""
    return Webdataset(source, data_dir, source["path"], source["splits"])
