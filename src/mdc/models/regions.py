"""Where the objects of a rendered scene are, found in its picture: every object, in every shade, is brighter than any ground.

A detector that is never wrong here, so that a captioner on regions of objects is not judged by its detector.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

BRIGHT = 138  # of 255: between the brightest channel of any ground of a scene and the least bright object
_EIGHT = np.zeros((3, 3, 3), dtype=bool)  # a pixel's eight neighbours, and none in another image
_EIGHT[1] = True


def object_boxes(images: np.ndarray, most: int) -> np.ndarray:
    """Pictures of scenes, uint8 (B, 3, S, S) → left, top, right, bottom (these two exclusive) of each object, in pixels,
    int64 (B, ``most``, 4), the largest first; the whole picture for each object that is not there.

    An object is what is bright and hangs together; no two objects of a scene touch.
    """
    count, size = images.shape[0], images.shape[-1]
    boxes = np.tile(np.array([0, 0, size, size]), (count, most, 1))
    labels, _ = ndimage.label(images.max(axis=1) > BRIGHT, structure=_EIGHT)
    found: list[list[tuple[int, int, int, int]]] = [[] for _ in range(count)]
    for image, rows, columns in ndimage.find_objects(labels):
        found[image.start].append((columns.start, rows.start, columns.stop, rows.stop))
    for image, there in enumerate(found):
        for place, box in enumerate(sorted(there, key=_area, reverse=True)[:most]):
            boxes[image, place] = box
    return boxes


def _area(box: tuple[int, int, int, int]) -> int:
    left, top, right, bottom = box
    return (right - left) * (bottom - top)
