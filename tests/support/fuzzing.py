"""What the fuzzing tests share: how many examples, odd values, and mutations of trees and bytes.

MDC_FUZZ=20 runs twenty times as many examples, and other ones each time.
"""

import copy
import datetime
import os
import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FACTOR = int(os.environ.get("MDC_FUZZ", "1"))


def fuzz(examples: int) -> settings:
    """The same ``examples`` in every run, unless MDC_FUZZ asks for more."""
    told: dict[str, Any] = {"max_examples": examples * FACTOR, "derandomize": FACTOR == 1}
    return settings(**told, database=None, deadline=None, suppress_health_check=list(HealthCheck))


_SMALL: list[Any] = [None, True, False, 0, 1, -1, 3, 0.5, -2.0, "", "x", "1e-4", "a\nb", "a\0b", "../x", "/x", "scenes"]
_SMALL += ["\u00e9\U0001f408", "parquet", [], {}, [1], ["x"], {"x": 1}, [[1]], {"kind": "scenes"}, b"x", "\ud800"]
_LARGE: list[Any] = [2**31, 2**63, -(2**64), 10**400, 1e300, -1e300, 10**5000, float("nan"), float("inf"), "x" * 10_000]
_LARGE += [datetime.date(2001, 1, 1), {1: 2}, {None: 1}, {("a",): 1}, {"x"}, [None] * 1_000]


def _nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


def _one_of(values: list[Any]) -> st.SearchStrategy[Any]:
    """By number: hypothesis would print them all, and an integer of 5,000 digits does not print."""
    return st.integers(0, len(values) - 1).map(lambda number: copy.deepcopy(values[number]))


SMALL = _one_of(_SMALL)
ANY = _one_of([*_SMALL, *_LARGE]) | st.integers(1, 900).map(_nested) | st.text(max_size=8)


@st.composite
def changed_tree(
    draw: st.DrawFn, makers: Sequence[Callable[[], Any]], values: st.SearchStrategy[Any] = ANY, most: int = 3
) -> Any:
    """One of the trees with up to ``most`` places dropped, replaced, renamed, doubled, or taken from elsewhere in it."""
    tree = copy.deepcopy(makers[draw(st.integers(0, len(makers) - 1))]())
    for _ in range(draw(st.integers(1, most))):
        places = [place for place in _places(tree) if place[0]]
        if not places:
            return tree
        inner, key = places[draw(st.integers(0, len(places) - 1))]
        match draw(st.sampled_from(["drop", "replace", "replace", "replace", "insert", "rename", "move"])):
            case "drop":
                del inner[key]
            case "replace":
                inner[key] = draw(values)
            case "insert" if isinstance(inner, list):
                inner.insert(key, draw(values))
            case "insert":
                inner[draw(st.sampled_from(["nonsense", "kind", "x"]))] = draw(values)
            case "rename" if isinstance(inner, dict):
                inner[f"{key}_"] = inner.pop(key)
            case _:
                other, theirs = places[draw(st.integers(0, len(places) - 1))]
                inner[key] = copy.deepcopy(other[theirs])
    return tree


def _places(tree: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting and len(found) < 5_000:
        inner = waiting.pop()
        if isinstance(inner, dict | list):
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            found += [(inner, key) for key in keys]
            waiting += [inner[key] for key in keys]
    return found


@st.composite
def changed_bytes(draw: st.DrawFn, data: bytes, mend: Callable[[bytearray], None] | None = None) -> bytes:
    """``data`` cut, doubled in part, or with bytes flipped and overwritten; ``mend`` may repair checksums after it."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        size = len(changed)
        near = rng.randrange(min(size, 700) + 1)  # headers and footers matter more than their share
        at = rng.choice([rng.randrange(size + 1), near, size - near])
        length = rng.choice([1, 1, 2, 4, 8, 40, 512])
        match rng.randrange(7):
            case 0:
                del changed[at:]
            case 1:
                del changed[at : at + length]
            case 2:
                changed[at:at] = changed[at : at + length]
            case 3:
                changed[at:at] = rng.randbytes(length)
            case 4:
                changed[at : at + length] = rng.choice([b"\0", b"\xff", b"\x7f", b"-", b"9", b'"', b"\n"]) * length
            case 5 if at < size:
                changed[at] ^= 1 << rng.randrange(8)
            case _:
                changed[at : at + length] = rng.randbytes(length)[: size - at]
    if mend is not None and rng.random() < 0.7:
        mend(changed)
    return bytes(changed)
