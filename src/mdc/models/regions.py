"""Boxes of the objects of a rendered scene, from its picture: every object is brighter than any ground.

The detector makes no errors here, so results of region captioners do not depend on a detector.
"""

import numpy as np
from scipy import ndimage

BRIGHT = 138  # of 255: between the brightest channel of any ground of a scene and the least bright object
_EIGHT = np.zeros((3, 3, 3), dtype=bool)  # a pixel's eight neighbours, and none in another image
_EIGHT[1] = True


def object_boxes(images: np.ndarray, max_objects: int) -> np.ndarray:
    """Pictures of scenes, uint8 (B, 3, S, S) → left, top, right, bottom (these two exclusive) of each object, in pixels,
    int64 (B, ``max_objects``, 4), the largest first; missing objects get the whole picture.

    An object is a connected bright region; no two objects of a scene touch.
    """
    count, size = images.shape[0], images.shape[-1]
    boxes = np.tile(np.array([0, 0, size, size]), (count, max_objects, 1))
    labels, _ = ndimage.label(images.max(axis=1) > BRIGHT, structure=_EIGHT)
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
