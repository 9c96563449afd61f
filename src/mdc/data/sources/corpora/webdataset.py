"""webdataset shards as img2dataset writes them: tars of ``key.jpg``, ``key.txt`` and ``key.json``.

Failed downloads stand in no tar (only in the parquet file beside it), so nothing is counted for them here.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.data.formats.foreign_tar import TarSample, tar_samples
from mdc.data.formats.samples import IMAGE_ENDINGS, Skipped, checked_image, held_out, safe_key, texts_of
from mdc.data.sources.cleaned import Found, InParts
from mdc.plan.records import UserError, read_json


class Webdataset(InParts):
    """The samples of each split, shard by shard in the order of their names; a part is a shard."""

    def __init__(self, source: Mapping[str, Any], root: Path, splits: Mapping[str, str] | None) -> None:
        """``root``: the folder of shards, or a shard; ``splits``: the folder of each split under it, None for none."""
        super().__init__(source)
        if splits is None:
            self._shards: list[tuple[str | None, Path]] = [(None, shard) for shard in _shards(root)]
        else:
            self._shards = [(split, shard) for split, name in splits.items() for shard in _shards(root / name)]

    @property
    def parts(self) -> int:
        return len(self._shards)

    def seal(self, part: int) -> Any:
        _, shard = self._shards[part]
        status = shard.stat()
        return [shard.name, status.st_size, status.st_mtime_ns]

    def found_in(self, part: int, splits: Collection[str], skipped: Skipped) -> Iterator[tuple[str, Found]]:
        named, shard = self._shards[part]
        share, field = self.config["val_share"], self.config["caption_field"]
        if named is not None and named not in splits:
            return
        count = 0
        for sample in tar_samples(shard):
            count += 1
            split = named or ("val" if held_out(sample.key, share) else "train")
            if split not in splits:
                continue
            skipped.split = split
            key = safe_key(sample.key)
            image = _image(sample, skipped, key, shard.name)
            if image is not None:
                yield split, Found(key, shard.name, *image, _captions(sample, field))
        _as_many_as_downloaded(shard, count)


def open_source(source: Mapping[str, Any], data_dir: Path) -> Webdataset:
    """See mdc.data.sources.source."""
    return Webdataset(source, data_dir / source["path"], source["splits"])


def _shards(folder: Path) -> list[Path]:
    """All tars under ``folder``."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise UserError(f"{folder}: no such file or folder; put the shards there, or set MDC_DATA")
    found = sorted(folder.rglob("*.tar"))
    if not found:
        raise UserError(f"{folder}: holds no .tar file")
    return found


def _image(sample: TarSample, skipped: Skipped, key: str, file: str) -> tuple[bytes, str] | None:
    there = [ending for ending in sample.files if ending in IMAGE_ENDINGS]
    if not there:
        skipped.add("no image", key, file, f"files: {', '.join(sample.files)}")
        return None
    image = sample.files[there[0]]
    if image is None:
        skipped.add("image too large", key, file)
        return None
    return checked_image(image, skipped, key, file)


def _captions(sample: TarSample, field: str | None) -> list[str]:
    """From the text file, or from a field of the JSON file; bytes that are no UTF-8 become replacement characters."""
    if field is None:
        text = sample.files.get("txt")
        return [] if text is None else [text.decode("utf-8", errors="replace")]
    try:
        record = json.loads(sample.files.get("json") or b"{}")
    except (ValueError, RecursionError):
        return []
    return texts_of(record.get(field)) if isinstance(record, dict) else []


def _as_many_as_downloaded(shard: Path, count: int) -> None:
    """img2dataset says in NNNNN_stats.json how many images it got; a download that was broken off leaves fewer."""
    path = shard.with_name(f"{shard.stem}_stats.json")
    if not path.is_file():
        return
    told = read_json(path).get("successes")
    if told != count:
        raise UserError(f"{shard}: holds {count} samples, {path.name} says {told}; download this shard again")
