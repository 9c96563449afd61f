"""Guidance: what a model says with the whole condition, held against what it says with less of it (MC-Diffusion, section 3).

The paper gives it twice, with the scale s on opposite sides. ``cfg``: (1 − s)·log p_weak + s·log p_full, so that s > 1 moves
towards what the condition adds. ``as_printed`` for its own mask strategy: s stands at the weak side, so that s > 1 moves away
from the condition; it is ``cfg`` with 1 − s.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Orientation = Literal["cfg", "as_printed"]


def as_cfg(scale: float, orientation: Orientation) -> float:
    """The scale s as ``cfg`` has it; 1 is none."""
    return scale if orientation == "cfg" else 1 - scale


def guided(full: Tensor, weak: Tensor, scale: float) -> Tensor:
    """(1 − s)·weak + s·full, ``scale`` as ``cfg`` has it; 1 is ``full`` itself.

    Of log p(x_0 | x_t), whose log-softmax is then wanted, of logits, or of the hidden states before a linear output layer: up to
    that log-softmax it is all the same.
    """
    return full if scale == 1 else weak + scale * (full - weak)
