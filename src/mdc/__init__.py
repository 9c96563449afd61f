"""Masked diffusion captioning: learning visual features from captions, as a pipeline anyone can rerun.

import mdc

model = mdc.load("dense/ViT-T-12/mdc/s0")
model.caption("photo.jpg").text
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mdc.app.model import Model as Model
    from mdc.app.model import load as load
    from mdc.plan.records import UserError as UserError

__all__ = ["Model", "UserError", "load"]


def __getattr__(name: str) -> Any:
    """PyTorch takes seconds to import, so it is imported when a model is asked for."""
    if name in ("Model", "load"):
        from mdc.app import model

        return getattr(model, name)
    if name == "UserError":
        from mdc.plan.records import UserError

        return UserError
    raise AttributeError(f"module 'mdc' has no attribute {name!r}")
