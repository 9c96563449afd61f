"""What an edit reruns at scale paper: one line an edit, with the change itself and the jobs that it makes anew.

``docs/edits.md`` is this table in words (``python tests/support/edits.py`` writes it), and tests/pipeline/test_edits.py
makes every edit on a copy of the project in which everything is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from changed import put

from mdc.config import read_yaml

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs/edits.md"
SCALE = "paper"


class Sandbox:
    """The files of a copy of the project, which can be changed and put back. ``run``: Python code, with that copy's src."""

    def __init__(self, folder: Path, run: Callable[[str], None]) -> None:
        self.folder, self.run = folder, run
        self._before: dict[Path, str | None] = {}

    def write(self, path: str, text: str) -> None:
        place = self.folder / path
        self._before.setdefault(place, place.read_text() if place.is_file() else None)
        place.write_text(text)

    def append(self, path: str, text: str) -> None:
        self.write(path, (self.folder / path).read_text() + text)

    def replace(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        self.write(path, text.replace(old, new, 1))

    def set(self, *path: str, value: Any) -> None:
        """A value of params.yaml; None takes the key away."""
        values = put(read_yaml(self.folder / "params.yaml"), path, value)
        self.write("params.yaml", yaml.safe_dump(values, sort_keys=False))

    def undo(self) -> None:
        for path, text in self._before.items():
            if text is None:
                path.unlink()
            else:
                path.write_text(text)
        self._before.clear()


@dataclass(frozen=True)
class Edit:
    """``what`` is edited by ``change``; ``reruns`` says in words which jobs it makes anew: those of the patterns ``jobs``."""

    what: str
    reruns: str
    change: Callable[[Sandbox], None]
    jobs: tuple[str, ...] = ()


# --- changes ------------------------------------------------------------------------------------------------------------


def code(path: str) -> Callable[[Sandbox], None]:
    """One statement more in a module of src/mdc."""
    return lambda box: box.append(f"src/mdc/{path}", "\nEDITED = True\n")


def text(path: str, added: str) -> Callable[[Sandbox], None]:
    """Something more at the end of a file."""
    return lambda box: box.append(path, added)


def value(*path: str, to: Any) -> Callable[[Sandbox], None]:
    return lambda box: box.set(*path, value=to)


def words(path: str, old: str, new: str) -> Callable[[Sandbox], None]:
    return lambda box: box.replace(path, old, new)


def part(dictionary: str, module: str) -> Callable[[Sandbox], None]:
    """A new part: a module, and its line in a dictionary of mdc.parts."""

    def change(box: Sandbox) -> None:
        box.write(f"src/mdc/{module.replace('.', '/')}.py", "NEW = True\n")
        opening = f"\n{dictionary} = {{\n"
        box.replace("src/mdc/parts.py", opening, f'{opening}    "new": "mdc.{module}",\n')

    return change


def artefact(named: bool) -> Callable[[Sandbox], None]:
    """A table of the licences under a new name."""

    def change(box: Sandbox) -> None:
        box.write("src/mdc/report/tables/table99.py", "from mdc.report.tables.table9 import make\n")
        entry = '"table99": Artefact("mdc.report.tables.table99", "licences", "Tables", ("table99.csv",), {}, "More."),'
        box.replace("src/mdc/artefacts.py", "\nARTEFACTS = {\n", f"\nARTEFACTS = {{\n    {entry}\n")
        line = "    table9: Plain | None = None\n"
        box.replace("src/mdc/config/tables.py", line, line + line.replace("table9", "table99"))
        if named:
            box.set("scales", SCALE, "tables", "table99", value={})

    return change


def vouched(path: str) -> Callable[[Sandbox], None]:
    """An edit of code, and what `mdc vouch` writes about it."""

    def change(box: Sandbox) -> None:
        code(path)(box)
        box.write("vouched.json", '{"links": []}')
        box.run(
            "from pathlib import Path\n"
            "from mdc.config import load\n"
            "from mdc.jobs.vouched import Link, Vouched, write_vouched\n"
            "from mdc.jobs.folder import ScaleFolder\n"
            "from mdc.vouch import stale_by_code\n"
            f"place = ScaleFolder(Path('results/{SCALE}'))\n"
            "found, _ = stale_by_code(load('params.yaml'), Vouched(), place, Path('.state'), ['*'])\n"
            "assert found\n"
            "rest = dict(reason='the same numbers', date='2026-01-01', evidence='none')\n"
            "write_vouched([Link(verb=v, old=old, new=new, **rest) for v, old, new in found])\n"
        )

    return change


# --- jobs ---------------------------------------------------------------------------------------------------------------

#: probes of trained encoders
TRAINED = ("probe/cc*", "probe/recap*")
#: what is made from probes, from runs' logs, and from their configurations alone
PROBED = ("table1", "table4", "table5", "figure4", "figure5")
LOGGED = ("figure_loss", "figure_schedules")
RECIPES = ("table6", "table7", "table8")
#: scores of captions, and what is made from them
SCORES = ("scores/*", "retrieval/*", "positions/*")
SCORED = ("table2", "table_retrieval", "figure_position")
#: captions, and what is made from them; the floor needs no run
CAPTIONS = ("captions/cc12m/*", "metrics/mscoco/*", "metrics/flickr30k/*", "judged/*")
CAPTIONED = ("table3", "figure6")
#: the same of MC-Diffusion's part; and of what shows numbers that are measured of captions
BIRDS, DIFFUSED = ("captions/cub200/*", "metrics/codes*"), ("mcd_*",)
MEASURED = ("table3", "mcd_table*", "mcd_grid", "mcd_figure3")
#: what follows from all runs on pairs of the web, and from all runs
PAIR_RUNS = ("runs/cc*", "runs/recap*", *TRAINED, *PROBED, *LOGGED, *SCORES, *SCORED, *CAPTIONS, *CAPTIONED)
ALL_RUNS = (*PAIR_RUNS, "runs/cub200/*", *BIRDS, *DIFFUSED)


def of(*methods: str) -> tuple[str, ...]:
    """Runs of methods, and the probes of these."""
    return tuple(f"{layer}/*/{method}/s0" for layer in ("runs", "probe") for method in methods)


def scored(*methods: str) -> tuple[str, ...]:
    """Scores of methods' runs."""
    return tuple(f"{layer}/*/{method}/s0/*" for layer in ("scores", "retrieval") for method in methods)


def tuned(*methods: str) -> tuple[str, ...]:
    """What follows from finetuning methods' runs: those runs, their captions, what is measured and shown of them."""
    runs = tuple(f"runs/*/{method}/s0/ft-*" for method in methods)
    return (*runs, *(f"captions/cc12m/*/{method}/s0/*" for method in methods), *CAPTIONS[1:], *CAPTIONED)


#: what follows from MDC on codes, to which MC-Diffusion is compared
MATCHED = ("runs/cub200/matched/*", "captions/cub200/matched/*", "metrics/codes/s0", *DIFFUSED)
MASKED = of("mdc*", "bert_*", "parallel")
COCO = ("data/corpora/mscoco*", "data/choices/sugarcrepe_*", "data/choices/coco_order")

_REGISTRY = "src/mdc/registry"
_TEMPLATE = "src/mdc/report/templates/table.md.j2"
_RULE = ("workflow/rules/data.smk", '"mdc {params.verb} {input.config} 2> {log}"')

EDITS = (
    # --- code that decides nothing
    Edit("a comment, in `models/attention.py`", "nothing", text("src/mdc/models/attention.py", "\n# why this is so\n")),
    Edit(
        "a docstring, in `training/trainer.py`", "nothing", words("src/mdc/training/trainer.py", '"""', '"""Edited. ')
    ),
    Edit("`cli.py`", "nothing", code("cli.py")),
    Edit("`provenance/walk.py`", "nothing", code("provenance/walk.py")),
    Edit("`scenes/captions.py`", "nothing: no corpus of this scale is rendered", code("scenes/captions.py")),
    # --- new parts
    Edit("a new kind of source: a module, and its line in `parts.CORPORA`", "nothing", part("CORPORA", "sources.new")),
    Edit(
        "a new objective: a module, and its line in `parts.OBJECTIVES`", "nothing", part("OBJECTIVES", "objectives.new")
    ),
    Edit(
        "a new ability of predictors: a module, and its line in `parts.ABILITIES`",
        "nothing",
        part("ABILITIES", "predictors.new"),
    ),
    Edit(
        "a new module under `statistics/`",
        "nothing",
        lambda box: box.write("src/mdc/statistics/new.py", "NEW = True\n"),
    ),
    Edit(
        "a new table: a module, its entry in `artefacts.py` and its class in `config/tables.py`",
        "nothing",
        artefact(named=False),
    ),
    Edit("the same, and its name in the scale's `tables`", "the new table alone", artefact(named=True), ("table99",)),
    # --- the registry
    Edit(
        "a sentence about a licence in the registry",
        "Table 9",
        words(f"{_REGISTRY}/choices.py", "The images are MSCOCO's val2017.", "The images are of MSCOCO."),
        ("table9",),
    ),
    Edit(
        "a dataset's checksum in the registry (Flickr8k's)",
        "that dataset is obtained and checked again, and its corpus written",
        words(f"{_REGISTRY}/captioned.py", "f18a1e2920de5bd84dae7cf08ec78978", "0" * 32),
        ("data/obtained/flickr8k", "data/corpora/flickr8k"),
    ),
    # --- data
    Edit(
        "`sources/corpora/pairs.py`",
        "the corpora of this kind (all that encoders are trained on), and what is made from them",
        code("sources/corpora/pairs.py"),
        ("data/parts/*", "data/corpora/cc*", "data/corpora/recap*", *PAIR_RUNS, "figure3"),
    ),
    Edit(
        "`sources/corpora/karpathy.py`",
        "MSCOCO and Flickr30k as Karpathy split them, what is finetuned on them, their captions in other orders, and what "
        "scores these",
        code("sources/corpora/karpathy.py"),
        (
            *("data/corpora/mscoco", "data/corpora/flickr30k", "data/choices/*_order", "scores/*", "table2"),
            *("captions/floor/mscoco", "captions/floor/flickr30k", "captions/coca/*", *tuned("arc", "mdc")),
        ),
    ),
    Edit(
        "`sources/choices/sugarcrepe.py`",
        "its seven sets, their scores and Table 2",
        code("sources/choices/sugarcrepe.py"),
        ("data/choices/sugarcrepe_*", "scores/*", "table2"),
    ),
    Edit(
        "`sources/probes/builder.py`",
        "the probe sets, all probes, and what shows them; no run",
        code("sources/probes/builder.py"),
        ("data/probes/*", "probe/*", *PROBED),
    ),
    Edit(
        "`shards/writer.py`",
        "every set of images, and all that is made from them",
        code("shards/writer.py"),
        (
            *("data/parts/*", "data/corpora/*", "data/probes/*", "data/choices/*", "encoded/*", "image-tokens/*"),
            *(*ALL_RUNS, "probe/*", "captions/*", "figure3"),
        ),
    ),
    # --- training
    Edit(
        "`objectives/masked.py`",
        "the runs of masked methods, their probes and scores, all scores by position, and what shows these",
        code("objectives/masked.py"),
        (*MASKED, *scored("mdc"), "positions/*", *PROBED, *LOGGED, *SCORED, *tuned("mdc"), *MATCHED),
    ),
    Edit(
        "`objectives/autoregressive.py`",
        "ARC's runs, their probes and scores, Tables 1 and 2, retrieval, and the figures of losses and positions",
        code("objectives/autoregressive.py"),
        (*of("arc*"), *scored("arc"), "positions/*/arc*/s0/*", "table1", "figure_loss", *SCORED, *tuned("arc")),
    ),
    Edit(
        "`objectives/contrastive.py`",
        "the runs of CLIP and CLIP-LB, their probes and scores, Tables 1 and 2, retrieval, and the figure of losses",
        code("objectives/contrastive.py"),
        (*of("clip*"), *scored("clip"), "table1", "figure_loss", "table2", "table_retrieval"),
    ),
    Edit(
        "`objectives/captioning.py`",
        "what masked methods and ARC share: their runs, probes and scores, and what shows these",
        code("objectives/captioning.py"),
        (
            *(*MASKED, *of("arc*"), *scored("mdc", "arc"), "positions/*", *PROBED, *LOGGED, *SCORED),
            *(*tuned("arc", "mdc"), *MATCHED),
        ),
    ),
    Edit(
        "`objectives/mask_and_replace.py`",
        "MC-Diffusion's runs, the figure of losses, their captions, and what is measured and shown of these",
        code("objectives/mask_and_replace.py"),
        ("runs/cub200/*/mcd*", "captions/cub200/*/mcd*", "metrics/codes*", *DIFFUSED, "figure_loss"),
    ),
    Edit(
        "`precompute/image_tokens.py`",
        "the codes of images, what is trained on them, its captions, and what is measured and shown of these",
        code("precompute/image_tokens.py"),
        (
            *(
                "image-tokens/*",
                *(f"{one}/cub200/{on}/*" for one in ("runs", "captions") for on in ("on-codes", "matched")),
            ),
            *("metrics/codes*", *DIFFUSED, "figure_loss"),
        ),
    ),
    Edit(
        "`models/encoder.py`",
        "all runs, all probes (of untrained encoders too), all scores, and what shows these",
        code("models/encoder.py"),
        (*ALL_RUNS, "probe/*"),
    ),
    Edit(
        "`training/trainer.py`",
        "all runs, the probes of trained encoders, all scores, and what shows these",
        code("training/trainer.py"),
        ALL_RUNS,
    ),
    Edit("`training/run.py`", "the same jobs as `training/trainer.py`", code("training/run.py"), ALL_RUNS),
    Edit(
        "`training/run.py`, vouched for (`mdc vouch`) as an edit that changes no result",
        "nothing",
        vouched("training/run.py"),
    ),
    # --- evaluation
    Edit(
        "`predictors/encode.py`",
        "all probes, and what shows them; no run",
        code("predictors/encode.py"),
        ("probe/*", *PROBED),
    ),
    Edit(
        "`evaluation/linear_probe.py`",
        "all probes, and what shows them; no run",
        code("evaluation/linear_probe.py"),
        ("probe/*", *PROBED),
    ),
    Edit(
        "`predictors/caption_scores.py`",
        "all scores of captions, and what shows them; CLIPScore, and the tables and the figure that show it; no run",
        code("predictors/caption_scores.py"),
        (*SCORES, *SCORED, "metrics/*", *MEASURED),
    ),
    Edit(
        "`predictors/writing.py`",
        "all captions but the floor, what is measured of them, and what shows them; no run",
        code("predictors/writing.py"),
        (*CAPTIONS, *CAPTIONED, *BIRDS, *DIFFUSED),
    ),
    Edit(
        "`captions/metrics.py`",
        "what is measured of captions, and the tables and the figure that show it",
        code("captions/metrics.py"),
        ("metrics/*", *MEASURED),
    ),
    Edit(
        "`evaluation/choices.py`",
        "the scores of choice sets, and Table 2",
        code("evaluation/choices.py"),
        ("scores/*", "table2"),
    ),
    Edit(
        "`statistics/verdicts.py`",
        "what compares methods",
        code("statistics/verdicts.py"),
        (*PROBED, "figure_schedules", *SCORED, *CAPTIONED, *DIFFUSED),
    ),
    # --- tables and figures
    Edit("`report/tables/table1.py`", "Table 1", code("report/tables/table1.py"), ("table1",)),
    Edit("`report/tables/table2.py`", "Table 2", code("report/tables/table2.py"), ("table2",)),
    Edit(
        "`report/tables/table3.py`",
        "the tables of captions: Table 3, and those of MC-Diffusion",
        code("report/tables/table3.py"),
        ("table3", "mcd_table*", "mcd_grid"),
    ),
    Edit(
        "`report/tables/render.py`",
        "the tables, and examples of captions, which have a page; no other figure",
        code("report/tables/render.py"),
        ("table*", "figure6", "mcd_table*", "mcd_grid", "mcd_examples"),
    ),
    Edit(
        "a template of tables, `report/templates/table.md.j2`",
        "the tables, and examples of captions, which have a page; no other figure",
        text(_TEMPLATE, "\n"),
        ("table*", "figure6", "mcd_table*", "mcd_grid", "mcd_examples"),
    ),
    Edit("`report/figures/figure4.py`", "Figure 4", code("report/figures/figure4.py"), ("figure4",)),
    Edit(
        "`records.py`, how files are read and written",
        "everything, since every job runs it",
        code("records.py"),
        ("*",),
    ),
    # --- params.yaml
    Edit(
        "a new corpus in the scale's `data.corpora`",
        "its own index, if others read the dataset in the same manner; otherwise its shards too",
        value(
            *("scales", SCALE, "data", "corpora", "more"),
            to={
                "label": "More",
                "source": {"kind": "pairs", "dataset": "recap_datacomp_1b", "pairs": 1000, "val_share": 0.001},
            },
        ),
        ("data/corpora/more",),
    ),
    Edit(
        "a value of one method (`methods.mdc.t_range`)",
        "its runs, their probes and scores, and what shows these",
        value("methods", "mdc", "t_range", to=[0.35, 0.95]),
        (*of("mdc"), *scored("mdc"), "positions/*/mdc/s0/*", *PROBED, *LOGGED, *SCORED, *tuned("mdc"), *MATCHED),
    ),
    Edit(
        "a method's label (`methods.arc.label`)",
        "the tables and figures that show it",
        value("methods", "arc", "label", to="Autoregressive"),
        ("table1", "figure_loss", *RECIPES, *SCORED),
    ),
    Edit(
        "a corpus's label (`data.corpora.cc12m.label`)",
        "the tables and figures that show it",
        value("scales", SCALE, "data", "corpora", "cc12m", "label", to="Conceptual 12M"),
        ("table1", "table4", *RECIPES, "figure3", "figure4", "figure_loss", *SCORED),
    ),
    Edit(
        "the learning rate (`pretrain.recipe.lr`)",
        "the runs that no override gives one of their own, their probes and scores, and what shows these",
        value("scales", SCALE, "pretrain", "recipe", "lr", to=0.0004),
        (
            *("runs/*/ViT-B-*", *(f"{one}/ViT-B-*" for one in TRAINED), *SCORES),
            *(*PROBED, *LOGGED, *SCORED, "table6", "table7", *CAPTIONS, *CAPTIONED),
        ),
    ),
    Edit(
        "when a finetuning stops (`finetune.mscoco.patience`)",
        "the runs that are finetuned so, their captions, and what is measured and shown of these",
        value("scales", SCALE, "finetune", "mscoco", "patience", to=5),
        ("runs/*/ft-mscoco", "captions/*/ft-mscoco/*", "metrics/mscoco/s0", "judged/mscoco/s0", *CAPTIONED),
    ),
    Edit(
        "one seed more (`pretrain.seeds`)",
        "its runs, probes and scores, and the tables and figures; what the first seed made stays",
        value("scales", SCALE, "pretrain", "seeds", to=[0, 1]),
        (
            *(
                "runs/*/s1",
                "runs/*/s1/ft-*",
                "probe/*/s1",
                *(f"{one}/s1/*" for one in SCORES),
                *PROBED,
                *LOGGED,
                *SCORED,
            ),
            *("captions/*/s1/*", "metrics/*/s1", "judged/*/s1", "table3", "mcd_table*", "mcd_figure3"),
        ),
    ),
    Edit(
        "how many processes share a run (`pretrain.recipe.processes`)",
        "the finished runs, their probes and scores, and what shows these; a run that was killed resumes",
        value("scales", SCALE, "pretrain", "recipe", "processes", to=4),
        ALL_RUNS,
    ),
    Edit(
        "how a run proceeds (`pretrain.runtime`)",
        "nothing",
        value("scales", SCALE, "pretrain", "runtime", "save_every", to=600),
    ),
    Edit(
        "how a probe's job proceeds (`probe.runtime`)",
        "nothing",
        value("scales", SCALE, "probe", "runtime", "workers", to=6),
    ),
    Edit(
        "with how many processes shards are written (`data.runtime.processes`)",
        "nothing",
        value("scales", SCALE, "data", "runtime", "processes", to=4),
    ),
    Edit(
        "how fast is downloaded (`data.download.runtime`)",
        "nothing",
        value("scales", SCALE, "data", "download", "runtime", "threads", to=8),
    ),
    Edit(
        "the probes' learning rate (`probe.lr`)",
        "all probes, and what shows them",
        value("scales", SCALE, "probe", "lr", to=0.2),
        ("probe/*", *PROBED),
    ),
    Edit(
        "how many masks a score is drawn with (`score.samples`)",
        "all scores of captions, and what shows them",
        value("scales", SCALE, "score", "samples", to=256),
        (*SCORES, *SCORED),
    ),
    Edit(
        "in how many steps MC-Diffusion writes (`mc_diffusion.steps`)",
        "its captions, and what is measured and shown of these; no run",
        value("scales", SCALE, "mc_diffusion", "steps", to=50),
        ("captions/cub200/*/mcd*", "metrics/codes*", *DIFFUSED),
    ),
    Edit(
        "the tokenizer of images (`tokenizers.vqgan.path`)",
        "what it is made from and makes, and all that is trained on it",
        value("scales", SCALE, "tokenizers", "vqgan", "path", to="other.ckpt"),
        (
            *("tokenizers/*", "encoders/*", "image-tokens/*", "encoded/*"),
            *(f"{one}/cub200/{on}/*" for one in ("runs", "captions") for on in ("on-codes", "before-codes", "matched")),
            *("metrics/codes*", *DIFFUSED, "figure_loss"),
        ),
    ),
    Edit(
        "which differences Table 1 shows (`tables.table1.contrasts`)",
        "Table 1",
        lambda box: _fewer_contrasts(box),
        ("table1",),
    ),
    Edit(
        "the level of intervals (`protocol.statistics.level`)",
        "what shows intervals",
        value("protocol", "statistics", "level", to=0.9),
        (*PROBED, "figure_schedules", *SCORED, *MEASURED),
    ),
    Edit(
        "a table that the scale names no more (`tables.table4`)",
        "the figure of losses, which shows the runs of all others",
        value("scales", SCALE, "tables", "table4", to=None),
        ("figure_loss",),
    ),
    # --- the workflow
    Edit("a reformatted shell line in a rule", "nothing", words(_RULE[0], _RULE[1], _RULE[1].replace(" ", "  "))),
    Edit(
        "a profile",
        "nothing",
        words("workflow/profiles/default/config.yaml", "printshellcmds: false", "printshellcmds: true"),
    ),
)


def _fewer_contrasts(box: Sandbox) -> None:
    table = read_yaml(box.folder / "params.yaml")["scales"][SCALE]["tables"]["table1"]
    box.set("scales", SCALE, "tables", "table1", "contrasts", value=table["contrasts"][1:])


def page() -> str:
    """The table as docs/edits.md."""
    lines = [f"| {edit.what} | {edit.reruns} |" for edit in EDITS]
    return "\n".join(
        [
            "# What an edit reruns",
            "",
            "A job runs again if its configuration changed. Its configuration holds the values of `params.yaml` that decide",
            "its result, and a fingerprint of the code that it runs: of its own objective, its own kind of source and so on.",
            "Comments, docstrings and line breaks are no part of a fingerprint. What is made from a job that runs again is",
            "made again, too.",
            "",
            "The table is of scale `paper`, with everything made. Paths start at `src/mdc`. Keys belong to the scale, except",
            "`methods.*` and `protocol.*`. `tests/pipeline/test_edits.py` makes every one of these edits and compares what",
            "`snakemake -n` would do.",
            "",
            "| edit | reruns |",
            "|---|---|",
            *lines,
            "",
        ]
    )


if __name__ == "__main__":
    DOCS.write_text(page(), encoding="utf-8")
