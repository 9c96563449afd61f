"""``model.classify`` and ``mdc zero-shot`` on the runs of a small project: the job's answers for its own classes, a person's
classes, and what is refused."""

import csv
import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest
import torch
from PIL import Image
from small_project import ARC, CLIP, MDC

import mdc
from mdc.app.cli import main
from mdc.data.formats.images import decode
from mdc.data.shards.index import ShardReader, read_index

COLOURS = ["red", "blue", "green"]
TEMPLATES = ["{class}", "a {class} star"]


@pytest.fixture
def photos(pictures: list[Path]) -> list[Image.Image]:
    return [decode(file.read_bytes()) for file in pictures]


@pytest.mark.parametrize(("run", "estimator"), [(MDC, "heuristic"), (ARC, "likelihood"), (CLIP, "cosine")])
def test_it_finds_what_the_job_finds(r: Path, run: str, estimator: str) -> None:
    place = r / "data/probes/colour"
    classes, reader = read_index(place, verify="auto", kind="probe")["classes"], ShardReader(place, "test")
    images = {key: decode(data) for key, data, _ in (reader.read(number) for number in range(len(reader)))}
    rows = parquet.read_table(r / f"zero-shot/{run}/last/items.parquet").to_pylist()
    told = {row["item"]: row["best"] for row in rows if (row["probe"], row["estimator"]) == ("colour", estimator)}
    asked = [image for key, image in images.items() if key in told]
    assert len(asked) == 20
    found = mdc.load(run, scale=r.name).classify(asked, classes, TEMPLATES, estimator=estimator)
    assert [one.label for one in found] == [classes[told[key]] for key in images if key in told]


@pytest.mark.parametrize(("run", "estimator"), [(MDC, "monte_carlo"), (MDC, "parallel"), (ARC, None)])
def test_scores_are_means_over_templates_and_probabilities_their_softmax(
    r: Path, photos: list[Image.Image], run: str, estimator: str | None
) -> None:
    model = mdc.load(run, scale=r.name)
    found = model.classify(photos, COLOURS, TEMPLATES, estimator=estimator, samples=32, seed=3)
    for image, one in zip(photos, found, strict=True):
        captions = [text.replace("{class}", name) for name in COLOURS for text in TEMPLATES]
        plain = torch.tensor([x.score for x in model.score(image, captions, estimator, samples=32, seed=3)])
        wanted = plain.view(3, 2).mean(dim=1)
        torch.testing.assert_close(torch.tensor([*one.scores.values()]), wanted, atol=1e-4, rtol=0)
        assert list(one.scores) == COLOURS and one.label == max(one.scores, key=lambda name: one.scores[name])
        assert one.probabilities is not None
        shares = torch.tensor([*one.probabilities.values()])
        torch.testing.assert_close(shares, wanted.softmax(0), atol=1e-4, rtol=0)
    assert model.classify(
        photos[1], COLOURS, TEMPLATES, estimator=estimator, samples=32, seed=3
    ).scores == pytest.approx(found[1].scores, abs=1e-4)


def test_a_clips_probabilities_have_its_temperature(r: Path, photos: list[Image.Image]) -> None:
    model, image = mdc.load(CLIP, scale=r.name), photos[0]
    one = model.classify(image, COLOURS, "{class}")
    cosines = torch.tensor([x.score for x in model.score(image, COLOURS)])
    torch.testing.assert_close(torch.tensor([*one.scores.values()]), cosines, atol=1e-5, rtol=0)
    scale = model.run.load().logit_scale.exp().item()
    assert scale > 2 and one.probabilities is not None
    torch.testing.assert_close(
        torch.tensor([*one.probabilities.values()]), (scale * cosines).softmax(0), atol=1e-4, rtol=0
    )


def test_a_debiased_score_is_less_the_log_of_the_mean_probability_with_held_out_images(
    r: Path, photos: list[Image.Image]
) -> None:
    model, image = mdc.load(ARC, scale=r.name), photos[0]
    (own,) = model.classify([image], COLOURS, "a {class}")
    (less,) = model.classify([image], COLOURS, "a {class}", debiased=True)
    reader = ShardReader(r / "data/corpora/alt", "val")
    others = [decode(reader.read(number)[1]) for number in range(len(reader))]
    prior = torch.tensor([[*one.scores.values()] for one in model.classify(others, COLOURS, "a {class}")])
    wanted = torch.tensor([*own.scores.values()]) - (prior.logsumexp(0) - math.log(len(others)))
    torch.testing.assert_close(torch.tensor([*less.scores.values()]), wanted, atol=1e-4, rtol=0)
    assert less.debiased and not own.debiased


def test_estimators_that_are_no_probability_have_none(r: Path, photos: list[Image.Image]) -> None:
    one = mdc.load(MDC, scale=r.name).classify(photos[0], COLOURS, "{class}", estimator="monte_carlo_range")
    assert one.probabilities is None and one.label in COLOURS


def test_tokens_outside_the_vocabulary_are_one_warning(r: Path, photos: list[Image.Image]) -> None:
    model, image = mdc.load(ARC, scale=r.name), photos[0]
    with pytest.warns(UserWarning, match="zebra") as told:
        one = model.classify(image, ["red zebra", "blue"], "a {class}")
    assert len(told) == 1 and any("zebra" in tokens for tokens in one.unknown.values())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = model.classify(image, ["red", "blue"], "a {class}")
    assert [*one.scores.values()] == pytest.approx([*known.scores.values()], abs=1e-5)


@pytest.mark.parametrize(
    ("classes", "templates", "options", "why"),
    [
        (["red"], None, {}, "at least two"),
        ([], None, {}, "at least two"),
        ("red, blue", None, {}, "needed: a list"),
        (["red", "blue", " red"], None, {}, "'red': is given twice"),
        (["red", "zebra", "lynx"], "a {class}", {}, "wholly outside .*'zebra', 'lynx'"),
        (["red", "red zebra"], "a {class}", {}, "one caption to this model"),
        (["red", "..."], "a {class}", {}, r"'\.\.\.'"),
        (COLOURS, "a colour", {}, "lacks {class}"),
        (COLOURS, ["a {class}", "a {class}"], {}, "is given twice"),
        (COLOURS, [], {}, "templates: none"),
        (COLOURS, None, {"samples": 7}, "multiple of 16"),
        (COLOURS, None, {"estimator": "cosine"}, "no estimator 'cosine'"),
    ],
)
def test_what_cannot_be_told_apart_is_one_line(
    r: Path, photos: list[Image.Image], classes: Any, templates: Any, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(mdc.UserError, match=why) as error:
        mdc.load(ARC, scale=r.name).classify(photos[0], classes, templates, **options)
    assert "\n" not in str(error.value)


def test_a_clip_has_no_language_prior(r: Path, photos: list[Image.Image]) -> None:
    with pytest.raises(mdc.UserError, match="debiased: a cosine is no probability"):
        mdc.load(CLIP, scale=r.name).classify(photos[0], COLOURS, debiased=True)


@pytest.mark.filterwarnings("ignore:not in this model's vocabulary")
def test_the_verb_says_what_the_model_says(r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = mdc.load(MDC, scale=r.name).classify(pictures, COLOURS, TEMPLATES, samples=32)
    (pictures[0].parent / "names.txt").write_text("\n".join(COLOURS) + "\n\n")
    run = ["zero-shot", "--run", MDC, "--scale", r.name, "--samples", "32"]
    run += [word for text in TEMPLATES for word in ("--template", text)]
    for classes in ("red, blue,green", str(pictures[0].parent / "names.txt")):
        assert main([*run, *map(str, pictures), "--classes", classes, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert [(one["image"], one["label"], one["scores"]) for one in told] == [
            (str(file), one.label, pytest.approx(one.scores)) for file, one in zip(pictures, found, strict=True)
        ]
    assert main([*run, *map(str, pictures), "--classes", "red,blue,green", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["class"] for row in rows] == 3 * COLOURS
    assert [row["class"] for row in rows if row["chosen"] == "1"] == [one.label for one in found]
    assert float(rows[4]["score"]) == pytest.approx(found[1].scores["blue"])
    assert main([*run, str(pictures[1]), "--classes", "red,blue,green"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in said[1:]] == sorted(COLOURS, key=lambda name: -found[1].scores[name])


def test_images_that_cannot_be_read_are_named_and_the_others_classified(
    r: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    folder = pictures[0].parent
    (folder / "1.png").write_bytes(b"no picture")
    run = ["zero-shot", "--run", ARC, "--scale", r.name, str(folder)]
    assert main([*run, "--classes", "red,blue", "--template", "{class}", "--json"]) == 2
    out = capsys.readouterr()
    assert [Path(one["image"]).name for one in json.loads(out.out)] == ["0.png", "2.png"]
    assert "1.png" in out.err and "1 of 3 images could not be read" in out.err
    for words, why in ((["--classes", "nowhere.txt"], "no such file"), (["--classes", "red"], "fewer than two")):
        assert why in refused(*run[:6], *words)
