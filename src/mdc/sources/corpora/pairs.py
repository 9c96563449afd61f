"""Pairs that were obtained from a list of URLs, or as a mirror's tars, and lie under the data set's folder.

From URLs: ``<path>/shards``, read shard by shard, each in the order of its keys, for the threads that downloaded it wrote in
the order in which strangers answered. ``pairs: N`` takes the rows with place below N: of a list downloaded in the order of
rank, exactly the smaller subset. Held out is by URL, so that the captions of one image stay together.
From a mirror: ``<path>/mirror``, read as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mdc.formats.foreign_tar import TarPlaces, tar_places
from mdc.formats.samples import MAX_FILE, Skipped, checked_image, held_out, safe_key, texts_of
from mdc.records import UserError, read_json
from mdc.sources.cleaned import CaptionedImages, Found
from mdc.sources.corpora.webdataset import Webdataset


class Pairs(CaptionedImages):
    """The pairs of one split ("train" or "val") in a fixed order.

    UserError for data that were not obtained, or not in full, and for ``pairs`` beyond what the plan has.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._folder = data_dir / source["path"]
        plan = self._folder / "plan" / "plan.json"
        if not plan.is_file():
            raise UserError(f"{self._folder}: nothing was downloaded into it; obtain this data set first")
        self._plan = read_json(plan)

    def found(self, split: str, skipped: Skipped) -> Iterator[Found]:
        share, field = self.config["val_share"], self.config["caption_field"]
        if split not in ("train", "val") or (split == "val" and not share):
            return
        for shard, most in self._shards():
            with shard.open("rb") as tar:
                for place in tar_places(shard):
                    record = _record(shard, place, tar)
                    if record["place"] >= most:
                        break  # keys are in the order of places
                    if held_out(record["url"], share) != (split == "val"):
                        continue
                    key = safe_key(place.key)
                    image = checked_image(_read(place, "jpg", tar), skipped, key, shard.name)
                    if image is not None:
                        yield Found(key, shard.name, *image, _captions(place, tar, record, field))

    def _shards(self) -> Iterator[tuple[Path, int]]:
        """The tars that hold places below N, and N."""
        plan, folder, wanted = self._plan, self._folder, self.config["pairs"]
        asked = plan["asked"]["subset"]
        there = asked["pairs"] if asked else plan["chosen"]
        if wanted is not None and wanted > there:
            raise UserError(f"{folder}: {wanted} pairs are asked for, its list has {there} that were planned")
        most, first = plan["chosen"] if wanted is None else wanted, 0
        for number, part in enumerate(plan["parts"]):
            if first >= most:
                return
            first += part["rows"]
            shard = folder / "shards" / f"{number:05d}.tar"
            if not shard.is_file() or not (folder / "accounts" / f"{number:05d}.json").is_file():
                raise UserError(f"{shard}: was not downloaded in full; obtain this data set again: what is there stays")
            yield shard, most


def open_source(source: Mapping[str, Any], data_dir: Path) -> CaptionedImages:
    """See mdc.sources.source."""
    if source["from"] != "mirror":
        return Pairs(source, data_dir)
    if source["pairs"] is not None:
        raise UserError(
            f"{source['path']}: pairs: counts the places of a list of URLs; a mirror has none, set it to null"
        )
    return Webdataset(source, data_dir / source["path"] / "mirror", splits=None)


def _read(place: TarPlaces, ending: str, tar: Any) -> bytes | None:
    offset, size = place.files.get(ending, (0, 0))
    if not 0 < size <= MAX_FILE:
        return None
    tar.seek(offset)
    data: bytes = tar.read(size)
    return data


def _record(shard: Path, place: TarPlaces, tar: Any) -> dict[str, Any]:
    try:
        record = json.loads(_read(place, "json", tar) or b"")
        if isinstance(record["place"], int) and isinstance(record["url"], str):
            return dict(record)
    except (ValueError, RecursionError, TypeError, KeyError):
        pass
    raise UserError(f"{shard}: sample {place.key} has no record of its place and url; obtain this data set again")


def _captions(place: TarPlaces, tar: Any, record: dict[str, Any], field: str | None) -> list[str]:
    if field is not None:
        return texts_of(record.get(field))
    text = _read(place, "txt", tar)
    return [] if text is None else [text.decode("utf-8", errors="replace")]
