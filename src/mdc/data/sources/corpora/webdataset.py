"""webdataset shards, as img2dataset and others write them: tars of ``key.jpg``, ``key.txt`` and ``key.json``.

Failed downloads are in no tar (only in the parquet file beside it), so they are not counted here.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name, decoded_text
from mdc.data.formats.folders import listed_files, needed, size_and_time
from mdc.data.formats.foreign_tar import TarSample, tar_samples
from mdc.data.formats.reading import Reader, SourceItem
from mdc.data.formats.samples import IMAGE_ENDINGS, LeftOut, drawn_split, read_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords, named_splits, no_val
from mdc.data.formats.tar import Place
from mdc.data.sources.cleaned import InParts
from mdc.plan.records import UserError, read_json

_TEXTS = ("txt", "text", "caption", "transcript")  # endings of captions; the first is img2dataset's
_RECORDS = ("json", "jsn")
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class Webdataset(InParts):
    """The samples of each split, shard by shard in the order of their names; a part is a shard. ``shards``: each with the split
    that it is named after, None where val is held out by sample."""

    shards: list[tuple[str | None, Path]]

    def __init__(self, source: Mapping[str, Any], data_dir: Path, path: str, splits: Mapping[str, str] | None) -> None:
        """``path``: the folder of shards, or a shard; ``splits``: the folder of each split under it, None: by the shards'
        names."""
        super().__init__(source, data_dir)
        root = data_dir / path
        folders = [root] if splits is None else [root / name for name in splits.values()]
        found = [(number, shard) for number, shards in enumerate(self._tars(folders)) for shard in shards]
        if splits is None:
            of_name = partial(SplitWords({}).of_name, root=root)
            named = named_splits(root, [shard for _, shard in found], of_name, drawn=True)
            if source["val_fraction"]:
                no_val([shard for shard, split in named.items() if split == "val"])
            self.shards = [(split, shard) for shard, split in named.items()]
        else:
            self.shards = [(list(splits)[number], shard) for number, shard in found]
        # a shard's path below its folder, without its ending
        self._names = [
            shard.relative_to(shard.parent if shard == folders[number] else folders[number]).with_suffix("").as_posix()
            for number, shard in found
        ]
        firsts = [next((sample.key for sample in tar_samples(shard)), None) for _, shard in found]
        # keys may be unique only within a shard: then the shard's path is put before them
        self._restart = len({key for key in firsts if key is not None}) < len(firsts) - firsts.count(None)

    def _tars(self, folders: Sequence[Path]) -> list[list[Path]]:
        """All tars under each of the folders. UserError if there is none, or if one is compressed."""
        links = None if self.config.get("dataset") else self.links
        within = [folder for folder in folders if not needed(folder, "file or folder").is_file()]
        files = listed_files(within, links, _is_tar)
        for folder in within:
            if folder in self.links.again:
                raise UserError(f"{folder}: leads to the files of another split; each needs its own")
        if packed := next((path for path in files if path.name.lower().endswith(_PACKED)), None):
            raise UserError(f"{packed}: a compressed tar, which cannot be read in parts; unpack it to a .tar")
        tars = [
            [path for path in files if _is_tar(path) and path.is_relative_to(folder)] if folder in within else [folder]
            for folder in folders
        ]
        for folder, listed in zip(folders, tars, strict=True):
            if not listed:
                raise UserError(f"{folder}: contains no .tar file{self.links.remark}")
        return tars

    @property
    def parts(self) -> int:
        return len(self.shards)

    def seal(self, part: int) -> Any:
        named, shard = self.shards[part]
        return [size_and_time(shard), named, self._names[part] if self._restart else None]

    def tar(self, part: int) -> Path:
        return self.shards[part][1]

    def items_in(self, part: int, splits: Collection[str]) -> Iterator[SourceItem]:
        named, shard = self.shards[part]
        share, field = self.config["val_fraction"], self.config["caption_field"]
        if named is not None and named not in splits:
            return
        count, seen = 0, set[int]()
        for sample in tar_samples(shard):
            count += 1
            _check_consecutive(shard, sample.key, seen)
            key = f"{self._names[part]}/{sample.key}" if self._restart else sample.key
            # by the sample's key alone: another shard may make keys restart
            split = named or drawn_split(sample.key, share)
            if split not in splits:
                continue
            for read, place in _images(sample):
                yield SourceItem(safe_key(key), shard.name, read, captions_of(sample, field), split, place=place)
        _check_count(shard, count)


def _is_tar(path: Path) -> bool:
    return path.suffix.lower() == ".tar"


def _check_consecutive(shard: Path, key: str, seen: set[int]) -> None:
    """UserError for a repeated key: the sample's files are not consecutive."""
    if (number := hash(key)) in seen:
        raise UserError(
            f"{shard}: the files of sample {key!r} are not consecutive; webdataset needs them side by side: make the tar with "
            "`tar --sort=name`"
        )
    seen.add(number)


def _matching(sample: TarSample, endings: Collection[str]) -> list[str]:
    """A sample's extensions that are in ``endings``, or else those of several parts (input.jpg) whose last part is."""
    return [ending for ending in sample.files if ending in endings] or [
        ending for ending in sample.files if ending.rpartition(".")[2] in endings
    ]


def _images(sample: TarSample) -> list[tuple[Reader | LeftOut, Place | None]]:
    """The reader of a sample's image, and the image's place in the tar; or why each of several is left out."""
    endings = _matching(sample, IMAGE_ENDINGS)
    if not endings:
        return [(LeftOut("no image", f"files: {', '.join(sample.files)}"), None)]
    if len(endings) > 1 and endings[0] not in IMAGE_ENDINGS:
        return [
            (LeftOut("several images under one key (it ends at a name's first dot)", each), None) for each in endings
        ]
    if (image := sample.read(endings[0])) is None:
        return [(LeftOut("image too large"), None)]
    return [(partial(read_image, image), sample.files[endings[0]])]


def captions_of(sample: TarSample, field: str | None) -> list[str]:
    """From the text file or a field of the JSON file: the field ``field``, or the first one that exists."""
    first = next((ending for ending in _TEXTS if ending in sample.files), None)
    if field is None and first is not None and (text := sample.read(first)) is not None:
        return [decoded_text(text)]
    record = record_of(sample)
    texts = texts_of(record.get(field or caption_name(record) or ""))
    if field is None and not any(texts):
        endings = _matching(sample, _TEXTS)
        texts = [decoded_text(text) for ending in endings if len(endings) == 1 and (text := sample.read(ending))]
    return texts


def record_of(sample: TarSample) -> dict[str, Any]:
    """A sample's JSON file; empty if there is none, or if it is no object."""
    records = _matching(sample, _RECORDS)
    try:
        record = json.loads(sample.read(records[0]) or b"{}") if len(records) == 1 else {}
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _check_count(shard: Path, count: int) -> None:
    """UserError for fewer samples than img2dataset's NNNNN_stats.json has: the download was interrupted."""
    path = shard.with_name(f"{shard.stem}_stats.json")
    if not path.is_file():
        return
    expected = read_json(path).get("successes")
    if expected != count:
        raise UserError(
            f"{shard}: contains {count} samples, expected {expected} ({path.name}); download this shard again"
        )


def open_source(source: Mapping[str, Any], data_dir: Path) -> Webdataset:
    return Webdataset(source, data_dir, source["path"], source["splits"])
