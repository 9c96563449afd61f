"""Every table and figure: what makes it, what it is made from, its files, its title and its caption.

The command line, the workflow's rules and its report, DVC's stages, ``mdc verify`` and the tests' stand-ins all read this
one dictionary. A new one is a module under :mod:`mdc.report`, an entry here, its class in :mod:`mdc.plan.config.tables` and
its name in dvc.yaml. It imports nothing, so that every start of Snakemake can afford it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Artefact:
    """One table or figure.

    ``module``: its ``make(job, given, out)`` writes the files. ``plan``: how its job follows from params.yaml (a key of
    ``mdc.plan.jobs.artefact_plans``). ``files``: what it writes into its folder besides its record, NAME.json; the first is
    the one to ask the workflow for. ``shown``: of these, what the workflow's report shows, each with its title there.
    ``caption``: what the report says below; ``{scale}`` is filled in.
    """

    module: str
    plan: str
    category: Literal["Tables", "Figures"]
    files: tuple[str, ...]
    shown: dict[str, str]
    caption: str

    @property
    def target(self) -> str:
        """The file of ``results/`` to ask the workflow for."""
        return self.files[0]


def _files(stem: str, endings: str) -> tuple[str, ...]:
    return tuple(f"{stem}{ending}" for ending in endings.split())


def _method_table(name: str, title: str) -> Artefact:
    return Artefact(
        "mdc.report.tables.method_table",
        "probing",
        "Tables",
        _files(name, ".csv _long.csv _contrasts.csv .html .md .tex"),
        {f"{name}.html": title},
        "Methods by corpora at scale {scale}: linear probes in per cent with intervals, beside the same encoder before "
        "training, and the differences that were named beforehand.",
    )


def _recipe_table(name: str) -> Artefact:
    return Artefact(
        "mdc.report.tables.recipes",
        "recipes",
        "Tables",
        _files(name, ".csv .html .md .tex"),
        {f"{name}.html": f"Table {name.removeprefix('table')}: hyper-parameters"},
        "How the runs of one backbone are trained at scale {scale}, read from their own resolved configurations (the paper's "
        "Tables 6 to 8).",
    )


_DIFFUSION = (
    "Captions by mask-and-replace diffusion at scale {scale} (MC-Diffusion) held against references, by the metrics of the "
    "COCO caption challenge and by CLIPScore; what of them is true, where it is known; the same models on other images."
)


def _caption_view(name: str, title: str, caption: str = _DIFFUSION, more: str = "") -> Artefact:
    return Artefact(
        "mdc.report.tables.table3",
        "caption_view",
        "Tables",
        _files(name, f".csv _long.csv _contrasts.csv _sets.csv {more} .html .md .tex"),
        {f"{name}.html": title},
        caption,
    )


def _claim(name: str, title: str, of_what: str, more: str = "") -> Artefact:
    caption = (
        f"{of_what} at scale {{scale}}, held against references, by the metrics of the COCO caption challenge and by CLIPScore; "
        "what of the captions is true, where it is known."
    )
    return _caption_view(name, title, caption, more)


ARTEFACTS = {
    "table1": Artefact(
        "mdc.report.tables.table1",
        "probing",
        "Tables",
        (
            *_files("table1", ".csv _long.csv _contrasts.csv .html .md .tex"),
            *_files("figure_table1", ".png .svg"),
            "table1_metrics.json",
        ),
        {"table1.html": "Table 1: linear probing", "figure_table1.png": "Figure: what training adds"},
        "Linear-probe accuracy (or mean average precision) at scale {scale}, in per cent, of every method and backbone with "
        "intervals, beside the same encoder before training: the gains over it, and the differences between methods "
        "and between corpora that were named beforehand.",
    ),
    "table2": Artefact(
        "mdc.report.tables.table2",
        "choices",
        "Tables",
        _files("table2", ".csv _long.csv _contrasts.csv _kept.csv _errors.csv .html .md .tex"),
        {"table2.html": "Table 2: compositionality"},
        "How often the right caption scores higher than wrong ones at scale {scale}, in per cent, of every model and estimator, "
        "beside the same model with other images, with no image, and beside the rule that the shorter caption wins.",
    ),
    "table3": Artefact(
        "mdc.report.tables.table3",
        "captions",
        "Tables",
        _files("table3", ".csv _long.csv _contrasts.csv _sets.csv .html .md .tex"),
        {"table3.html": "Table 3: captioning"},
        "Captions at scale {scale} held against references, by the metrics of the COCO caption challenge and by CLIPScore; what "
        "of them is true where that is known; their length, variety and content words; beside the most frequent training "
        "caption and the same captioner on other images.",
    ),
    "table4": _method_table("table4", "Table 4: ablation on t"),
    "table5": _method_table("table5", "Table 5: noise schedules"),
    "table6": _recipe_table("table6"),
    "table7": _recipe_table("table7"),
    "table8": _recipe_table("table8"),
    "table9": Artefact(
        "mdc.report.tables.table9",
        "licences",
        "Tables",
        _files("table9", ".csv _long.csv .html .md .tex"),
        {"table9.html": "Table 9: licences"},
        "The licence of every dataset, as the paper's Table 9 prints it and as the dataset's own page has it. The same at "
        "every scale.",
    ),
    "figure3": Artefact(
        "mdc.report.figures.figure3",
        "lengths",
        "Figures",
        _files("figure3", ".png .svg .pdf .csv _summary.csv"),
        {"figure3.png": "Figure 3: caption lengths"},
        "Caption lengths in CLIP tokens, SOT and EOT counted, of the corpora of scale {scale} (the paper's Figure 3). The "
        "line is the context's length, beyond which captions are cut.",
    ),
    "figure4": Artefact(
        "mdc.report.figures.figure4",
        "probing",
        "Figures",
        _files("figure4", ".png .svg .pdf .csv _contrasts.csv"),
        {"figure4.png": "Figure 4: mask ratios"},
        "Linear-probe accuracy at scale {scale} over the share of a caption that is masked, the same for all captions (the "
        "paper's image-conditioned BERT; at 100 % parallel decoding), against MDC, which draws the share anew; with "
        "intervals, one panel for each corpus.",
    ),
    "figure5": Artefact(
        "mdc.report.figures.figure5",
        "probing",
        "Figures",
        _files("figure5", ".png .svg .pdf .csv _trend.csv"),
        {"figure5.png": "Figure 5: numbers of pairs"},
        "Linear-probe accuracy at scale {scale} over the number of pairs of nested corpora, with intervals, and the "
        "points that a doubling adds. Each corpus is trained on for the same number of epochs, so samples seen grow with the "
        "pairs, and the warm-up takes a larger share of a smaller corpus's steps: the trend is of all three together, as in "
        "the paper.",
    ),
    "figure6": Artefact(
        "mdc.report.figures.figure6",
        "caption_examples",
        "Figures",
        _files("figure6", ".png .pdf .html .csv"),
        {"figure6.png": "Figure 6: captions", "figure6.html": "Figure 6: captions, and the order of their words"},
        "Images drawn by seed at scale {scale}, with the captions of all systems (the paper's Figure 6). The page also shows the "
        "order in which masked models revealed each word piece, and how sure they were.",
    ),
    "figure_loss": Artefact(
        "mdc.report.figures.losses",
        "losses",
        "Figures",
        _files("figure_loss", ".png .svg .csv"),
        {"figure_loss.png": "Figure: losses"},
        "Training and held-out loss of every run at scale {scale}, in nats. Levels of different methods do not compare, since "
        "they are losses of different things.",
    ),
    "figure_schedules": Artefact(
        "mdc.report.figures.schedules",
        "schedules",
        "Figures",
        _files("figure_schedules", ".png .svg .csv _curves.csv"),
        {"figure_schedules.png": "Figure: steadiness of the noise schedules"},
        "How steadily the runs of Table 5 train at scale {scale}: loss and gradient norm (before clipping) over steps, and how "
        "much each varies around its trend after warm-up, one noise schedule beside the other.",
    ),
    "figure_position": Artefact(
        "mdc.report.figures.positions",
        "positions",
        "Figures",
        _files("figure_position", ".png .svg .csv _claims.csv _gradients.csv"),
        {"figure_position.png": "Figure: what the image tells, by position"},
        "What the image adds to the log probability of a caption's token at scale {scale}, by the token's relative position: in "
        "the model's own contexts, and with the tokens before it shown and all others masked; and the norm of the loss's "
        "gradient at the visual tokens.",
    ),
    "table_retrieval": Artefact(
        "mdc.report.tables.retrieval",
        "retrieval",
        "Tables",
        _files("table_retrieval", ".csv _long.csv _contrasts.csv .html .md .tex"),
        {"table_retrieval.html": "Retrieval by score"},
        "Recall at 1, 5 and 10 among held-out pairs at scale {scale}, in both directions, by every model's score.",
    ),
    "mcd_table1": _caption_view("mcd_table1", "MC-Diffusion, table 1: without guidance"),
    "mcd_examples": Artefact(
        "mdc.report.figures.figure6",
        "caption_examples_of",
        "Figures",
        _files("mcd_examples", ".png .pdf .html .csv"),
        {
            "mcd_examples.png": "MC-Diffusion, table 2: examples",
            "mcd_examples.html": "MC-Diffusion: examples, and their order",
        },
        "Images drawn by seed at scale {scale}, with captions by mask-and-replace diffusion (MC-Diffusion, table 2). The page "
        "also shows at which stride each word piece came.",
    ),
    "mcd_table3": _caption_view("mcd_table3", "MC-Diffusion, table 3: classifier-free guidance"),
    "mcd_table4": _caption_view("mcd_table4", "MC-Diffusion, table 4: masked-condition guidance"),
    "mcd_grid": _caption_view("mcd_grid", "MC-Diffusion: orientation and mask draw"),
    "mcd_figure3": Artefact(
        "mdc.report.figures.guidance",
        "guidance",
        "Figures",
        _files("mcd_figure3", ".png .svg .pdf .csv _claims.csv"),
        {"mcd_figure3.png": "MC-Diffusion, figure 3: guidance"},
        "CLIPScore of captions over each of their metrics against references at scale {scale}, by the scale of guidance "
        "(MC-Diffusion, figure 3), and the differences between kinds of guidance at equal CIDEr.",
    ),
    "table_ratio": _claim(
        "table_ratio",
        "Mask ratios and captions",
        "Captions by models that were trained at one mask ratio each, and by MDC",
    ),
    "table_conditioning": _claim(
        "table_conditioning",
        "Regions or the whole image",
        "Captions by models whose decoder reads every patch of an image, the means of regions, or one vector",
    ),
    "table_baselines": _claim(
        "table_baselines",
        "A CNN with an LSTM",
        "Captions by an LSTM that attends to a convolutional encoder, and by transformers on that encoder and on a ViT",
    ),
    "table_cnn": _method_table("table_cnn", "Probes of a convolutional encoder"),
    "figure_repetition": Artefact(
        "mdc.report.figures.repetition",
        "probing",
        "Figures",
        _files("figure_repetition", ".png .svg .pdf .csv _contrasts.csv _losses.csv"),
        {"figure_repetition.png": "Many passes over few pairs"},
        "Linear-probe accuracy and held-out loss at scale {scale} over the samples that a run has seen: the same pairs again and "
        "again, each number of passes a run of its own, or fresh pairs; with intervals, and the differences between methods "
        "that were named beforehand.",
    ),
    "table_relations": _method_table("table_relations", "Who learns relations"),
    "table_shapes": _method_table("table_shapes", "Who learns shapes"),
    "table_guidance": _claim(
        "table_guidance", "Guidance by CLIP", "Captions by MDC in each piece of which a CLIP has a say, by its weight"
    ),
    "table_few": _claim(
        "table_few",
        "Few examples",
        "Captions by pretrained captioners that saw a few examples of another domain, or none",
    ),
    "table_splits": _claim(
        "table_splits", "Several splits", "Captions by runs on several random splits of the same images", "_over.csv"
    ),
    "figure_robustness": Artefact(
        "mdc.report.figures.robustness",
        "robustness",
        "Figures",
        _files("figure_robustness", ".png .svg .pdf .csv _claims.csv"),
        {"figure_robustness.png": "Figure: captions of worse and worse images"},
        "How fast captions become worse as test images do at scale {scale}: Gaussian noise, blur, JPEG and cut-out in five "
        "strengths, a curve a captioner, with intervals.",
    ),
}
