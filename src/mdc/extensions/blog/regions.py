"""The visual tokens that a decoder reads in place of every patch: fewer (docs/findings/regions.md).

B images, M = s² patch tokens row by row, D the tower's width.
"""

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

OBJECTS = 4  #: of a scene at most
BRIGHT = 138  # of 255: between the brightest channel of any ground of a scene and the least bright object


def read(kind: str, cls: Tensor, patches: Tensor, pixels: Callable[[], Tensor]) -> Tensor:
    """[CLS] (B, D) and patch tokens (B, M, D) → what the decoder reads, (B, k, D): the mean of the patches or [CLS] alone, k = 1;
    the mean of each cell of a grid, k = 4 or 9, row by row, where cells of a side that is no multiple share a row or column; or
    the mean of all and of each object's box, k = 1 + OBJECTS, found in the ``pixels`` (B, 3, S, S) uint8 of rendered scenes."""
    match kind:
        case "mean":
            return patches.mean(dim=1, keepdim=True)
        case "cls":
            return cls[:, None]
        case "grid_2" | "grid_3":
            side = round(patches.shape[1] ** 0.5)
            image = patches.transpose(1, 2).unflatten(2, (side, side))
            return F.adaptive_avg_pool2d(image, int(kind[-1])).flatten(2).transpose(1, 2)
        case "objects":
            images = pixels()
            boxes = torch.from_numpy(object_boxes(images.cpu().numpy(), OBJECTS)).to(patches.device)
            return torch.cat([patches.mean(dim=1, keepdim=True), boxed(patches, boxes / images.shape[-1])], dim=1)
    raise ValueError(f"{kind!r} is no visual context of regions")


def boxed(patches: Tensor, boxes: Tensor) -> Tensor:
    """Patch tokens (B, s², D) and boxes (B, k, 4), left, top, right, bottom as shares of the image's side → of each box the mean
    of the patches, (B, k, D), each with the weight of its area within the box."""
    side = round(patches.shape[1] ** 0.5)
    first = torch.arange(side, device=patches.device)
    low, high = (side * boxes[..., None]).split(2, dim=2)  # (B, k, 2, 1): of x and of y
    along = (high.minimum(first + 1) - low.maximum(first)).clamp(min=0).to(patches.dtype)
    weights = (along[:, :, 1, :, None] * along[:, :, 0, None, :]).flatten(2)
    return weights / weights.sum(dim=-1, keepdim=True) @ patches


def object_boxes(images: np.ndarray, max_objects: int) -> np.ndarray:
    """Pictures of scenes, uint8 (B, 3, S, S) → left, top, right, bottom (these two exclusive) of each object, in pixels,
    int64 (B, ``max_objects``, 4), the largest first; missing objects get the whole picture.

    An object is a connected bright region; no two objects of a scene touch. So the detector makes no errors, and results of
    region captioners do not depend on one.
    """
    from scipy import ndimage  # takes a tenth of a second to import

    count, size = images.shape[0], images.shape[-1]
    boxes = np.tile(np.array([0, 0, size, size]), (count, max_objects, 1))
    eight = np.zeros((3, 3, 3), dtype=bool)  # a pixel's eight neighbours, and none in another image
    eight[1] = True
    labels, _ = ndimage.label(images.max(axis=1) > BRIGHT, structure=eight)
    boxes_by_image: list[list[tuple[int, int, int, int]]] = [[] for _ in range(count)]
    for image, rows, columns in ndimage.find_objects(labels):
        boxes_by_image[image.start].append((columns.start, rows.start, columns.stop, rows.stop))
    for image, found_boxes in enumerate(boxes_by_image):
        for place, box in enumerate(sorted(found_boxes, key=_area, reverse=True)[:max_objects]):
            boxes[image, place] = box
    return boxes


def _area(box: tuple[int, int, int, int]) -> int:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)
