"""The losses of every run of a scale, and the gradient norms where methods differ in their weights and ranges of t.

Methods of one family share a panel: CLIP's losses, the captioning methods of the main table, other weights and ranges of t, fixed
mask ratios; MDC is in each of the last three. Seeds become a mean and a band.

The paper leaves out small t because "loss is very unstable when pretrained on CC3M". How much of this the weights 1/t and the
masks make by themselves is arithmetic (:func:`loss_variation`), and stands below the figure.

A log contains times, so no record can name it by hash; ``figure_loss.csv`` has every loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, model_validator

from mdc.plan.config.probe_tables import OfRuns
from mdc.plan.config.references import BackboneName, MethodNames, TrainedOn
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.plan.records import read_json
from mdc.report.csv_file import names, write_csv

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mdc.plan.jobs.context import Context
    from mdc.plan.jobs.ids import Run
    from mdc.report.figures.drawing import Axes
    from mdc.report.manifests import Manifests

SHOWN = {
    "artefacts": {"figure_loss": {"title": "Figure: losses"}},
    "files": ".png .svg .csv",
    "caption": "Training and held-out loss of every run at scale {scale}, in nats, and gradient norms of the methods with other "
    "weights and ranges of t. Levels of different methods do not compare, since they are losses of different things.",
    "config": "Block",
}

#: drawn beside its variants, which are two families
_COMMON, _SCHEDULES, _RATIOS = "mdc", "other weights and ranges of t", "fixed mask ratios"
_VARIANTS = (_SCHEDULES, _RATIOS)
_COLUMNS = 5
_POINTS = 9  # validation losses drawn of one line; the csv has all


class Block(OfRuns):
    """The logs of all runs that the scale's tables and figures need. ``corpora`` and ``backbones`` can add more runs."""

    corpora: dict[TrainedOn, MethodNames] = Field(default_factory=dict)
    backbones: list[BackboneName] = Field(default_factory=list)

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        if not any(block.trained for block in params.tables.values()) and not params.tables.needing("captions"):
            said = "shows the runs of the other tables and figures, and these have none; name its corpora and backbones"
            yield f"{where} {said}"

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if bool(self.corpora) != bool(self.backbones):
            raise ValueError("corpora and backbones go together: name both, or neither")
        return self


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The logs of all runs, which are beside the runs' manifests."""
    by_system: dict[str, list[Run]] = {}
    for run in plan.runs:
        if not run.finetune:  # its loss is on another corpus than its run's
            by_system.setdefault(run.system, []).append(run)
    jobs = {run.id: plan.pretrain(run) for runs in by_system.values() for run in runs}
    systems = [
        System(
            key=key,
            **plan.labels(runs[0]),
            runs=[run.id for run in runs],
            records=[jobs[run.id].job for run in runs],
            more={
                "seeds": [run.seed for run in runs],
                "family": method.family,
                "per": method.loss_per,
                "t_range": method.masked_share and list(method.masked_share),
            },
        )
        for key, runs in by_system.items()
        for method in [jobs[runs[0].id].method]
    ]
    return {"jobs": {job.job: job for job in jobs.values()}, "systems": systems}


@dataclass(frozen=True)
class Curve:
    """A run's losses in nats by step, of ``train`` and of ``validation``, which may have none, and its gradient's ``norm`` before
    clipping. ``expected``: the loss's coefficient of variation by weights and masks alone, None where no formula gives it."""

    run: System
    seed: int
    train: Mapping[int, float]
    validation: Mapping[int, float]
    norm: Mapping[int, float] = field(default_factory=dict)
    expected: float | None = None

    @property
    def method(self) -> str:
        """Its method's key."""
        return self.run.method.key

    @property
    def group(self) -> str:
        """The heading of its panel."""
        t_range = self.run.more["t_range"]
        if self.run.more["family"] != "captioning" or t_range is None:
            return str(self.run.more["family"])
        if t_range[0] == t_range[1]:
            return _RATIOS
        return _SCHEDULES if self.method != _COMMON else "captioning"


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its csv into ``out``; UserError if a run's manifest or log does not serve."""
    from mdc.report.manifests import run_log

    curves, logged = [], []
    for run in job.systems:
        for seed, name in zip(run.more["seeds"], run.records, strict=True):
            lines = run_log(manifests, name)
            # of a step that was logged twice the last counts
            train, validation, norm = (
                {line["step"]: line[key] for line in lines if key in line}
                for key in ("loss", "validation_loss", "grad_norm")
            )
            expected = _expected(run, read_json(manifests[name])["config"], lines)
            curves.append(Curve(run, seed, train, validation, norm, expected))
            cells = {"scale": job.scale, "artefact": job.artefact, "system": run.key, "dataset": _corpus(run)}
            cells |= {"backbone": run.backbone.label, "method": run.method.label, "seed": seed, "record": name}
            logged += [
                cells | {"split": split, "step": step, "loss": loss, "grad_norm": norms.get(step)}
                for split, losses, norms in (("train", train, norm), ("validation", validation, {}))
                for step, loss in losses.items()
            ]
    columns = "scale artefact system dataset backbone method seed split step loss grad_norm record"
    write_csv(out / "figure_loss.csv", logged, names(columns))
    figures = [out / "figure_loss.png", out / "figure_loss.svg"]
    draw(curves, figures, f"Pretraining loss, scale {job.scale_label}", job.styles)


def _corpus(run: System) -> str:
    return run.corpus.label if run.corpus else "none"


def draw(curves: Sequence[Curve], paths: Sequence[Path], title: str, declared: Sequence[tuple[str, str, str]]) -> None:
    """Training loss (running mean) and validation loss (points) over steps, one line for each method.

    With one seed the raw loss is drawn faintly; with several, the line is the mean and the band reaches from the least to the
    largest running mean. Each family has a panel for each corpus, of its first backbone there.
    """
    from mdc.report.figures.drawing import bottom_legend, drawing, headline, line_handle, plain_logarithm
    from mdc.report.figures.styles import method_styles

    panels = [
        (family, here, drawn)
        for family in dict.fromkeys(["contrastive", "captioning", *_VARIANTS, *(curve.group for curve in curves)])
        for here in _panels(curves, family)
        for drawn in _drawn(here)
    ]
    columns = max(2, min(_COLUMNS, len(panels)))
    labels = {curve.method: curve.run.method.label for _, here, _ in panels for curve in here}
    styles = method_styles(labels, declared)
    seeds = len({curve.seed for curve in curves})
    lines = -(-len(panels) // columns)
    with drawing(2.6 * columns + 0.5, 2.3 * lines + 1.2 + 0.06 * len(labels), paths) as figure:
        axes = figure.subplots(lines, columns, squeeze=False).flatten()
        for panel in axes[len(panels) :]:
            panel.set_axis_off()
        for place, (panel, (family, here, drawn)) in enumerate(zip(axes, panels, strict=False)):
            _draw(panel, here, styles, drawn)
            run = here[0].run
            unit = f"nats per {run.more['per']}"
            panel.set_title(f"{family}\n{_corpus(run)}, {run.backbone.label}")
            panel.set_ylabel("gradient norm before clipping" if drawn == "norm" else unit)
            panel.set_xlabel("step" if place + columns >= len(panels) else "")
            if drawn == "train":
                _limit_y(panel, here)
            else:
                panel.set_yscale("log")
                plain_logarithm(panel.yaxis)
        apart = len({curve.method for curve in curves if curve.run.more["per"] == "token"}) > 1
        note = "Captioning methods weight tokens differently: their levels do not compare." if apart else ""
        headline(figure, title, note)
        means = (
            "running mean" if seeds == 1 else f"running mean of {seeds} seeds, in a band from the least to the largest"
        )
        handles = [line_handle(styles[method], labels[method]) for method in styles]
        bottom_legend(
            figure, handles, f"Lines: {means}. Points: validation. All runs: figure_loss.csv.{_arithmetic(curves)}"
        )


def _drawn(curves: Sequence[Curve]) -> list[Literal["train", "norm"]]:
    """What panels of the same curves show: their losses, and of other weights and ranges of t also the gradient norms."""
    return ["train", "norm"] if curves[0].group == _SCHEDULES and any(c.norm for c in curves) else ["train"]


def _arithmetic(curves: Sequence[Curve]) -> str:
    """How much the losses of ranges of t vary by arithmetic; "" where none is drawn beside MDC."""
    shown = [curve for here in _panels(curves, _SCHEDULES)[:1] for curve in here if curve.expected is not None]
    each = {curve.run.method.label: f"{curve.run.method.label} {100 * (curve.expected or 0):.1f} %" for curve in shown}
    return f" By weights and masks alone a loss varies by: {', '.join(each.values())}." if each else ""


def _expected(run: System, config: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> float | None:
    """From the supervised tokens of the median batch, where the loss is equation 5 over all of them."""
    t_range, method = run.more["t_range"], config.get("method", {})
    tokens = [line["tokens"] for line in lines if line.get("tokens")]
    if (method.get("weight"), method.get("normaliser")) != ("inverse_t", "valid_tokens") or not (t_range and tokens):
        return None
    low, high = t_range
    return loss_variation(low, high, float(median(tokens)), float(config["protocol"]["pretrain"]["least_t"]))


def mean_inverse_t(low: float, high: float, least_t: float) -> float:
    """E[1/t] for t ~ U[low, high], 0 <= low <= high <= 1, where a t below ``least_t`` > 0 counts as ``least_t``."""
    start, end = max(low, least_t), max(high, least_t)
    if high == low:
        return 1 / start
    return (max(0.0, min(high, least_t) - low) / least_t + math.log(end / start)) / (high - low)


def loss_variation(low: float, high: float, tokens: float, least_t: float) -> float:
    """The coefficient of variation of the loss by the draw of t and masks alone, whatever a token costs, if all cost the same.

    The loss is Σ_b (1/t_b) K_b / ``tokens``, K_b ~ Bin(L_b, t_b) of the caption's L_b tokens and ``tokens`` their sum
    over the batch. Given t, its mean is 1 whatever t, and its variance Σ L_b (1 - t_b)/t_b / tokens²; so the variance is
    (E[1/t] - 1) / tokens, stratified t or not. It grows without bound as t nears 0, and as captions get shorter.
    """
    # E[1/t] is at least 1, but for a rounding
    return math.sqrt(max(0.0, mean_inverse_t(low, high, least_t) - 1) / tokens)


def _panels(curves: Sequence[Curve], family: str) -> list[list[Curve]]:
    """The curves of a family's panels: one panel for each corpus, of the first backbone with a method of the family."""
    panels: list[list[Curve]] = []
    places: dict[tuple[Any, str], list[Curve]] = {}
    for curve in curves:
        corpus = curve.run.corpus and curve.run.corpus.key
        places.setdefault((corpus, curve.run.backbone.key), []).append(curve)
    for here in places.values():
        if here[0].run.corpus in [panel[0].run.corpus for panel in panels]:
            continue
        own = [curve for curve in here if curve.group == family]
        if {curve.method for curve in own} == {_COMMON} and any(curve.group in _VARIANTS for curve in here):
            continue  # it is drawn beside its variants
        common = [curve for curve in here if curve.method == _COMMON and family in _VARIANTS]
        if own:
            panels.append([*own, *common])
    return panels


def _draw(
    panel: Axes, curves: Sequence[Curve], styles: Mapping[str, tuple[str, str]], drawn: Literal["train", "norm"]
) -> None:
    from mdc.report.figures.drawing import MARKER, smooth

    for method in dict.fromkeys(curve.method for curve in curves):
        colour, marker = styles[method]
        group = [curve for curve in curves if curve.method == method and getattr(curve, drawn)]
        series: list[Mapping[int, float]] = [getattr(curve, drawn) for curve in group]
        smoothed = [dict(zip(one, smooth(list(one.values()), len(one) // 15), strict=True)) for one in series]
        steps, low, mean, high = _over_seeds(smoothed)
        if len(group) == 1:
            raw = series[0]
            panel.plot(list(raw), list(raw.values()), color=colour, linewidth=0.8, alpha=0.35)
        else:
            panel.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
        panel.plot(steps, mean, color=colour, linewidth=1.6)
        if validation := [curve.validation for curve in group if curve.validation and drawn == "train"]:
            at, _, loss, _ = _over_seeds(validation)
            # the last point is always drawn
            kept = slice((len(at) - 1) % -(-len(at) // _POINTS), None, -(-len(at) // _POINTS))
            panel.plot(at[kept], loss[kept], marker, color=colour, zorder=3, **{**MARKER, "markersize": 4.2})


def _over_seeds(series: Iterable[Mapping[int, float]]) -> tuple[NDArray[np.float64], ...]:
    """Steps (N,), and the least, mean and largest value at each (N,) over the seeds with this step."""
    import numpy as np
    import pandas as pd

    seeds = pd.DataFrame([pd.Series(losses) for losses in series]).sort_index(axis="columns")
    return (
        np.asarray(seeds.columns, dtype=np.float64),
        *(f.to_numpy() for f in (seeds.min(), seeds.mean(), seeds.max())),
    )


def _limit_y(panel: Axes, curves: Sequence[Curve]) -> None:
    """The vertical range of a panel's losses: every validation loss, and of training losses all but the first steps, which may be
    far above the rest."""
    import numpy as np

    drawn = np.concatenate([np.asarray(line.get_ydata(), float) for line in panel.get_lines()])
    validation = np.array([loss for curve in curves for loss in curve.validation.values()], dtype=np.float64)
    drawn, validation = (values[np.isfinite(values)] for values in (drawn, validation))
    if not len(drawn):
        return
    low, high = (float(end) for end in (min([drawn.min(), *validation]), max([np.quantile(drawn, 0.995), *validation])))
    margin = 0.06 * (high - low) or 0.5
    panel.set_ylim(low - margin, high + margin)
