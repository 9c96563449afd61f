"""Masked diffusion captioning: learning visual features from captions, as a pipeline anyone can rerun.

import mdc

model = mdc.load("dense/ViT-T-12/mdc/s0")
model.caption("photo.jpg").text
"""

from importlib import import_module
from typing import Any

__all__ = ["Model", "UserError", "load"]

# imported when they are asked for, since PyTorch takes seconds; their types are in __init__.pyi
_PLACES = {"Model": "mdc.app.model", "load": "mdc.app.model", "UserError": "mdc.plan.records"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'mdc' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
