"""The order of an epoch by blocks, as users of webdataset know it: the shards in random order, and a shuffle within a buffer.

At any time a run then reads a few shards only, which are read ahead as a whole when their window comes, and spares disks that are
slow, far away or shared: samples themselves are read one by one, in the order of the window. The price is that samples of a shard
stay together in an epoch: where they have something in common, so have batches. A sliding buffer would depend on all that came
before; a window of so many places depends on the seed, the epoch and its number, so that the order is computed place by place, on
any rank and after any resume.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdc.data.loader.draws import BLOCKS, WINDOW, sample_rng
from mdc.data.loader.shuffle import permuted


class BlockOrder:
    """``sizes``: how many samples each shard has; ``buffer``: how many consecutive places are shuffled among themselves."""

    def __init__(self, sizes: Sequence[int], buffer: int) -> None:
        self.buffer = buffer
        self._sizes = np.asarray(sizes, dtype=np.int64)
        self._firsts = np.cumsum(self._sizes) - self._sizes
        self._count = int(self._sizes.sum())
        self._laid: tuple[tuple[int, int], np.ndarray, np.ndarray] | None = None

    def at(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """Which samples stand at ``places`` (any shape, int64, in [0, count)) of an epoch; int64 of the same shape.

        A bijection of range(count) for each (seed, epoch), and a function of nothing else.
        """
        windows, within = np.divmod(places, self.buffer)
        found = np.empty_like(within)
        for window in np.unique(windows).tolist():
            first = window * self.buffer
            here = windows == window
            rng = sample_rng(seed, epoch, window, WINDOW)
            found[here] = first + permuted(within[here], min(self.buffer, self._count - first), rng)
        return self._in_the_order_of_blocks(found, seed, epoch)

    def shards_at_once(self) -> int:
        """How many shards two windows that follow each other touch at most, which a run then holds open."""
        small = max(int(self._sizes[self._sizes > 0].min(initial=self._count)), 1)
        return min(2 * (max(self.buffer - 2, 0) // small + 2), len(self._sizes))

    def _in_the_order_of_blocks(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The samples at ``places`` if blocks followed each other in random order, each as it is."""
        if self._laid is None or self._laid[0] != (seed, epoch):  # once an epoch, not once a batch
            number = len(self._sizes)
            order = permuted(np.arange(number), number, sample_rng(seed, epoch, 0, BLOCKS))
            self._laid = (seed, epoch), order, np.cumsum(self._sizes[order])
        _, order, ends = self._laid
        block = np.searchsorted(ends, places, side="right")
        return self._firsts[order[block]] + places - (ends - self._sizes[order])[block]
