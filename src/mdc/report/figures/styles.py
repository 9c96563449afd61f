"""The colour and marker that a method keeps in every figure.

The hues are Okabe and Ito's, which colour-blind readers tell apart; the six fixed ratios of BERT and parallel decoding are
one family, the darker the more is masked. No two methods share a marker in one family, so print without colour is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

#: method key -> colour, marker
METHOD_STYLE: dict[str, tuple[str, str]] = {
    "clip_lb": ("#8A8A8A", "v"),
    "clip": ("#0072B2", "s"),
    "arc": ("#D55E00", "^"),
    "mdc": ("#009E73", "o"),
    "mdc_wo_t": ("#CC79A7", "D"),
    "mdc_0_100": ("#E69F00", "P"),
    "mdc_30_80": ("#56B4E9", "X"),
    "mdc_40_90": ("#8C6D31", "*"),
    "bert_15": ("#B79FD3", "<"),
    "bert_30": ("#A283C4", ">"),
    "bert_45": ("#8D69B4", "d"),
    "bert_60": ("#7850A2", "p"),
    "bert_75": ("#633A8E", "h"),
    "bert_90": ("#4E2779", "H"),
    "parallel": ("#2E1150", "8"),
}
_OTHERS = (("#A6761D", "D"), ("#C51B7D", "P"), ("#1B9AAA", "X"), ("#000000", "*"), ("#7F7F00", "<"), ("#5B5B5B", ">"))


def method_styles(methods: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method key; keys without one of their own take the others in order."""
    unknown = [method for method in dict.fromkeys(methods) if method not in METHOD_STYLE]
    given = {method: _OTHERS[number % len(_OTHERS)] for number, method in enumerate(unknown)}
    return {method: METHOD_STYLE.get(method) or given[method] for method in methods}
