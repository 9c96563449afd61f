"""The style of all figures, and the colour and marker of each method, the same in every figure.

The hues are Okabe and Ito's, which colour-blind readers can distinguish. The six fixed ratios of BERT and parallel decoding are
one family, darker the more is masked. No two methods of a family share a marker, so colour is not needed.
"""

from collections.abc import Iterable
from typing import Any

#: matplotlib's settings, over its own defaults
STYLE: dict[str, Any] = {
    "svg.hashsalt": "mdc",  # otherwise the ids in an svg are random
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters on every machine
    "font.size": 9,
    "figure.titlesize": 10.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#7A828C",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#E3E6EA",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "savefig.dpi": 150,
}
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
    "arc_rtl": ("#F0A07A", "v"),
    "lstm": ("#C51B7D", "p"),
    "cappa": ("#A6761D", "P"),
    "bicaptioning": ("#D4A017", "X"),
    "superclass": ("#1B6E8C", "D"),
    "arc_half": ("#B55A00", "<"),
    "mdc_20_100": ("#C9A227", "8"),
    "mdc_complementary": ("#66C2A5", ">"),
    "mdc_complementary_half": ("#3E8E75", "h"),
    "mdc_dropped": ("#00735A", "d"),
    "mdc_timed": ("#7FC97F", "p"),
    "mcd": ("#000000", "*"),
    "mcd_absorbing": ("#7F7F00", "<"),
    "mcd_cfg": ("#B03060", "X"),
    "mcd_mcs": ("#5B5B5B", ">"),
    "mcd_mcs_50": ("#4A7C59", "P"),
    "mcd_mcs_100": ("#1F3A5F", "D"),
}
_OTHERS = (("#DE77AE", "D"), ("#01665E", "P"), ("#3B3B98", "*"), ("#B8860B", "<"), ("#8B4513", "X"), ("#2F4F4F", ">"))


def method_styles(methods: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method key, in the order of ``METHOD_STYLE``; other keys follow in alphabetical order.

    The styles of other keys depend on the set of keys, so pass all methods of a figure, not those of one panel.
    """
    keys = set(methods)
    others = {key: _OTHERS[place % len(_OTHERS)] for place, key in enumerate(sorted(keys - set(METHOD_STYLE)))}
    return {**{key: style for key, style in METHOD_STYLE.items() if key in keys}, **others}
