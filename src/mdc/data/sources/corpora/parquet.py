"""Image–caption pairs in a parquet file or a folder of them, read by one job or, file by file, by several."""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdc.data.formats.folders import size_and_time
from mdc.data.formats.reading import SourceItem
from mdc.data.formats.samples import drawn_split, rank_hash
from mdc.data.formats.split_words import no_val
from mdc.data.sources.cleaned import InParts
from mdc.data.sources.parquet import ALL, ParquetFiles
from mdc.plan.records import UserError


class ParquetCorpus(InParts):
    """The rows of each split in the order of the files; a part is a file, which may have rows of several splits.

    With ``pairs``, a random subset of the train split; with ``resplit``, the rows of all files are split anew; with
    ``val_fraction``, val is drawn from train. ``files``: all of them, in their order.
    """

    def __init__(self, source: Mapping[str, Any], data_dir: Path) -> None:
        super().__init__(source)
        self._val_fraction, self._resplit = source.get("val_fraction"), source.get("resplit")
        self.files = ParquetFiles(source, data_dir, self.links)
        if self._resplit is None:
            self.files.counts()
        splits = {ALL} if self._resplit else {"train", "val", *source["splits"]}
        self._splits = {split: frozenset(self.files.of(split)) for split in splits}
        if self._val_fraction:
            no_val(self._splits["val"])
            self._splits["val"] = self._splits["train"]

    @property
    def parts(self) -> int:
        return len(self.files.paths)

    def seal(self, part: int) -> Any:
        """The file's size and time, the number of rows before it, and, for a subset, all files' sizes and times."""
        # computed here once, before processes are forked
        counted = self._firsts[part] if self.config["key_column"] is None else None
        drawn = [self.config["pairs"], *map(size_and_time, self.files.paths)] if self._subset else None
        return [size_and_time(self.files.paths[part]), counted, drawn]

    def items_in(self, part: int, splits: Collection[str]) -> Iterator[SourceItem]:
        path, numbers = self.files.paths[part], Counter(self._firsts[part] if self.config["key_column"] is None else {})
        # a file of another split is not read
        here = [split for split in sorted(splits) if path in self._splits.get(split, ())]
        chosen = {split: choose for split in here if (choose := self._chosen(split, path, numbers[split]))}
        if self._resplit:
            (split,) = splits
            here, chosen = [ALL], {ALL: self._new_splits[split].__contains__}
        if here:
            yield from self.files.rows_of_file(path, here, numbers, captions=True, chosen=chosen)

    def _chosen(self, split: str, path: Path, first: int) -> Callable[[str], bool] | None:
        """Whether a key of a split is taken; None: all. ``first``: the number of the file's first row."""
        if share := self._val_fraction:
            # other files change a row's number, but not its place in its own file
            numbered = self.config["key_column"] is None
            return lambda key: drawn_split(f"{path.name}/{int(key) - first}" if numbered else key, share) == split
        if split != "train" or self._subset is None:
            return None
        last, ties = self._subset
        return lambda key: (rank := rank_hash(0, key)) < last or (rank == last and (ties is None or key in ties))

    @cached_property
    def _firsts(self) -> list[dict[str, int]]:
        """For each file, how many rows of each split precede it; images are not read."""
        counted: Counter[str] = Counter()
        firsts = []
        for path in self.files.paths:
            firsts.append(dict(counted))
            if here := [split for split, files in self._splits.items() if path in files]:
                deque(self.files.keys_of_file(path, here, counted), maxlen=0)
        return firsts

    def _keys(self, split: str) -> Iterator[str]:
        numbers: Counter[str] = Counter()
        for path in self.files.paths:
            if path in self._splits[split]:
                yield from self.files.keys_of_file(path, [split], numbers)

    @cached_property
    def _new_splits(self) -> dict[str, frozenset[str]]:
        settings, pairs = self.config["resplit"], self.config["pairs"]
        splits = resplit(self._keys(ALL), settings["seed"], settings["test"], settings["val"], self.config["path"])
        if pairs is not None:
            self._enough(pairs, len(splits["train"]))
            splits["train"] = frozenset(_ranked(splits["train"], 0)[:pairs])
        return splits

    @cached_property
    def _subset(self) -> tuple[int, frozenset[str] | None] | None:
        """The largest hash among the ``pairs`` keys with the lowest (hash, key), and which of the keys with this hash are taken,
        None: all. Images are not read; memory: 8 bytes per key."""
        if (pairs := self.config["pairs"]) is None:
            return None
        ranks = np.frombuffer(array("Q", (rank_hash(0, key) for key in self._keys("train"))), dtype=np.uint64)
        self._enough(pairs, len(ranks))
        ranks.partition(pairs - 1)
        last = int(ranks[pairs - 1])
        below, up_to = int((ranks < last).sum()), int((ranks <= last).sum())
        if up_to == pairs:
            return last, None
        return last, frozenset(sorted(k for k in self._keys("train") if rank_hash(0, k) == last)[: pairs - below])

    def _enough(self, pairs: int, available: int) -> None:
        if pairs > available:
            raise UserError(f"{self.config['path']}: {pairs} pairs requested, its train split has {available}")


open_source = ParquetCorpus  # see mdc.data.sources.source


def resplit(keys: Iterable[str], seed: int, test: int, val: int, where: str) -> dict[str, frozenset[str]]:
    """The keys of "test", "val" and "train": the ``test`` keys of the lowest (hash, key), the ``val`` next ones, all others.

    Rows with the same key are in the same split, and the order of ``keys`` does not matter. UserError, which begins with
    ``where``, if none would be left for training.
    """
    ordered = _ranked(set(keys), seed)
    if test + val >= len(ordered):
        raise UserError(
            f"{where}: resplit asks for {test} images to test on and {val} held out, which leaves none of "
            f"{len(ordered)} to train on"
        )
    parts = {"test": ordered[:test], "val": ordered[test : test + val], "train": ordered[test + val :]}
    return {split: frozenset(of_split) for split, of_split in parts.items()}


def _ranked(keys: Iterable[str], seed: int) -> list[str]:
    return sorted(keys, key=lambda key: (rank_hash(seed, key), key))
