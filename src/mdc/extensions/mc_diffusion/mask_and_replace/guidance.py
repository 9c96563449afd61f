"""Guidance: predictions with the whole condition against those with a degraded one (MC-Diffusion, section 3).

The paper gives it twice, with the scale s on opposite sides. ``cfg``: (1 − s)·log p_weak + s·log p_full, so that s > 1 moves
towards what the condition adds. ``as_printed``, for its mask strategy, puts s on the weak side, so that s > 1 moves away
from the condition: it is ``cfg`` with 1 − s.
"""

from typing import Literal

from torch import Tensor

Orientation = Literal["cfg", "as_printed"]


def as_cfg(scale: float, orientation: Orientation) -> float:
    """The scale s in the orientation ``cfg``; 1 is no guidance."""
    return scale if orientation == "cfg" else 1 - scale


def guided(full: Tensor, weak: Tensor, scale: float) -> Tensor:
    """(1 − s)·weak + s·full with ``scale`` in the orientation ``cfg``; 1 gives ``full`` itself.

    Inputs are log p(x_0 | x_t), logits, or hidden states before a linear output layer: after a log-softmax all agree.
    """
    return full if scale == 1 else weak + scale * (full - weak)
