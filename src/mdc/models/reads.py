"""What of an image a decoder reads: every patch, as in the paper, or less (docs/claims.md).

B images, M = s² patch tokens row by row, D the tower's width.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from mdc.config import Reads


def read(reads: Reads, cls: Tensor, patches: Tensor) -> Tensor:
    """[CLS] (B, D) and patch tokens (B, M, D) → what the decoder reads, (B, k, D): the patches; their mean or [CLS] alone, k = 1;
    or the mean of each cell of a grid, k = 4 or 9, row by row. Cells of a side that is no multiple share a row or column."""
    match reads:
        case "patches":
            return patches
        case "mean":
            return patches.mean(dim=1, keepdim=True)
        case "cls":
            return cls[:, None]
        case "grid_2" | "grid_3":
            side = round(patches.shape[1] ** 0.5)
            image = patches.transpose(1, 2).unflatten(2, (side, side))
            return F.adaptive_avg_pool2d(image, int(reads[-1])).flatten(2).transpose(1, 2)
