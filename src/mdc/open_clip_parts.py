"""The parts of OpenCLIP that we build on, without the cost of importing the whole package.

``import open_clip`` also imports ``transformers`` (for CoCa's generation), about six seconds and several hundred
megabytes in every process. The vision tower and the tokenizer need none of it. So we give OpenCLIP's folder a second
package name whose ``__init__`` is empty; its modules then resolve their relative imports among themselves. The code
that runs is the installed package's, unchanged, and a later ``import open_clip`` still works.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from types import ModuleType

_ALIAS = "mdc._open_clip"


def load(module: str) -> ModuleType:
    """Import one module of the installed OpenCLIP, for example ``load("transformer")``.

    Raises ImportError if OpenCLIP is not installed or has no such module.
    """
    if _ALIAS not in sys.modules:
        spec = importlib.util.find_spec("open_clip")  # finds the folder, does not run __init__
        if spec is None or spec.origin is None:
            raise ImportError("open_clip_torch is not installed")
        package = types.ModuleType(_ALIAS)
        package.__path__ = [str(Path(spec.origin).parent)]
        sys.modules[_ALIAS] = package
    return importlib.import_module(f"{_ALIAS}.{module}")
