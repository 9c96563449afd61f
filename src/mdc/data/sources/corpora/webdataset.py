"""webdataset shards, as img2dataset and others write them: tars of ``key.jpg``, ``key.txt`` and ``key.json``.

Failed downloads are in no tar (only in the parquet file beside it), so they are not counted here.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mdc.data.formats.captions import caption_name, decoded_text
from mdc.data.formats.folders import needed, size_and_time
from mdc.data.formats.foreign_tar import TarSample, first_key, tar_samples
from mdc.data.formats.reading import Reader, SourceItem
from mdc.data.formats.samples import IMAGE_ENDINGS, LeftOut, held_out, read_image, safe_key, texts_of
from mdc.data.formats.split_words import SplitWords
from mdc.data.formats.tar import Place
from mdc.data.sources.cleaned import InParts
from mdc.plan.data_folder import Links, walk
from mdc.plan.records import UserError, read_json

_TEXTS = ("txt", "text", "caption", "transcript")  # endings of captions; the first is img2dataset's
_RECORDS = ("json", "jsn")
_PACKED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class Webdataset(InParts):
    """The samples of each split, shard by shard in the order of their names; a part is a shard."""

    def __init__(self, source: Mapping[str, Any], data_dir: Path, path: str, splits: Mapping[str, str] | None) -> None:
        """``path``: the folder of shards, or a shard; ``splits``: the folder of each split under it, None: by the shards'
        names."""
        super().__init__(source, data_dir)
        root = data_dir / path
        if splits is None:
            (shards,) = self._tars(root)
            self._shards = _named_after_splits(root, shards, bool(source["val_fraction"]))
            self._names = [_name_below(root, shard) for _, shard in self._shards]
        else:
            folders = [root / name for name in splits.values()]
            of_split = zip(splits, folders, self._tars(*folders), strict=True)
            found = [(split, folder, shard) for split, folder, shards in of_split for shard in shards]
            self._shards = [(split, shard) for split, _, shard in found]
            self._names = [_name_below(folder, shard) for _, folder, shard in found]
        firsts = [first_key(shard) for _, shard in self._shards]
        # keys may be unique only within a shard: then the shard's path is put before them
        self._restart = len({key for key in firsts if key is not None}) < len(firsts) - firsts.count(None)

    def _tars(self, *folders: Path) -> list[list[Path]]:
        """All tars under each of the folders. UserError if there is none, or if one is compressed."""
        links = None if self.config.get("dataset") else self.links
        within = [folder for folder in folders if not needed(folder, "file or folder").is_file()]
        below = {place / name for place, names in walk(within, links, _is_tar) for name in names}
        files = sorted(below - set(self.links.broken))
        for folder in within:
            if folder in self.links.again:
                raise UserError(f"{folder}: leads to the files of another split; each needs its own")
        return [[folder] if folder not in within else _tars_of(folder, files, self.links) for folder in folders]

    @property
    def parts(self) -> int:
        return len(self._shards)

    @property
    def shards(self) -> list[tuple[str | None, Path]]:
        """Each shard with the split that it is named after; None where val is held out by sample."""
        return list(self._shards)

    def seal(self, part: int) -> Any:
        named, shard = self._shards[part]
        return [size_and_time(shard), named, self._names[part] if self._restart else None]

    def tar(self, part: int) -> Path:
        return self._shards[part][1]

    def items_in(self, part: int, splits: Collection[str]) -> Iterator[SourceItem]:
        named, shard = self._shards[part]
        share, field = self.config["val_fraction"], self.config["caption_field"]
        if named is not None and named not in splits:
            return
        count, seen = 0, set[int]()
        for sample in tar_samples(shard):
            count += 1
            _check_consecutive(shard, sample.key, seen)
            key = f"{self._names[part]}/{sample.key}" if self._restart else sample.key
            # by the sample's key alone: another shard may make keys restart
            split = named or ("val" if held_out(sample.key, share) else "train")
            if split not in splits:
                continue
            for read, place in _images(sample):
                yield SourceItem(safe_key(key), shard.name, read, captions_of(sample, field), split, place=place)
        _check_count(shard, count)


def _name_below(root: Path, shard: Path) -> str:
    """A shard's path below ``root``, which may be the shard itself, without its ending."""
    return shard.relative_to(shard.parent if shard == root else root).with_suffix("").as_posix()


def _is_tar(path: Path) -> bool:
    return path.suffix.lower() == ".tar"


def _tars_of(folder: Path, files: Iterable[Path], links: Links) -> list[Path]:
    files = [path for path in files if path.is_relative_to(folder)]
    tars = list(filter(_is_tar, files))
    packed = next((path for path in files if path.name.lower().endswith(_PACKED)), None)
    if packed is not None:
        raise UserError(f"{packed}: a compressed tar, which cannot be read in parts; unpack it to a .tar")
    if not tars:
        raise UserError(f"{folder}: contains no .tar file{links.remark}")
    return tars


def _named_after_splits(root: Path, shards: list[Path], shared: bool) -> list[tuple[str | None, Path]]:
    """The shards, each with the split that it is named after by the rules of Hugging Face's datasets; None for all if the names
    do not distinguish splits, and for those of train if none is named after val. ``shared``: val is held out from the samples."""
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
    if "val" not in splits:
        return [(None if split == "train" else split, path) for split, path in named]
    if shared:
        path = next(path for split, path in named if split == "val")
        raise UserError(
            f"{path}: named after a split, but val_fraction holds samples out; move it, or leave val_fraction out"
        )
    return named


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
