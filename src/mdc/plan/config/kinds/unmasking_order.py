"""Orders in which a masked model shows the places of a caption, besides the paper's by confidence. Extensions bring them."""

from typing import ClassVar

from mdc.plan.config.kinds.kind import Kind


class UnmaskingOrder(Kind):
    """An order. Its module has ``choose(order, confidence, where)``: of the masked places ``where`` (N, L) bool, with the
    ``confidence`` (N, L) of each, those that are shown at a step (N, L) bool, at least one in each row."""

    #: its name in the column Decoding
    in_words: ClassVar[str]
