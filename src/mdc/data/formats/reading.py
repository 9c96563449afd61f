"""Images read and checked by several threads, in order: decoding, resizing and reading files release the GIL.

The results, and the list of images left out, are the same as with one thread.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from mdc.data.formats.samples import Encoded, LeftOut, Skipped
from mdc.data.formats.tar import Place
from mdc.plan.host import usable_cores

MOST_THREADS = 16  # more would wait for the writer
_AHEAD = 4  # images for each thread that are in memory at once


Reader = Callable[[int | None], Encoded]  # of an ``image_size``


class SourceItem(NamedTuple):
    """An image of a source: ``file`` is where it is, ``read`` reads it for an ``image_size``, or is why it is left out.

    ``captions`` are not cleaned; ``split`` if the source reads several at once; ``label`` or labels of a labelled set; ``place``
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
    items: Iterable[SourceItem], skipped: Skipped, image_size: int | None, threads: int | None = None
) -> Iterator[tuple[SourceItem, bytes, str]]:
    """(item, encoded image, extension) of the ``items`` with a good image, in their order.

    The others are added to ``skipped`` in the same order; its ``split`` is the current item's. With ``image_size``, larger images
    are resized.
    """
    threads = threads or min(MOST_THREADS, usable_cores())
    waiting: deque[tuple[SourceItem, Future[Encoded]]] = deque()

    def first_result() -> Iterator[tuple[SourceItem, bytes, str]]:
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
                yield from first_result()
        while waiting:
            yield from first_result()
    finally:
        pool.shutdown(cancel_futures=True)
