"""Pickles that hold plain values and byte arrays alone, read without running anything that they ask for.

``pickle.load`` calls whatever a file names, so a file from elsewhere is a program. Here a file may name three things,
by which NumPy's arrays were pickled since Python 2, and each is answered by a small stand-in of ours; every other name
is refused before anything is called.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mdc.records import UserError

_MOST = 1 << 29  # bytes of a file: CIFAR-100's largest has 155 million


class _Array:
    """Takes the state of a pickled array: (version, shape, type, column order?, bytes)."""

    array: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, by_columns, data = state
        data = data.encode("latin-1") if isinstance(data, str) else data  # Python 2 wrote its bytes as a string
        if not isinstance(kind, _Kind) or kind.code not in ("u1", "uint8") or not isinstance(data, bytes):
            raise pickle.UnpicklingError("holds an array that is not of bytes")
        if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
            raise pickle.UnpicklingError("holds an array without a shape")
        order: Any = "F" if by_columns else "C"
        self.array = np.frombuffer(data, dtype=np.uint8).reshape(shape, order=order)


class _Kind:
    """Takes the place of a pickled array's type."""

    def __init__(self, code: str = "", *_: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        """Byte order and the like, which single bytes do not have."""


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Callable[..., Any]:
        def new_array(*_: Any) -> _Array:  # made anew for each: a pickle can set attributes of what it gets
            return _Array()

        answers: dict[tuple[str, str], Callable[..., Any]] = {
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Kind,
            ("numpy.core.multiarray", "_reconstruct"): new_array,
            ("numpy._core.multiarray", "_reconstruct"): new_array,
        }
        if (module, name) not in answers:
            raise pickle.UnpicklingError(f"asks for {module}.{name}, which is refused")
        return answers[module, name]


def load_plain(path: Path) -> Any:
    """The value in a pickle file: dictionaries, lists, tuples, texts, bytes, numbers, and uint8 arrays.

    Python 2's strings become text as Latin-1. UserError for a file that is damaged, or that asks for anything else.
    """
    try:
        if path.stat().st_size > _MOST:
            raise UserError(f"{path}: has more than {_MOST} bytes; is it the published file?")
        with path.open("rb") as file:
            return _plain(_Reader(file, encoding="latin-1").load())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except UserError:
        raise
    except Exception as error:  # broken bytes raise nearly every kind there is
        said = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: not a pickle of plain values ({said}); get the file again") from None


def _plain(value: Any) -> Any:
    """Stand-ins replaced by the arrays that they took, in the top value and the values of its dictionary."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, _Array):
        if value.array is None:
            raise pickle.UnpicklingError("holds an array without content")
        return value.array
    return value
