"""The order of an epoch by blocks, as in webdataset: the shards in random order, and a shuffle within a buffer.

At any time only a few shards are read, each read ahead as a whole, which suits slow, remote or shared disks. The price: samples
of a shard stay close in an epoch, so batches are correlated if shards are. Unlike a sliding buffer, which depends on all
samples before, a window of ``buffer`` places depends only on the seed, the epoch and its number, so that the order is computed
place by place, on any rank and after any resume.
"""

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
        self._layout: tuple[tuple[int, int], np.ndarray, np.ndarray] | None = None

    def at(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The samples at ``places`` (any shape, int64, in [0, count)) of an epoch; int64 of the same shape.

        A bijection of range(count) for each (seed, epoch), and a function of nothing else.
        """
        windows, within = np.divmod(places, self.buffer)
        order = np.empty_like(within)
        for window in np.unique(windows).tolist():
            first = window * self.buffer
            here = windows == window
            rng = sample_rng(seed, epoch, window, WINDOW)
            order[here] = first + permuted(within[here], min(self.buffer, self._count - first), rng)
        return self._in_block_order(order, seed, epoch)

    def shards_at_once(self) -> int:
        """The maximal number of shards in two consecutive windows, which a run keeps open."""
        small = max(int(self._sizes[self._sizes > 0].min(initial=self._count)), 1)
        return min(2 * (max(self.buffer - 2, 0) // small + 2), len(self._sizes))

    def _in_block_order(self, places: np.ndarray, seed: int, epoch: int) -> np.ndarray:
        """The samples at ``places`` of an order of shuffled blocks without a shuffle within them."""
        if self._layout is None or self._layout[0] != (seed, epoch):  # once per epoch, not per batch
            number = len(self._sizes)
            order = permuted(np.arange(number), number, sample_rng(seed, epoch, 0, BLOCKS))
            self._layout = (seed, epoch), order, np.cumsum(self._sizes[order])
        _, order, ends = self._layout
        block = np.searchsorted(ends, places, side="right")
        return self._firsts[order[block]] + places - (ends - self._sizes[order])[block]
