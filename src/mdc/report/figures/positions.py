"""The position figure: what the image adds to a token's log probability, and the token's gradient at the encoder, by position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from mdc.plan.config.probe_tables import OfMethods
from mdc.plan.config.references import BackboneNames, MethodName, OwnSide, Ref
from mdc.plan.config.types import MOST_CLAIMS, Pairs, Positive, Side, Unique, within
from mdc.plan.jobs.shown import ArtefactJob, System
from mdc.report.csv_file import names, write_csv

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context
    from mdc.report.figures.drawing import Axes
    from mdc.report.manifests import Manifests
    from mdc.report.positions import Positions
    from mdc.report.statistics.estimate import Estimate

SHOWN = {
    "artefacts": {"figure_position": {"title": "Figure: what the image tells, by position"}},
    "files": ".png .svg .csv _contrasts.csv _gradients.csv _kinds.csv _runs.csv",
    "caption": "What the image adds to the log probability of a caption's token at scale {scale}, by the token's relative "
    "position: in the model's own contexts, and with the tokens before it shown and all others masked; and the norm of the "
    "loss's gradient at the visual tokens, also by the kind of word where that is known.",
    "config": "Block",
}

_CURVES = names("scale artefact system dataset method context words position unit")
_GRADIENTS = names("scale artefact system dataset method step position unit")
_KINDS = names("scale artefact system dataset method step words unit")

_MISMATCHED = (
    "What the image adds: log p with the token's own image less log p with other images. Hollow: most tokens have contexts of "
    "more or fewer masks than in training."
)
#: heading and vertical label of each panel of a row
_PANELS = (
    ("own contexts: a description", "nats that the image adds"),
    ("matched contexts: prefix shown, first mentions", "nats that the image adds"),
    ("loss's gradient at visual tokens, trained", "norm, log scale"),
    ("gradient: last third / first third", "ratio of norms"),
)
#: a further panel where the kinds of words are known
_OF_KINDS = ("gradient by kind of word, trained", "norm / mean of all words")


class Block(OfMethods):
    """The image's information about a token, by position, on ``captions`` held-out captions of each corpus.

    ``gradient_captions`` of them, with ``gradient_draws`` masks each, measure the learning signal. ``bins``: of relative
    position. ``margin``: the equivalence margin in nats. ``primary``: methods (corpus/method), with the claim that their decrease
    from the first to the last third of a caption is smaller than that of the corpus's ``reference``. ``function_words``: pairs of
    methods of one corpus of the built-in world, with the claim that function words have a larger share of the first one's
    learning signal.
    """

    backbones: Annotated[BackboneNames, Field(max_length=1)]
    reference: MethodName
    captions: Annotated[int, Field(ge=10)]
    gradient_captions: Positive
    gradient_draws: Positive
    bins: Annotated[int, Field(ge=3, le=50)]
    margin: Annotated[float, Field(gt=0)]
    primary: Annotated[
        Unique[Annotated[Side, Ref("compared", "method that is held against the reference")]],
        Field(max_length=MOST_CLAIMS),
    ] = Field(default_factory=list)
    function_words: Annotated[Pairs[OwnSide], within("corpora, whose captions differ")] = Field(default_factory=list)

    sections: ClassVar[tuple[str, ...]] = ("pretrain", "score")

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        for corpus, listed in self.corpora.items():
            for name in (name for name in listed if "positions" not in params.methods[name].abilities):
                yield f"{where}.corpora.{corpus}: {name} ({params.methods[name].objective}) predicts no tokens"
        for side in (self.reference, *self.primary):
            if params.methods[side.rpartition("/")[2]].reverse:
                said = "reads from right to left, which is a control; nothing is claimed of it (reference, primary)"
                yield f"{where}: {side} {said}"
        for corpus in dict.fromkeys(side.rpartition("/")[0] for pair in self.function_words for side in pair):
            if params.data.corpora[params.corpus_of(corpus)].source.kind != "scenes":
                yield (
                    f"{where}.function_words: the kinds of words of {corpus} are not known; those of a corpus of the built-in "
                    "world are (source.kind: scenes)"
                )

    @property
    def compared(self) -> dict[str, str]:
        """The sides of ``primary``: every method but the reference."""
        return {side: method for side, method in self.sides.items() if method != self.reference}

    @model_validator(mode="after")
    def _claims(self) -> Self:
        if (count := len(self.primary) + len(self.function_words)) > MOST_CLAIMS:
            raise ValueError(f"primary and function_words are {count} claims, allowed: {MOST_CLAIMS}; name fewer")
        for corpus, methods in self.corpora.items():
            if self.reference not in methods:
                raise ValueError(
                    f"corpora.{corpus}: lacks {self.reference}, which the others are held against (reference)"
                )
        return self


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the position figure's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import score_jobs
    from mdc.plan.jobs.ids import Run

    scale = plan.scale
    jobs: dict[str, Any] = {}
    systems: list[System] = []
    for corpus, methods in block.corpora.items():
        for method in methods:
            entry = plan.params.methods[method]
            runs = [Run(corpus, block.backbones[0], method, seed) for seed in scale.training.seeds]
            made = [score_jobs.positions(plan, run) for run in runs]
            jobs |= {job.job: job for job in made}
            systems.append(
                System(
                    key=f"{corpus}/{method}",
                    **plan.labels(runs[0]),
                    runs=[run.id for run in runs],
                    records=[job.job for job in made],
                    more={
                        "t_range": entry.masked_share and list(entry.masked_share),
                        "reverse": entry.reverse,
                    },
                )
            )
    return {
        "jobs": jobs,
        "systems": systems,
        "reference": block.reference,
        "claimed": block.primary,
        "function_words": [list(pair) for pair in block.function_words],
        "seeds": scale.training.seeds,
        "bins": block.bins,
        "margin": block.margin,
        "statistics": plan.statistics(block),
    }


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its csv files into ``out``; UserError names the record that is missing, stale or of another scale."""
    from mdc.report.frame import ESTIMATE, write_contrasts, write_runs
    from mdc.report.positions import Positions

    positions = Positions(job, manifests)
    claims = positions.claims()
    write_csv(out / "figure_position.csv", _curve_lines(positions), (*_CURVES, *ESTIMATE, "outside_trained_range"))
    write_contrasts(out / "figure_position_contrasts.csv", job, [*claims, *positions.falls()])
    write_runs(out / "figure_position_runs.csv", job)
    write_csv(out / "figure_position_gradients.csv", _gradient_lines(positions), (*_GRADIENTS, *ESTIMATE))
    write_csv(out / "figure_position_kinds.csv", _kind_lines(positions), (*_KINDS, *ESTIMATE))
    _draw(positions, [out / "figure_position.png", out / "figure_position.svg"])


# --- lines --------------------------------------------------------------------------------------------------------------


def _line(positions: Positions, key: str, value: Estimate, **more: Any) -> dict[str, Any]:
    from mdc.report.frame import dataset, estimate_cells, job_cells

    system = positions.systems[key]
    cells: dict[str, Any] = {
        **job_cells(positions.job),
        "system": key,
    }
    cells |= {"dataset": dataset(system), "method": system.method.label}
    return {**cells, **estimate_cells(value), **more}


def _curve_lines(positions: Positions) -> list[dict[str, Any]]:
    from mdc.report.positions import CONTEXTS

    lines = []
    for key in positions.systems:
        for context, kind in product(CONTEXTS, (None, *positions.kinds[key])):
            untrained = positions.untrained(key, context, kind)
            labels = {"context": positions.context(key, context), "words": kind or "all", "unit": "nats"}
            for number, gain in positions.curve(key, context, kind):
                bin_cells = {"position": _place(positions, number), "outside_trained_range": untrained[number]}
                lines.append(_line(positions, key, gain, **bin_cells, **labels))
    return lines


def _gradient_lines(positions: Positions) -> list[dict[str, Any]]:
    return [
        _line(positions, key, norm, step=step, position=_place(positions, number), unit="norm of the gradient")
        for key in positions.systems
        for step, norms in positions.signal(key).items()
        for number, norm in norms
    ]


def _kind_lines(positions: Positions) -> list[dict[str, Any]]:
    return [
        _line(positions, key, strength, step=step, words=kind, unit="times the mean BPE token")
        for key in positions.systems
        for step in positions.signal(key)
        for kind, strength in positions.strengths(key, step)
    ]


def _place(positions: Positions, number: int) -> float:
    """The middle of a bin."""
    return (number + 0.5) / positions.job.more["bins"]


# --- the picture --------------------------------------------------------------------------------------------------------


def _draw(positions: Positions, paths: Sequence[Path]) -> None:
    from mdc.report import words
    from mdc.report.figures.drawing import bottom_legend, drawing, headline, line_handle, plain_logarithm
    from mdc.report.figures.styles import method_styles
    from mdc.report.frame import dataset

    corpora = list(dict.fromkeys(dataset(system) for system in positions.job.systems))
    styles = method_styles((system.method.key for system in positions.job.systems), positions.job.styles)
    labels = {
        system.method.key: f"{system.method.label} (control: suffix shown)"
        if system.more["reverse"]
        else system.method.label
        for system in positions.job.systems
    }
    kinds = list(dict.fromkeys(kind for known in positions.kinds.values() for kind in known))
    panels = (*_PANELS, _OF_KINDS) if kinds else _PANELS
    # a row of five is taller, or the index page's thumbnail would be a strip
    with drawing(3.55 * len(panels), (3.2 if kinds else 2.75) * len(corpora) + 1.3, paths) as figure:
        axes = figure.subplots(len(corpora), len(panels), squeeze=False)
        for row, corpus in zip(axes, corpora, strict=True):
            here = {
                key: styles[claim.method.key] for key, claim in positions.systems.items() if dataset(claim) == corpus
            }
            for key, style in here.items():
                _draw_system(row, positions, key, style)
            if kinds:
                _by_kind(row[4], positions, here, kinds)
            for panel, (heading, label) in zip(row, panels, strict=True):
                panel.set_title(f"{corpus}, {heading}" if panel is row[0] else heading)
                panel.set_ylabel(label)
            for panel in row[:3]:
                panel.set_xlim(0, 1)
            for panel, middle in ((row[0], 0), (row[1], 0), (row[3], 1)):
                panel.axhline(middle, color="#333333", linewidth=0.8)
            for panel in row[2:4]:
                panel.set_yscale("log")
                plain_logarithm(panel.yaxis)
        for panel in axes[-1][:4]:
            panel.set_xlabel(
                "share of the training done" if panel is axes[-1][3] else "relative position in the caption"
            )
        scale = f"{positions.job.systems[0].backbone.label}, scale {positions.job.scale_label}"
        headline(figure, f"What the image tells about a token, by its position: {scale}")
        handles = [line_handle(styles[key], labels[key]) for key in styles]
        bottom_legend(figure, handles, f"{_MISMATCHED} {words.bars(positions.job)}")


def _draw_system(row: Sequence[Axes], positions: Positions, key: str, style: tuple[str, str]) -> None:
    """A system in the four panels of its corpus."""
    from mdc.report.positions import CONTEXTS
    from mdc.report.statistics.estimate import factors

    for panel, context in zip(row[:2], CONTEXTS, strict=True):
        curve = positions.curve(key, context)
        _band(panel, [(_place(positions, number), gain) for number, gain in curve], style)
        untrained = positions.untrained(key, context)
        hollow = [(_place(positions, number), gain.value) for number, gain in curve if (untrained[number] or 0) > 0.5]
        if hollow:
            look: dict[str, Any] = {"markersize": 4.2, "markerfacecolor": "white", "markeredgecolor": style[0]}
            panel.plot(*zip(*hollow, strict=True), marker=style[1], linestyle="none", zorder=3, **look)
    signal = positions.signal(key)
    _band(row[2], [(_place(positions, number), norm) for number, norm in signal[max(signal)]], style)
    _band(row[3], [(done, factors(ratio)) for done, ratio in positions.signal_ratio(key)], style)


def _by_kind(panel: Axes, positions: Positions, looks: Mapping[str, tuple[str, str]], kinds: Sequence[str]) -> None:
    """The strength of each kind of word after training, for the systems of a corpus side by side."""
    from mdc.report.figures.drawing import error_bars

    for number, (key, style) in enumerate(looks.items()):
        beside = 0.7 * ((number + 0.5) / len(looks) - 0.5)
        for kind, strength in positions.strengths(key):
            error_bars(panel, [kinds.index(kind) + beside], [(strength.value, *strength.ends)], style, markersize=4.2)
    panel.axhline(1, color="#333333", linewidth=0.8)
    panel.set_xticks(range(len(kinds)), kinds, rotation=30)


def _band(panel: Axes, points: Sequence[tuple[float, Estimate]], style: tuple[str, str]) -> None:
    """Estimates as a line with their intervals as a band."""
    places = [place for place, _ in points]
    low, high = ([estimate.ends[end] for _, estimate in points] for end in (0, 1))
    panel.fill_between(places, low, high, color=style[0], alpha=0.16, lw=0)
    value = [estimate.value for _, estimate in points]
    panel.plot(places, value, color=style[0], marker=style[1], markersize=4.2, linewidth=1.4)
