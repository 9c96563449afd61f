"""Items of two images and two captions (Winoground's form) as samples of a choice set: one sample per image, adjacent.

Both have both captions, their own first, and the item's name as their ``group``. The index says ``paired``: an item's samples
are scored with the same masks and mismatched images, so that a caption's scores with both images can be compared.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from mdc.data.formats.samples import ChoiceSample, Encoded

#: for the index of such a set
FACTS = {"paired": True}


def two_samples(
    number: int,
    name: str,
    images: Sequence[Encoded],
    captions: tuple[str, str],
    shown: str,
    truths: Sequence[dict[str, Any] | None] = (None, None),
) -> Iterator[ChoiceSample]:
    """The two samples of the item ``name``, the set's ``number``-th. ``shown``: its images' name, before -0 and -1."""
    for place, (image, options) in enumerate(zip(images, (captions, captions[::-1]), strict=True)):
        yield ChoiceSample(
            f"{number:08d}-{place}",
            *image,
            truth=truths[place],
            options=options,
            group=name,
            id=f"{name}-{place}",
            image_name=f"{shown}-{place}",
        )
