"""Figure 4: probe accuracy over the mask ratio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mdc.plan.config.probe_tables import MethodTable
from mdc.plan.jobs.shown import ArtefactJob

if TYPE_CHECKING:
    from mdc.report.figures.drawing import Axes
    from mdc.report.frame import Number
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"figure4": {"title": "Figure 4: mask ratios"}},
    "files": ".png .svg .pdf .csv _contrasts.csv _runs.csv",
    "caption": "Linear-probe accuracy at scale {scale} over the share of a caption that is masked, the same for all captions "
    "(the paper's image-conditioned BERT; at 100 % parallel decoding), against MDC, which draws the share anew; with "
    "intervals, one panel for each corpus.",
    "config": "Block",
    "plan": "probe_rows.probing",
}


class Block(MethodTable):
    """Figure 4: methods with a fixed mask ratio, beside others, in one panel for each corpus."""

    averaged = False

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        for corpus, listed in self.corpora.items():
            shares = (params.methods[name].masked_share for name in listed)
            fixed = [share for share in shares if share is not None and share[0] == share[1]]
            if not fixed or len(fixed) == len(listed):
                kind = "without a fixed mask ratio" if fixed else "with a t_range [r, r]"
                yield f"{where}.corpora.{corpus}: none of {', '.join(listed)} is a method {kind}"


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure, its numbers and its contrasts into ``out``; there is no average of several columns. Errors as of
    Table 1."""
    from mdc.report.figures.accuracy_panels import draw
    from mdc.report.frame import write_contrasts, write_levels
    from mdc.report.results import Results

    results = Results(job, manifests, averages=False)
    low, high = zip(*map(_ratios, results.numbers), strict=True)
    write_levels(out / "figure4.csv", results.job, results.numbers, mask_ratio_low=low, mask_ratio_high=high)
    write_contrasts(out / "figure4_contrasts.csv", results.job, results.contrasts())

    def levels(panel: Axes, styles: Mapping[str, tuple[str, str]], numbers: Sequence[Number]) -> None:
        """Methods that draw their ratio, or mask nothing: a line, thick over the ratios that they draw, and a band."""
        for number in (n for n in numbers if _fixed(n) is None):
            look: dict[str, Any] = {"color": styles[number.method_key][0], "zorder": 2}
            panel.axhspan(*number.ends, color=look["color"], alpha=0.13, linewidth=0, zorder=1)
            panel.axhline(number.value, linewidth=0.9, **look)
            low, high = _ratios(number)
            if low is not None and high is not None:
                panel.plot([low, high], [number.value] * 2, linewidth=2.6, solid_capstyle="butt", **look)

    title = "Fixed mask ratios against drawn ones (thick: over the ratios that are drawn),"
    draw(results, out, title, "mask ratio (%)", _fixed, lines=lambda _: [("fixed", "-")], more=levels, by_corpus=True)


def _ratios(number: Number) -> tuple[float | None, float | None]:
    """The range of mask ratios in training, in per cent; None if nothing is masked."""
    low, high = number.system.more.get("t_range") or (None, None)
    # 0.55 is 55, not 55.00000000000001
    return (None, None) if low is None or high is None else (round(100 * low, 6), round(100 * high, 6))


def _fixed(number: Number) -> float | None:
    """The fixed mask ratio; None if it is drawn, or nothing is masked."""
    low, high = _ratios(number)
    return low if low == high else None
