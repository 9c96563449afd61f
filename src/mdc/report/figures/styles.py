"""The style of all figures, and the colour and marker of each method, the same in every figure.

A method declares its own (``style`` in params.yaml), which is in the jobs of the figures that show it.
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
#: the styles of methods that declare none
PALETTE = (("#DE77AE", "D"), ("#01665E", "P"), ("#3B3B98", "*"), ("#B8860B", "<"), ("#8B4513", "X"), ("#2F4F4F", ">"))


def method_styles(methods: Iterable[str], declared: Iterable[tuple[str, str, str]]) -> dict[str, tuple[str, str]]:
    """Colour and marker of each method key, in the order of those that are ``declared`` (key, colour, marker); other keys
    follow in alphabetical order.

    The styles of other keys depend on the set of keys, so pass all methods of a figure, not those of one panel.
    """
    keys, own = set(methods), dict[str, tuple[str, str]]()
    for key, *style in declared:
        if key in keys and (*style,) not in own.values():  # one that was copied from another method's entry is none
            own[key] = style[0], style[1]
    others = {key: PALETTE[place % len(PALETTE)] for place, key in enumerate(sorted(keys - own.keys()))}
    return own | others
