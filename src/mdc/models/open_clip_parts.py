"""The parts of OpenCLIP that we build on, without the cost of importing the whole package.

``import open_clip`` also imports ``transformers`` (for CoCa's generation), about six seconds and several hundred
megabytes in every process. The vision tower and the tokenizer need none of it. So we give OpenCLIP's folder a second
package name whose ``__init__`` is empty; its modules then resolve their relative imports among themselves. The code
that runs is the installed package's, unchanged, and a later ``import open_clip`` still works.

One module is replaced there: ``utils``, of which the tower uses a single small function, but which imports torchvision
and with it torch's compiler, four seconds more.
"""

import importlib
import importlib.util
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

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
        utils = types.ModuleType(f"{_ALIAS}.utils")
        utils.__dict__.update(to_2tuple=_to_2tuple, feature_take_indices=_not_loaded)
        sys.modules[utils.__name__] = utils
    return importlib.import_module(f"{_ALIAS}.{module}")


def _to_2tuple(value: Any) -> tuple[Any, ...]:
    """``open_clip.utils.to_2tuple``: a pair stays one, anything else is doubled."""
    return tuple(value) if isinstance(value, Iterable) else (value, value)


def _not_loaded(*_: Any) -> Any:
    raise NotImplementedError("open_clip.utils is not loaded here; use `import open_clip` for intermediate features")
