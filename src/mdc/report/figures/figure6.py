"""Figure 6: images drawn by seed, with the captions of all systems; its page shows the order in which tokens were decoded."""

from __future__ import annotations

import base64
import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from mdc.plan.config.captions import Captions, OfCaptions
from mdc.plan.config.types import Name, Names, NonNegative, Positive, Strict, Unique, unknown
from mdc.plan.jobs.shown import ArtefactJob, Labelled
from mdc.plan.records import UserError
from mdc.report.csv_file import write_csv

if TYPE_CHECKING:
    from PIL import Image

    from mdc.plan.jobs.context import Context
    from mdc.report.manifests import Manifests

SHOWN = {
    "kind": "caption_examples",
    "artefacts": {
        "figure6": {
            "title": "Figure 6: captions",
            "caption": "Images drawn by seed at scale {scale}, with the captions of all systems (the paper's Figure 6). The page "
            "also shows the order in which masked models revealed each BPE token, and how sure they were.",
        },
    },
    "files": ".png .pdf .html .csv",
    "more": {".html": "{title}, and the order of their words"},
    "what": "captions",
    "caption": "Images drawn by seed at scale {scale}, with {what}. The page also shows at which step each BPE token came.",
    "config": "Block",
}

_WIDTH, _NAME = 125, 30  # characters in a line of the figure, and of an image's name
_SMALL = 200  # pixels below which a page shows an image without interpolation


class Block(OfCaptions):
    """``examples`` images of each dataset, drawn with ``seed``, with the captions of ``systems`` by their first seed. ``omit``:
    systems that are shown on the page only, not in the picture."""

    datasets: Names
    systems: Names
    omit: Unique[Name] = Field(default_factory=list)
    examples: Positive = 3
    seed: NonNegative = 0

    @property
    def one_seed(self) -> bool:
        return True

    def shown(self, captions: Captions) -> Iterator[tuple[str, str]]:
        yield from product(self.datasets, captions.members(self.systems))

    def misfits(self, params: Any, where: str) -> Iterator[str]:
        yield from super().misfits(params, where)
        members = params.captions.members(self.systems)
        yield from unknown(f"{where}.omit", self.omit, members, "system of this figure (systems)")


class ShownCaptions(Labelled):
    """A system whose captions are shown; ``record``: their job. ``reveals``: its tokens are not generated from left to right, so
    their order is shown too. ``pictured``: it is also in the picture, not only on the page."""

    record: str
    reveals: bool
    pictured: bool


class CaptionExamples(Strict):
    """Images of one dataset. ``corpus``: the job of its shards."""

    label: str
    corpus: str
    split: Literal["train", "val", "test"]
    systems: list[ShownCaptions]


@dataclass(frozen=True)
class _Example:
    """A test image with its reference captions and those of all systems; ``name``: its file's, or its key."""

    dataset: CaptionExamples
    name: str
    image: Image.Image
    references: list[str]
    captions: Sequence[tuple[ShownCaptions, Mapping[str, Any]]]


def rows(plan: Context, name: str, block: Block) -> dict[str, Any]:
    """The values of the figure's job, and the jobs that it is made from (``jobs``)."""
    from mdc.plan.jobs import caption_jobs, caption_rows

    section, jobs = caption_jobs.captions_of(plan), dict[str, Any]()
    names = [name for name in section.datasets if name in block.datasets]
    datasets, lengths = [], caption_rows.lengths_of(plan, block, names)
    for name in names:
        dataset, own = section.datasets[name], block.rows_on(section, name)
        requests = caption_jobs.of_seed(plan, name, plan.scale.training.seeds[0])
        labels = {key: caption_rows.label_of(system, lengths) for key, system in own.items()}
        labels |= {key: other.label for key, other in block.external_on(section, name).items()}
        systems = []
        for key, label in labels.items():
            job = caption_jobs.captions(plan, requests[key])
            jobs[job.job] = job
            more = {"reveals": key in own and own[key].decode.kind != "beam", "pictured": key not in block.omit}
            systems.append({"key": key, "label": label, "record": job.job, **more})
        corpus = plan.corpus(dataset.corpus)
        jobs[corpus.job] = corpus
        datasets.append({"label": dataset.label, "corpus": corpus.job, "split": dataset.split, "systems": systems})
    return {"jobs": jobs, "datasets": datasets, "examples": block.examples, "seed": block.seed}


def make(job: ArtefactJob, manifests: Manifests, out: Path) -> None:
    """Write the figure's files into ``out``; UserError names a record that is missing, stale or of another scale."""
    datasets = [CaptionExamples.model_validate(dataset) for dataset in job.more["datasets"]]
    examples = [example for dataset in datasets for example in _examples(job, dataset, manifests)]
    _draw(job, examples, [out / f"{job.artefact}.png", out / f"{job.artefact}.pdf"])
    _page(job, datasets, examples, out / f"{job.artefact}.html")
    columns = ("scale", "dataset", "image", "system", "method", "caption", "record")
    lines = [
        (job.scale, example.dataset.label, example.name, system.key, system.label, row["caption"], system.record)
        for example in examples
        for system, row in example.captions
    ]
    write_csv(out / f"{job.artefact}.csv", [dict(zip(columns, line, strict=True)) for line in lines], columns)


def _examples(job: ArtefactJob, dataset: CaptionExamples, manifests: Manifests) -> Iterator[_Example]:
    """The captioned images that the seed draws, in order."""
    import numpy as np

    from mdc.data.formats.images import decode_named
    from mdc.data.shards.index import ShardReader, file_names

    captions = {system.key: _captions(job, system, manifests) for system in dataset.systems}
    keys = list(next(iter(captions.values())))
    count = min(job.more["examples"], len(keys))
    chosen = sorted(np.random.default_rng([job.more["seed"], 6]).choice(len(keys), size=count, replace=False).tolist())
    path = Path(manifests[dataset.corpus])
    reader = ShardReader(path, dataset.split)
    names = file_names(path, dataset.split, [keys[number] for number in chosen])
    for number in chosen:
        key, data, record = reader.read(number)
        if key != keys[number]:
            raise UserError(f"{path}: image {number} is {key}, and the captions are of {keys[number]}")
        image = decode_named(data, f"{path}: image {key}")
        own = [(system, captions[system.key][key]) for system in dataset.systems]
        yield _Example(dataset, names[key], image, list(record["captions"]), own)


def _captions(job: ArtefactJob, system: ShownCaptions, manifests: Manifests) -> dict[str, Mapping[str, Any]]:
    """The captions of a system by image."""
    from mdc.report.manifests import as_rows, table_of

    table = table_of(manifests, system.record, "captions.parquet")
    return {row["image"]: row for row in as_rows(table) if row["system"] == system.key}


def _draw(job: ArtefactJob, examples: Sequence[_Example], paths: Sequence[Path]) -> None:
    import numpy as np

    from mdc.report import words
    from mdc.report.figures.drawing import drawing, headline

    texts = [_text(example) for example in examples]
    heights = [max(1.7, 0.17 * (text.count("\n") + 1) + 0.25) for text in texts]
    with drawing(10.5, sum(heights) + 0.9, paths) as figure:
        grid: dict[str, Any] = {"width_ratios": [1, 5.2], "height_ratios": heights}
        panels = figure.subplots(len(heights), 2, squeeze=False, gridspec_kw=grid)
        for (picture, panel), example, text in zip(panels, examples, texts, strict=True):
            picture.imshow(np.asarray(example.image), interpolation="nearest")
            name = example.name if len(example.name) <= _NAME else f"…{example.name[1 - _NAME :]}"
            picture.set_title(f"{example.dataset.label} {_plain(name)}", fontsize=7, loc="left")
            picture.set_anchor("NW")
            picture.axis("off")
            panel.axis("off")
            panel.text(0, 1, text, va="top", ha="left", fontsize=8.5, linespacing=1.25, transform=panel.transAxes)
        headline(figure, f"{words.heading(job)} of images drawn by seed {job.more['seed']}", words.scale_text(job))


def _text(example: _Example) -> str:
    """The captions of an example."""
    lines = [f"{system.label}:  {row['caption']}" for system, row in example.captions if system.pictured]
    lines += [f"reference:  {example.references[0]}"]
    return "\n".join(textwrap.fill(_plain(line), _WIDTH, subsequent_indent="      ") for line in lines)


def _plain(text: str) -> str:
    """``text`` without what matplotlib reads as mathematics or its font lacks."""
    return "".join(letter if letter.isprintable() else "�" for letter in text).replace("$", r"\$")


def _page(job: ArtefactJob, shown_of: Sequence[CaptionExamples], examples: Sequence[_Example], path: Path) -> None:
    from mdc.report import words
    from mdc.report.tables.render import write_page

    datasets = []
    for dataset in shown_of:
        shown = [
            {
                "name": example.name,
                "image": _embedded(example.image),
                "references": example.references,
                "captions": [
                    {"label": system.label, "text": row["caption"], "pieces": _pieces(system, row)}
                    for system, row in example.captions
                ],
            }
            for example in examples
            if example.dataset is dataset
        ]
        caption = [
            f"{len(shown)} images drawn by seed {job.more['seed']}, with a caption by each system's first seed.",
            "The small number behind a BPE token says at which step it was shown; the deeper its colour, the surer the "
            "model was. Where there are no numbers, tokens were generated from left to right.",
        ]
        title = f"{words.heading(job)} of {dataset.label}, {words.scale_text(job)}"
        datasets.append({"title": title, "caption": caption, "examples": shown})
    rendering = "pixelated" if min(example.image.width for example in examples) < _SMALL else "auto"
    write_page(path, "captions.html.j2", title=words.heading(job), datasets=datasets, rendering=rendering)


def _pieces(system: ShownCaptions, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    if not system.reveals:
        return []
    pieces = []
    for text, step, confidence in zip(row["pieces"], row["step"], row["confidence"], strict=True):
        sure = math.exp(min(confidence, 0.0))
        # a token of a diffusion's random start that was kept has no step
        title = f"step {step}, probability {sure:.2f}" if step else "there from the start"
        pieces.append({"text": text, "step": step, "sure": round(60 * sure), "title": title})
    return pieces


def _embedded(image: Image.Image) -> str:
    data = io.BytesIO()
    image.save(data, "PNG")
    return f"data:image/png;base64,{base64.b64encode(data.getvalue()).decode()}"
