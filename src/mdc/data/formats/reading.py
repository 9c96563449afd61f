"""Images read and checked by several threads, in order: decoding, resizing and files keep no lock of Python's.

What comes out, and what is said to be left out, is as if one thread had done it.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

from mdc.data.formats.samples import Skipped

MOST_THREADS = 16  # more would wait for the one that writes
_AHEAD = 4  # images for each thread that are in memory at once

Image = tuple[bytes, str]  # encoded, and the extension
#: reads an image for (account, key, file, image_size); None if the sample is left out
Reader = Callable[[Skipped, str, str, int | None], Image | None]


class Readable(Protocol):
    """What a source gives: the sample's key, its file, and how its image is read."""

    @property
    def key(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def read(self) -> Reader: ...


Item = TypeVar("Item", bound=Readable)


def usable_cores() -> int:
    """The cores that this process may use, ``MOST_THREADS`` at most."""
    return min(MOST_THREADS, len(os.sched_getaffinity(0)))


def with_images(
    items: Callable[[Skipped], Iterator[Item]], skipped: Skipped, image_size: int | None, threads: int | None = None
) -> Iterator[tuple[Item, bytes, str]]:
    """The ``items`` of a source whose image is good, each with its encoded image and extension, in their order.

    ``items`` takes an account of its own; whatever it and the readers leave out stands in ``skipped`` in the order of one
    thread, and ``skipped.split`` is an item's while it is given out. With ``image_size``, larger images are made smaller.
    """
    threads = threads or usable_cores()
    ahead = _Noted(skipped.split)
    waiting: deque[tuple[_Noted, Item, _Noted, Future[Image | None]]] = deque()

    def told() -> Iterator[tuple[Item, bytes, str]]:
        before, item, own, reading = waiting.popleft()
        image = reading.result()
        before.tell(skipped)
        own.tell(skipped)
        if image is not None:
            yield item, *image

    pool = ThreadPoolExecutor(threads)
    try:
        for item in items(ahead):
            own = _Noted(ahead.split)
            reading = pool.submit(item.read, own, item.key, item.file, image_size)
            waiting.append((ahead.cut(), item, own, reading))
            if len(waiting) >= _AHEAD * threads:
                yield from told()
        while waiting:
            yield from told()
        ahead.tell(skipped)
    finally:
        pool.shutdown(cancel_futures=True)


class _Noted(Skipped):
    """Keeps what is left out, to be told later."""

    def __init__(self, split: str) -> None:
        super().__init__()
        self.split, self._notes = split, list[tuple[str, tuple[str, str, str, str]]]()

    def add(self, reason: str, key: str, file: str = "", detail: str = "") -> None:
        self._notes.append((self.split, (reason, key, file, detail)))

    def cut(self) -> _Noted:
        """What was noted since the last time, apart."""
        found = _Noted(self.split)
        found._notes, self._notes = self._notes, []
        return found

    def tell(self, skipped: Skipped) -> None:
        for split, note in self._notes:
            skipped.split = split
            skipped.add(*note)
        skipped.split = self.split
