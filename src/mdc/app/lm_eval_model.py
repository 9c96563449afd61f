"""A captioner as a model of lm-evaluation-harness, for its tasks with an image (docs/scoring.md).

``python -m mdc.app.lm_eval_model`` is the harness's own command line, which knows ``--model mdc`` then.
"""

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from mdc.app.model import load
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_PLACEHOLDER = "<image>"  # the place of the image in a prompt


@register_model("mdc")
class Captioner(LM):
    """``run``: as ``mdc.load`` takes it, of ``scale``; ``samples``: masks of an estimator that draws. A captioner reads an image
    and no prompt: a task with a prompt besides the image's placeholder is refused, unless ``ignore_prompts``.

    UserError for a run that gives no log-likelihood, as a CLIP.
    """

    MULTIMODAL = True

    def __init__(
        self,
        run: str,
        scale: str | None = None,
        weights: str | None = None,
        samples: int = 256,
        ignore_prompts: bool = False,
        device: str = "auto",
        **_: Any,  # the harness adds batch sizes, which decide nothing here
    ) -> None:
        super().__init__()
        self.model = load(run, weights, scale=scale, device=device or "auto")
        self.samples, self.ignore_prompts = samples, ignore_prompts
        estimators = self.model.estimators
        if not estimators or not ESTIMATORS[estimators[0]].nats:
            raise UserError(f"{self.model.name}: gives captions no log-likelihood, which the harness asks for")

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """log p(continuation | image) in nats, including EOT; all continuations of an image share masks.

        The greedy flag is not computed: always False.
        """
        inputs = [self._image_and_argument(request) for request in requests]
        results: list[tuple[float, bool]] = []
        for _, group in groupby(inputs, key=lambda item: id(item[0])):
            items = list(group)
            captions = [text.strip() for _, text in items]
            scores = self.model.score(items[0][0], captions, samples=self.samples)
            results += [(item.score, False) for item in scores]
        for request, answer in zip(requests, results, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return results

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """A caption of each image, up to the first stop string. Other sampling options are ignored."""
        captions = []
        for request in requests:
            image, options = self._image_and_argument(request)
            text = self.model.caption(image).text
            ends = options.get("until") or []
            for end in [ends] if isinstance(ends, str) else ends:
                text = text.split(end)[0] if end else text
            captions.append(text)
            self.cache_hook.add_partial("generate_until", request.args, text)
        return captions

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """Refused: text without an image has no likelihood here."""
        raise UserError(f"{self.model.name}: scores captions of images; tasks of text alone are not supported")

    def _image_and_argument(self, request: Any) -> tuple[Any, Any]:
        """The image of a request, and the argument after its prompt. UserError for a prompt, or another number of images."""
        prompt, argument, *extra = request.args
        images = extra[0].get("visual") if extra else None
        images = images if isinstance(images, list | tuple) else [images]
        if len(images) != 1 or images[0] is None:
            count = sum(image is not None for image in images)
            raise UserError(f"{self.model.name}: a request with {count} images; a captioner reads one")
        if (words := prompt.replace(_PLACEHOLDER, " ").strip()) and not self.ignore_prompts:
            raise UserError(
                f"{self.model.name}: a captioner reads no prompt, and the task's is {words[:60]!r}; allowed: doc_to_text: "
                f"'{_PLACEHOLDER}', or ignore_prompts=True"
            )
        return images[0], argument


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except UserError as error:
        print(f"mdc: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
