"""The panels of probe accuracies that Figures 4 and 5 and the figures of convergence and repetition share.

The paper only draws its values, so none are shown beside ours.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.plan.records import UserError
from mdc.report import words
from mdc.report.figures.drawing import MARKER, Axes, bottom_legend, drawing, error_bars, headline, line_handle
from mdc.report.figures.styles import method_styles
from mdc.report.frame import Number
from mdc.report.results import Results

_DASHES: tuple[Any, ...] = ((0, (1, 1.6)), (0, (3, 1.6, 1, 1.6)))  # of untrained levels, one for each pooling
_GREY = "#6B6B6B"
#: draws the rest of a panel, given the styles of methods and the panel's numbers
More = Callable[[Axes, Mapping[str, tuple[str, str]], Sequence[Number]], None]


def draw(
    results: Results,
    out: Path,
    title: str,
    label: str,
    at: Callable[[Number], float | None],
    tick: Callable[[float], str] = "{:g}".format,
    lines: Callable[[Number], Sequence[tuple[str, str]]] = lambda n: [(n.method_key, "-")],
    more: More = lambda *_: None,
    log: bool = False,
    by_corpus: bool = False,
) -> None:
    """Write the figure into ``out``: a panel for each measure, and ``by_corpus`` for each corpus, over the axis ``label``.

    ``at``: a number's place, None if it has no point; ``tick``: a place in words, on a ``log`` scale to base 2; ``lines``: names
    and styles of the lines that join a number with others.
    """
    name, trained = results.job.artefact, [n for n in results.numbers if n.system.corpus]
    styles = method_styles((n.method_key for n in trained), results.job.styles)
    # a method's label is that of its whole runs, the last on the axis: those of snapshots also say their share
    labels = {n.method_key: n.system.method.label for n in sorted(trained, key=lambda n: at(n) or 0)}
    corpora: list[str | None] = [*results.corpora] if by_corpus else [None]
    panels, several = list(itertools.product(results.measures, corpora)), len(corpora) > 1
    across, untrained = len(corpora) if several else min(2, len(panels)), dict[str, Any]()
    ticks = sorted({place for place in map(at, trained) if place is not None})
    rows, files = math.ceil(len(panels) / across), [out / f"{name}.{ending}" for ending in ("png", "svg", "pdf")]
    with drawing(4.8 if across == 1 else max(7, 2.6 * across), 2.6 * rows + 1.3, files) as figure:
        axes = figure.subplots(rows, across, squeeze=False, sharey="row" if several else "none").ravel()
        for panel, (measure, corpus) in zip(axes, panels, strict=False):
            here = [n for n in results.numbers if n.column == results.key(measure)]
            own = [n for n in here if n.system.corpus and corpus in (None, n.system.corpus.key)]
            panel.set_title(results.corpora[corpus] if corpus and several else "")
            joined: dict[tuple[str, str], list[tuple[float, Number]]] = {}
            for number, place in ((n, place) for n in own if (place := at(n)) is not None):
                error_bars(panel, [place], [(number.value, *number.ends)], styles[number.method_key], **MARKER)
                for line in lines(number):
                    joined.setdefault(line, []).append((place, number))
            for (_, style), points in joined.items():
                places, numbers = zip(*sorted(points, key=lambda point: point[0]), strict=True)
                colour = styles[numbers[len(numbers) // 2].method_key][0]
                panel.plot(places, [n.value for n in numbers], color=colour, linestyle=style, linewidth=1.3, zorder=2)
            more(panel, styles, own)
            untrained |= _untrained(panel, here, first=corpus == corpora[0])
            if log:
                panel.set_xscale("log", base=2)
                panel.minorticks_off()
            panel.set_xticks(ticks, [tick(place) for place in ticks], fontsize=7.5)
            panel.set_xlabel(label)
        for panel in axes[len(panels) :]:
            panel.set_visible(False)
        headline(figure, f"{title} linear probing of {', '.join(results.backbones)}, {results.scale_text}")
        handles = [line_handle(styles[key], labels[key], linewidth=1.3, **MARKER) for key in styles]
        bottom_legend(figure, [*handles, *untrained.values()], words.bars(results.job))


def _untrained(panel: Axes, here: Sequence[Number], first: bool) -> dict[str, Any]:
    """The levels of untrained encoders as dotted lines; returns their entries of the legend. Levels so far below the trained
    encoders' numbers that these would fill little of the axis are text, beside the ``first`` panel's label."""
    ends = [end for n in here if n.system.corpus for end in n.ends]
    far, entries = "", {}
    for place, number in enumerate(n for n in here if not n.system.corpus):
        name, dashes = words.method(number.system), _DASHES[place % 2]
        if number.value < min(ends) - max(max(ends) - min(ends), 1):
            far += f"\n{name}: {number.value:.1f} %"
        else:
            panel.axhline(number.value, color=_GREY, linestyle=dashes, linewidth=1.2)
            entries[number.system.key] = line_handle((_GREY, ""), name, dashes, linewidth=1.2)
    if first:
        panel.set_ylabel(f"{here[0].label}, {here[0].metric} (%){far}")
    return entries


def count_words(count: int) -> str:
    """A count as an axis shows it: exact below a million, then three digits."""
    for unit, letter in ((10**9, "B"), (10**6, "M")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{letter}"
    return f"{count:,}"


def check_counts_differ(results: Results, counts: Mapping[str, Hashable], what: str) -> None:
    """UserError if two corpora have the same of ``counts``, so that no axis tells them apart."""
    first_of: dict[Hashable, str] = {}
    for corpus, count in counts.items():
        if (first := first_of.setdefault(count, corpus)) != corpus:
            raise UserError(f"{results.title}: runs of {first} and {corpus} saw as many {what}; drop one of them")
