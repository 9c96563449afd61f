"""Figure 3: caption lengths after tokenisation, one distribution for each corpus, and the context length that truncates them.

Lengths are in tokens as a model reads them: BPE tokens, SOT and EOT.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import Field, model_validator

from mdc.plan.config.references import CorpusName, TextsName
from mdc.plan.config.types import Parameters, Unique
from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import UserError, read_json
from mdc.report.csv_file import write_csv
from mdc.report.manifests import Manifests

if TYPE_CHECKING:
    from mdc.plan.jobs.context import Context

SHOWN = {
    "artefacts": {"figure3": {"title": "Figure 3: caption lengths"}},
    "files": ".png .svg .pdf .csv _summary.csv",
    "caption": "Caption lengths in CLIP tokens, SOT and EOT counted, of the corpora of scale {scale} (the paper's Figure 3). The "
    "line is the context's length, beyond which captions are cut.",
    "config": "Block",
}

ENDS = 2  # SOT and EOT
# colour, line, marker: their greys differ where colours are lost, and so do the lines and markers
_STYLES: tuple[tuple[str, Any, str], ...] = (
    ("#0072B2", "-", "o"),
    ("#E69F00", (0, (5, 1.5)), "s"),
    ("#000000", (0, (1.2, 1.2)), "^"),
    ("#CC79A7", (0, (6, 1.5, 1.2, 1.5)), "D"),
    ("#009E73", "-", "v"),
    ("#56B4E9", (0, (5, 1.5)), "P"),
)


class Block(Parameters):
    """Figure 3: caption lengths of corpora, of sets of captions without images (``texts``), or both."""

    corpora: Unique[CorpusName] = Field(default_factory=list)
    texts: Unique[TextsName] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_at_least(self) -> Self:
        if not self.corpora and not self.texts:
            raise ValueError("corpora and texts are both empty; name a corpus (data.corpora) or captions (data.texts)")
        return self


def rows(plan: "Context", name: str, block: Block) -> dict[str, Any]:
    """``sets``: {key, label, job, split}, whose index holds the lengths of the split's captions; ``context_length``."""
    data = plan.scale.data
    chosen = [("corpora", "train", {key: data.corpora[key].label for key in block.corpora})]
    chosen += [("texts", "all", {key: data.texts[key].label for key in block.texts})]
    sets = [
        {"key": key, "label": label, "job": f"data/{section}/{key}", "split": split}
        for section, split, labels in chosen
        for key, label in labels.items()
    ]
    # the configurations of the sets are not pinned: an equal set that other code wrote gives the same figure
    jobs = {entry["job"]: None for entry in sets}
    return {"jobs": jobs, "sets": sets, "context_length": plan.params.protocol.data.context_length}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure and its two csv files into ``out``, from the histograms in the sets' indexes.

    UserError if an index is missing, of another set, not as it was made, or holds no lengths.
    """
    sets, context_length = job.more["sets"], job.more["context_length"]
    corpora = [Lengths.of(s, read_json(manifests[s["job"]]), manifests[s["job"]]) for s in sets]
    records = {entry["key"]: entry["job"] for entry in sets}
    each = [row for lengths in corpora for row in lengths.each()]
    whole = [lengths.summary(context_length) for lengths in corpora]
    for name, lines in (("figure3.csv", each), ("figure3_summary.csv", whole)):
        lines = [{**line, "scale": job.scale, "record": records[line["corpus"]]} for line in lines]
        write_csv(out / name, lines, tuple(lines[0]))
    figures = [out / f"figure3.{ending}" for ending in ("png", "svg", "pdf")]
    draw(corpora, context_length, figures, f"Caption lengths after tokenisation, scale {job.scale_label}")


@dataclass(frozen=True)
class Lengths:
    """The caption lengths of one corpus: ``tokens``, increasing, and how many ``captions`` have each."""

    key: str
    label: str
    tokens: list[int]
    captions: list[int]

    @classmethod
    def of(cls, shown: Mapping[str, str], index: dict[str, Any], path: Path) -> "Lengths":
        """From the histogram {BPE tokens without SOT and EOT: captions} in the ``index`` at ``path``; UserError if it counts no
        caption."""
        split = shown["split"]
        try:
            listed = index["captions"]["per_split"][split]["histogram"]
            counts = {int(pieces): count for pieces, count in listed.items() if count}
        except (KeyError, TypeError, ValueError, AttributeError):
            raise UserError(f"{path}: has no caption lengths of split {split!r}") from None
        if not all(pieces >= 0 and type(count) is int and count > 0 for pieces, count in counts.items()):
            raise UserError(f"{path}: a caption length or a count of split {split!r} is no whole number from 0")
        if not counts:
            raise UserError(f"figure 3: {shown['label']} has no caption")
        pieces = sorted(counts)
        return cls(shown["key"], shown["label"], [n + ENDS for n in pieces], [counts[n] for n in pieces])

    @property
    def count(self) -> int:
        """Captions."""
        return sum(self.captions)

    @property
    def mean(self) -> float:
        """Tokens per caption."""
        return sum(map(mul, self.tokens, self.captions)) / self.count

    @property
    def median(self) -> float:
        """The middle caption's tokens; of an even number the mean of both in the middle."""
        reached = list(accumulate(self.captions))
        middle = (self.count - 1) // 2, self.count // 2
        return sum(self.tokens[bisect_right(reached, caption)] for caption in middle) / 2

    def truncated(self, context_length: int) -> float:
        """The share of captions with more tokens than the context holds."""
        return sum(self.captions[bisect_right(self.tokens, context_length) :]) / self.count

    def quantile(self, share: float) -> int:
        """The least number of tokens that so large a share of captions does not exceed."""
        return self.tokens[bisect_left(list(accumulate(self.captions)), share * self.count)]

    def each(self) -> list[dict[str, Any]]:
        """A line for each length: BPE tokens without and with SOT and EOT, captions, and their share."""
        return [
            {"corpus": self.key, "label": self.label, "bpe_tokens": tokens - ENDS, "tokens": tokens}
            | {"captions": captions, "share": captions / self.count}
            for tokens, captions in zip(self.tokens, self.captions, strict=True)
        ]

    def summary(self, context_length: int) -> dict[str, Any]:
        """What the legend says, unrounded."""
        return {
            "corpus": self.key,
            "label": self.label,
            "captions": self.count,
            "mean": self.mean,
            "median": self.median,
            "max": self.tokens[-1],
            "context_length": context_length,
            "truncated_share": self.truncated(context_length),
            "unit": "tokens per caption",
        }

    def legend_text(self, context_length: int) -> str:
        """What the legend says of a corpus."""
        cut = f"truncated at {context_length}: {percent(self.truncated(context_length))}"
        return f"{self.label}: mean {self.mean:.1f}, median {self.median:g}, {cut} (n = {self.count:,})"


def percent(share: float) -> str:
    """A share as a percentage with one decimal; one above zero that rounds to zero says so."""
    return "< 0.1 %" if 0 < share < 0.0005 else f"{100 * share:.1f} %"


def draw(corpora: Sequence[Lengths], context_length: int, paths: Sequence[Path], title: str) -> None:
    """The distributions in one panel, a line at the context's end, a marker at each median."""
    from mdc.report.figures.drawing import drawing, headline

    # to the 99.9 % quantile, and a little beyond the context, so that its end is seen
    last = max(context_length + 6, *(min(lengths.quantile(0.999), 2 * context_length) + 2 for lengths in corpora))
    with drawing(7.2, 3.3 + 0.19 * len(corpora), paths) as figure:
        panel = figure.subplots()
        handles = [_draw_corpus(panel, lengths, number, context_length) for number, lengths in enumerate(corpora)]
        panel.set_xlim(0, last)
        panel.set_ylim(bottom=0)
        panel.margins(y=0.08)
        panel.set_xlabel("tokens per caption (CLIP tokens, with SOT and EOT)")
        panel.set_ylabel("share of captions, %")
        # a line behind the last token that the context holds, and what lies beyond it in grey
        end = context_length + 0.5
        panel.axvline(end, color="#333333", linewidth=1)
        panel.axvspan(end, last, color="#8A8A8A", alpha=0.16, linewidth=0, zorder=0)
        where: dict[str, Any] = {
            "xycoords": ("data", "axes fraction"),
            "xytext": (-4, -2),
            "textcoords": "offset points",
        }
        style: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 8, "color": "#333333"}
        panel.annotate(f"context: {context_length} tokens", (end, 1), **where, **style)
        headline(figure, title)
        note = "tokens per caption; a marker is at the median"
        figure.legend(handles=handles, loc="outside lower left", handlelength=3.2, title=note, alignment="left")


def _draw_corpus(panel: Any, lengths: Lengths, number: int, context_length: int) -> Any:
    from mdc.report.figures.drawing import line_handle

    colour, line, marker = _STYLES[number % len(_STYLES)]
    shares = {
        tokens: 100 * (captions / lengths.count)
        for tokens, captions in zip(lengths.tokens, lengths.captions, strict=True)
    }
    dense = [shares.get(tokens, 0.0) for tokens in range(lengths.tokens[-1] + 2)]
    edges = [tokens - 0.5 for tokens in range(len(dense) + 1)]
    panel.stairs(dense, edges, color=colour, alpha=0.13, fill=True, linewidth=0)
    panel.stairs(dense, edges, color=colour, linestyle=line, linewidth=1.3)
    median = lengths.median
    top = (dense[math.floor(median)] + dense[math.ceil(median)]) / 2
    edge: dict[str, Any] = {"markeredgecolor": "white", "markersize": 6.5}
    panel.plot([median], [top], marker, color=colour, zorder=4, clip_on=False, **edge)
    return line_handle((colour, marker), lengths.legend_text(context_length), line, linewidth=1.4, **edge)
