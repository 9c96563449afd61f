"""Zero-shot classification: scores against a plain loop, CLIP's against CLIP-benchmark's own, debiasing by hand, refusals."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import toy
from clip_benchmark.metrics import zeroshot_classification
from data_samples import write_probe
from PIL import Image
from test_option_scores import scorer

from mdc.app.clip_benchmark import BenchmarkModel
from mdc.data.formats.images import decode
from mdc.data.scenes.check import check_caption
from mdc.data.scenes.drawing import draw_scene
from mdc.data.scenes.language import class_phrases
from mdc.data.scenes.world import PROBE_CLASSES
from mdc.data.shards.index import ShardReader, read_index
from mdc.evaluation.predictors.caption_scores import Pair
from mdc.evaluation.predictors.score import RunScorer
from mdc.evaluation.zero_shot import Captions, ScoredProbe, class_names, class_texts, sampled, summary
from mdc.models.normalise import normalise
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.data import ClassCaptions, ProbeSet
from mdc.plan.records import UserError

TEMPLATES = ["a photo of a {class}", "the {class}"]
NAMES = ["red_fox", "old oak", "car", "blue sky"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of images by class, as a probe: eight training and twelve test images."""
    generator = torch.Generator().manual_seed(5)
    for split, count in (("train", 2), ("test", 3)):
        for name in NAMES:
            for number in range(count):
                pixels = torch.randint(0, 256, (16, 16, 3), generator=generator, dtype=torch.uint8)
                path = tmp_path / "own" / split / name / f"{number}.png"
                path.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(pixels.numpy()).save(path)
    write_probe("own", {"kind": "class_folder", "path": "own"}, tmp_path / "probe", tmp_path)
    return tmp_path / "probe/index.json"


def asked(path: Path, method: str, templates: list[str] | None = None, one: Any = None) -> ScoredProbe:
    one = one or scorer(method, samples=64)
    return ScoredProbe("own", one, Captions.of("own", read_index(path), ClassCaptions(templates=templates), one), 0)


def pictures(one: Any, path: Path, split: str) -> torch.Tensor:
    reader = ShardReader(path, split)
    return torch.stack([one.picture(decode(reader.read(number)[1])) for number in range(len(reader))])


@pytest.mark.parametrize("templates", [None, TEMPLATES])
@pytest.mark.parametrize("method", ["arc", "mdc"])
def test_scores_are_those_of_a_plain_loop(folder: Path, method: str, templates: list[str] | None) -> None:
    """Each image encoded anew for each caption, and each caption scored alone."""
    own = asked(folder, method, templates)
    one, reader = own.scorer, ShardReader(folder, "test")
    samples, found = own._score(reader, range(12))
    assert [label for _, label in samples] == [n // 3 for n in range(12)]
    used = templates or TEMPLATES[:1]
    texts = [text.replace("{class}", name.replace("_", " ")) for name in sorted(NAMES) for text in used]
    for estimator in one.estimators:
        assert found[estimator].shape == (12, len(texts))
        for image, picture in enumerate(pictures(one, folder, "test")):
            for place, text in enumerate(texts):
                draws = [own._draws(f"test/{image}")]
                (expected,) = one.score(estimator, one.look(picture[None]), [Pair(0, one.tokens(text))], draws)
                assert float(found[estimator][image, place]) == pytest.approx(expected.value, abs=1e-4, rel=1e-5)


@pytest.mark.parametrize("method", ["arc", "mdc"])
def test_debiased_scores_are_less_the_log_of_the_mean_probability_under_training_images(
    folder: Path, method: str
) -> None:
    own = asked(folder, method, TEMPLATES)
    train, test = (ShardReader(folder, split) for split in ("train", "test"))
    prior = own.prior(train, range(8))
    rows = own.classified(test, prior, range(12))
    assert len(rows) == 12 * len(own.scorer.estimators)
    _, of_train = own._score(train, range(8))
    _, of_test = own._score(test, range(12))
    for row in rows:
        number = [r["item"] for r in rows if r["estimator"] == row["estimator"]].index(row["item"])
        scores = of_test[row["estimator"]][number].tolist()
        before = of_train[row["estimator"]].tolist()
        means = [math.log(sum(math.exp(image[c]) for image in before) / 8) for c in range(len(scores))]
        plain = [sum(scores[2 * k : 2 * k + 2]) / 2 for k in range(4)]
        less = [plain[k] - sum(means[2 * k : 2 * k + 2]) / 2 for k in range(4)]
        assert (row["best"], row["debiased_best"]) == (plain.index(max(plain)), less.index(max(less)))
        assert (row["value"], row["debiased"]) == (row["best"] == row["label"], row["debiased_best"] == row["label"])
    told = summary(rows, 4)
    assert (told["n"], told["chance"], told["most_frequent"]) == (12, 25.0, 25.0)
    for estimator, top1 in told["top1"].items():
        for key in ("value", "debiased"):
            values = [row[key] for row in rows if row["estimator"] == estimator]
            assert top1[key] == pytest.approx(100 * sum(values) / 12)


@pytest.mark.parametrize("templates", [TEMPLATES[:1], TEMPLATES])
def test_clips_row_is_clip_benchmarks_own(folder: Path, templates: list[str]) -> None:
    """Its module on the same folder and the same model, image by image."""
    job = SimpleNamespace(method=toy.METHODS["clip"], method_name="clip", backbone=SimpleNamespace(image_size=16))
    names = [name.replace("_", " ") for name in sorted(NAMES)]
    texts = [one.replace("{class}", name) for name in names for one in templates]
    vocabulary = Vocabulary.corpus(*map(clip_pieces, texts))
    model = toy.build_model(toy.METHODS["clip"], toy.BACKBONE, toy.PROTOCOL, vocabulary.size, 16, 0).eval()
    run: Any = SimpleNamespace(job=job, vocabulary=vocabulary, context_length=16, checkpoint="toy", load=lambda: model)
    one = RunScorer(run, samples=16, precision="fp32", device=torch.device("cpu"))
    own, reader = asked(folder, "clip", templates, one), ShardReader(folder, "test")
    rows = own.classified(reader, {}, range(12))

    def tokenizer(lines: list[str]) -> torch.Tensor:
        found = torch.full((len(lines), 16), vocabulary.eot)
        for row, line in zip(found, lines, strict=True):
            ids = one.tokens(line)
            row[: len(ids)] = torch.tensor(ids)
        return found

    labels = torch.arange(12) // 3
    images = normalise(pictures(one, folder, "test"))

    class Loader(list[Any]):
        dataset = SimpleNamespace(classes=names)

    theirs = [text.replace("{class}", "{c}") for text in templates]
    peer = BenchmarkModel(model, "cls", vocabulary.eot, features=False)
    told = zeroshot_classification.evaluate(
        peer, Loader([(images, labels)]), tokenizer, names, theirs, "cpu", amp=False
    )
    classifier = zeroshot_classification.zero_shot_classifier(peer, tokenizer, names, theirs, "cpu", amp=False)
    logits, _ = zeroshot_classification.run_classification(peer, classifier, [(images, labels)], "cpu", amp=False)
    assert [row["best"] for row in rows] == logits.argmax(dim=1).tolist()
    torch.testing.assert_close(own._score(reader, range(12))[1]["cosine"].float(), logits / 100, atol=1e-5, rtol=0)
    assert summary(rows, 4)["top1"]["cosine"] == {"value": pytest.approx(100 * told["acc1"]), "debiased": None}


def test_images_are_drawn_at_random_from_classes_that_take_turns() -> None:
    assert sampled(3, 4) == [0, 1, 2] == sampled(3, None)
    found = sampled(1000, 500)
    assert (
        len(set(found)) == 500 and found == sorted(found) == sampled(1000, 500) and found[0] >= 0 and found[-1] < 1000
    )
    for classes in (2, 4, 8):  # every second image would have half of them
        counts = [sum(number % classes == label for number in found) for label in range(classes)]
        assert min(counts) > 0.7 * 500 / classes


# --- captions of classes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [task for task in PROBE_CLASSES if class_phrases(task)])
def test_a_phrase_of_the_grammar_holds_for_its_class_alone(task: str) -> None:
    phrases = class_phrases(task) or []
    assert len(phrases) == len(PROBE_CLASSES[task]) > 1
    for index in range(4 * len(phrases)):
        scene = draw_scene(task, "test", 3, index)
        holds = [check_caption(scene, phrase) == [] for phrase in phrases]
        assert holds == [n == index % len(phrases) for n in range(len(phrases))]


def test_templates_are_the_grammars_a_photo_of_open_clips_or_ones_own() -> None:
    def texts(kind: str, classes: Sequence[str], templates: Any = None, **source: str) -> list[list[str]]:
        return class_texts("p", {"kind": kind, **source}, classes, ClassCaptions(templates=templates))[1]

    shapes, photos = PROBE_CLASSES["shape"], ["tabby_cat", "dog"]
    assert texts("scenes", shapes, task="shape")[0] == ["a circle"]
    assert texts("scenes", shapes, ["{class}s"], task="shape")[:2] == [["circles"], ["squares"]]
    assert texts("builder", photos) == [["a photo of a tabby cat"], ["a photo of a dog"]]
    found = texts("builder", photos, "open_clip")
    assert len(found[1]) == 80 and found[1][0] == "a bad photo of a dog."
    seven = texts("builder", photos, "open_clip_simple")
    assert [len(of_class) for of_class in seven] == [7, 7] and seven[0][0] == "itap of a tabby cat."
    source = {"kind": "scenes", "task": "shape", "train": 8, "test": 8, "seed": 0, "pixels": 48}
    with pytest.raises(ValueError, match="'a photo' lacks"):
        ProbeSet.model_validate({"label": "x", "source": source, "class_captions": {"templates": ["a photo"]}})


def test_a_class_may_have_another_name_than_the_sets_own() -> None:
    """ImageNet's published names have missile and sunglasses twice."""
    index = {"classes": ["missile", "cat", "missile"]}
    assert class_names("p", index, ClassCaptions(names={"2": "projectile"})) == ["missile", "cat", "projectile"]
    with pytest.raises(UserError, match=r"class_captions\.names: there is no class 3; they are numbered 0 to 2"):
        class_names("p", index, ClassCaptions(names={"3": "projectile"}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"task": "multi"}, "probe p: its images have several labels each; zero-shot classification needs one"),
        ({"classes": ["dog", "Dog"]}, "probe p: the classes 'dog' and 'Dog' have one caption, 'a photo of a Dog'"),
        ({"classes": ["a_b", "a b"]}, "probe p: the classes 'a_b' and 'a b' have one caption"),
        ({"classes": ["dog", "dog"]}, "probe p: the classes 'dog' and 'dog' have one caption"),
        ({"classes": ["dog", "zebra"]}, "probe p, class 'zebra': the piece 'zebra' of the caption"),
        ({"source": {"kind": "scenes", "task": "background"}}, "probe p: the built-in world has no words for its"),
    ],
)
def test_classes_that_cannot_be_scored_are_one_line(changed: dict[str, Any], said: str) -> None:
    index = {"task": "single", "source": {"kind": "builder"}, "classes": ["dog", "Dog"], **changed}
    vocabulary = Vocabulary.corpus(clip_pieces("a photo of a dog b"))
    one: Any = SimpleNamespace(tokens=lambda text: vocabulary.encode_pieces(clip_pieces(text), 77))
    with pytest.raises(UserError) as caught:
        Captions.of("p", index, ClassCaptions(), one)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_an_image_that_cannot_be_read_is_named(folder: Path) -> None:
    own = asked(folder, "arc")
    with pytest.raises(UserError, match="probe own, image x: "):
        own._picture("x", io.BytesIO(b"no image").getvalue())
