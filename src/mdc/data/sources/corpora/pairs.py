"""Pairs that were obtained from a list of URLs, or from a mirror, in the data set's folder.

From URLs: ``<path>/shards``, read shard by shard, each in the order of its keys, since the downloads ended in random order.
``pairs: N`` takes the rows with place below N: since the list is downloaded by rank, this is exactly the smaller subset. val is
held out by URL, so that the captions of one image stay together.
From a mirror: ``<path>/mirror``, tars or parquet files, read as they are.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import files_below, needed, size_and_time
from mdc.data.formats.foreign_tar import TarSample, samples_by_key
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import Encoded, drawn_split, read_image, safe_key
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.corpora.parquet import ParquetCorpus
from mdc.data.sources.corpora.webdataset import Webdataset, captions_of, record_of
from mdc.data.sources.parquet import ParquetFiles, image_column
from mdc.plan.records import UserError, read_json, sha256_file

_JPEG_START, _JPEG_END = b"\xff\xd8\xff", b"\xff\xd9"


class Pairs(InParts):
    """The pairs of the splits "train" and "val" in the order of their places; a part is a shard of the download.

    UserError for data that were not obtained, or not completely, and for more ``pairs`` than planned.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source, data_dir)
        self._folder = data_dir / source["path"]
        path = self._folder / "plan" / "plan.json"
        if not path.is_file():
            raise UserError(f"{self._folder}: nothing was downloaded into it; obtain this dataset first")
        plan = read_json(path)
        subset, wanted = plan["asked"]["subset"], source["pairs"]
        planned = subset["pairs"] if subset else plan["chosen"]
        if wanted is not None and wanted > planned:
            raise UserError(f"{self._folder}: {wanted} pairs requested, its list has {planned} planned")
        self._most: int = plan["chosen"] if wanted is None else wanted
        self._firsts = list(accumulate((part["rows"] for part in plan["parts"]), initial=0))

    @property
    def parts(self) -> int:
        return bisect_left(self._firsts, self._most)

    def is_partial(self, part: int) -> bool:
        return self._firsts[part + 1] > self._most

    def seal(self, part: int) -> Any:
        """The part's account: the hash of its rows, and its files' sizes and times. A shard with other times is hashed."""
        shard = self._shard(part)
        path = self._folder / "accounts" / f"{part:05d}.json"
        try:
            account = read_json(path) if path.is_file() else {}
            names = sorted(account["files"])
            now = {name: size_and_time(self._folder / "shards" / name)[1:] for name in names}
            if shard.name not in names or (now != account["files"] and sha256_file(shard) != account["tar"]):
                raise KeyError("files")
            return {"sha256": account["sha256"], "files": now}
        except (KeyError, TypeError, AttributeError, OSError):
            raise UserError(
                f"{shard}: incomplete, or changed since its download; rerun the download, good shards will be kept"
            ) from None

    def items_in(self, part: int, splits: Collection[str]) -> Iterator[SourceItem]:
        self.seal(part)
        share, field = self.config["val_fraction"], self.config["caption_field"]
        shard = self._shard(part)
        for sample in samples_by_key(shard):
            record = _record(shard, sample)
            if record["place"] >= self._most:
                break  # keys are in the order of places
            split = drawn_split(record["url"], share)
            if split in splits:
                image, place = (sample.read("jpg"), sample.files["jpg"]) if "jpg" in sample.files else (None, None)
                read = partial(_downloaded, image)
                yield SourceItem(safe_key(sample.key), shard.name, read, captions_of(sample, field), split, place=place)

    def tar(self, part: int) -> Path:
        return self._shard(part)

    def tar_sha256(self, part: int) -> str:
        """From the download's account, which ``seal`` has checked."""
        account = read_json(self._folder / "accounts" / f"{part:05d}.json")
        return str(account["tar"]) if "tar" in account else super().tar_sha256(part)

    def _shard(self, part: int) -> Path:
        return self._folder / "shards" / f"{part:05d}.tar"


def open_source(source: Mapping[str, Any], data_dir: Path) -> InParts:
    if source["from"] != "mirror":
        return Pairs(source, data_dir)
    mirror = f"{source['path']}/mirror"
    if source["pairs"] is not None:
        raise UserError(
            f"{source['path']}: pairs: counts the places of a list of URLs; a mirror has none, set it to null"
        )
    endings = {file.suffix.lower() for file in files_below(needed(data_dir / mirror))}
    if ".parquet" not in endings or ".tar" in endings:
        return Webdataset(source, data_dir, mirror, splits=None)
    column = source.get("image_column") or image_column(ParquetFiles({**source, "path": mirror}, data_dir).paths[0])
    columns = {
        "image_column": column,
        "caption_column": source["caption_field"],
        "split_column": None,
        "key_column": None,
    }
    return ParquetCorpus({**source, **columns, "path": mirror, "splits": {"train": "train"}, "sharded": True}, data_dir)


def _downloaded(image: bytes | None, image_size: int | None) -> Encoded:
    """As ``read_image``, but a complete JPEG is not decoded: the download did that."""
    if image_size is None and image and image.startswith(_JPEG_START) and image.endswith(_JPEG_END):
        return image, "jpg"
    return read_image(image, image_size)


def _record(shard: Path, sample: TarSample) -> dict[str, Any]:
    record = record_of(sample)
    if isinstance(record.get("place"), int) and isinstance(record.get("url"), str):
        return record
    raise UserError(f"{shard}: sample {sample.key} has no record of its place and url; download this dataset again")
