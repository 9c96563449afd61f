"""Images read and checked by several threads, in order: decoding, resizing and files keep no lock of Python's.

What comes out, and what is said to be left out, is as if one thread had done it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from mdc.data.formats.samples import Encoded, LeftOut, Skipped
from mdc.data.formats.tar import Place
from mdc.plan.host import usable_cores

MOST_THREADS = 16  # more would wait for the one that writes
_AHEAD = 4  # images for each thread that are in memory at once


Reader = Callable[[int | None], Encoded]  # of an ``image_size``


class Found(NamedTuple):
    """An image as a source found it: ``file`` says where, ``read`` reads it for an ``image_size`` or is why it is left out.

    ``captions`` as they stand; ``split`` where the source tells several at once; ``label`` or labels of a labelled set; ``place``
    of an image in a tar.
    """

    key: str
    file: str
    read: Reader | LeftOut
    captions: Sequence[str] = ()
    split: str = ""
    label: Any = None
    place: Place | None = None


def with_images(
    items: Iterable[Found], skipped: Skipped, image_size: int | None, threads: int | None = None
) -> Iterator[tuple[Found, bytes, str]]:
    """The ``items`` of a source whose image is good, each with its encoded image and extension, in their order.

    The others stand in ``skipped`` in the same order, whose ``split`` is an item's while it is given out. With ``image_size``,
    larger images are made smaller.
    """
    threads = threads or min(MOST_THREADS, usable_cores())
    waiting: deque[tuple[Found, Future[Encoded]]] = deque()

    def told() -> Iterator[tuple[Found, bytes, str]]:
        item, reading = waiting.popleft()
        skipped.split = item.split or skipped.split
        try:
            image = reading.result()
        except LeftOut as left:
            skipped.add(left.reason, item.key, item.file, left.detail)
        else:
            yield item, *image

    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            if isinstance(item.read, LeftOut):
                reading: Future[Encoded] = Future()
                reading.set_exception(item.read)
            else:
                reading = pool.submit(item.read, image_size)
            waiting.append((item, reading))
            if len(waiting) >= _AHEAD * threads:
                yield from told()
        while waiting:
            yield from told()
    finally:
        pool.shutdown(cancel_futures=True)
