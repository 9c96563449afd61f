"""A run as a model of lm-evaluation-harness, by the harness's own evaluation of a task with images."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image
from small_project import CLIP, MDC

import mdc
from mdc.data.formats.images import decode

pytest.importorskip("lm_eval", reason="needs lm-evaluation-harness: pip install mdc[lm-eval]")
CHOICES = ["a red circle", "a blue star", "a green square"]


def captioner(r: Path, run: str = MDC, **more: Any) -> Any:
    from mdc.app.lm_eval_model import Captioner

    return Captioner(run, scale=r.name, samples=16, device="cpu", **more)


@pytest.fixture
def photos(pictures: list[Path]) -> list[Image.Image]:
    return [decode(file.read_bytes()) for file in pictures]


def request(prompt: str, what: Any, *images: Image.Image | None) -> Any:
    return SimpleNamespace(args=(prompt, what, {"visual": list(images)}))


def test_likelihoods_are_the_runs_own_scores(r: Path, photos: list[Image.Image]) -> None:
    lm, shown, model = captioner(r), photos[:2], mdc.load(MDC, scale=r.name, device="cpu")
    asked = [request("<image>", f" {text}", image) for image in shown for text in CHOICES]
    expected = [one.score for image in shown for one in model.score(image, CHOICES, samples=16)]
    assert [value for value, _ in lm.loglikelihood(asked)] == pytest.approx(expected)
    written = lm.generate_until([request("", {"until": ["\n"]}, image) for image in shown])
    assert written == [one.text for one in model.caption(shown)]
    first = written[0].split()[0]
    assert lm.generate_until([request("", {"until": [f"{first} "]}, shown[0])]) == [""]


def test_the_harness_evaluates_a_task_of_choices(r: Path, photos: list[Image.Image]) -> None:
    """Its accuracy is the share of images whose right caption the run likes best."""
    lm_eval = pytest.importorskip("lm_eval")
    from datasets import Dataset  # the harness's own
    from lm_eval.api.task import ConfigurableTask

    rows = [{"image": image, "choices": CHOICES, "right": place} for place, image in enumerate(photos)]
    task = ConfigurableTask(
        config={
            **{"task": "colours", "output_type": "multiple_choice", "test_split": "test", "doc_to_text": "<image>"},
            **{"doc_to_choice": lambda doc: doc["choices"], "doc_to_target": lambda doc: doc["right"]},
            **{
                "doc_to_image": lambda doc: [doc["image"]],
                "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)},
            },
        }
    )
    found = lm_eval.simple_evaluate(captioner(r), tasks=[task], bootstrap_iters=0, confirm_run_unsafe_code=True)
    model = mdc.load(MDC, scale=r.name, device="cpu")
    scores = [[one.score for one in model.score(image, CHOICES, samples=16)] for image in photos]
    right = [max(range(3), key=own.__getitem__) == place for place, own in enumerate(scores)]
    assert found["results"]["colours"]["acc,none"] == pytest.approx(sum(right) / 3)


def test_what_a_captioner_cannot_answer_is_one_line(r: Path, photos: list[Image.Image]) -> None:
    image, lm = photos[0], captioner(r)
    for asked, said in (
        (request("<image> Which colour?", " a red circle", image), "reads no prompt"),
        (request("<image>", " a red circle", image, image), "2 images"),
        (SimpleNamespace(args=("", " a red circle")), "0 images"),
    ):
        with pytest.raises(mdc.UserError, match=said):
            lm.loglikelihood([asked])
    with pytest.raises(mdc.UserError, match="text alone"):
        lm.loglikelihood_rolling([])
    with pytest.raises(mdc.UserError, match="no log-likelihood"):
        captioner(r, CLIP)
    prompted = captioner(r, ignore_prompts=True)
    bare = lm.loglikelihood([request("", "a red circle", image)])
    assert prompted.loglikelihood([request("<image> Which colour?", " a red circle", image)]) == bare
