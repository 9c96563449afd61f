"""A captioner as a model of lm-evaluation-harness: what its tasks with an image ask, answered by ``mdc.load`` (docs/scoring.md).

``python -m mdc.app.lm_eval_model`` is the harness's own command line, which knows ``--model mdc`` then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

from mdc.app.model import load
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

_PLACEHOLDER = "<image>"  # how tasks say where the image stands


@register_model("mdc")
class Captioner(LM):
    """``run``: as ``mdc.load`` takes it, of ``scale``; ``samples``: masks of an estimator that draws. A captioner reads an image
    and no prompt: a task whose prompt says more than where the image stands is refused, unless ``ignore_prompts``.

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
        """log p(continuation | image) in nats, with that it ends there; all continuations of an image by the same masks.

        Whether greedy decoding would write it is not asked: always False.
        """
        asked = [self._asked(request) for request in requests]
        found: list[tuple[float, bool]] = []
        for _, group in groupby(asked, key=lambda one: id(one[0])):
            some = list(group)
            captions = [text.strip() for _, text in some]
            scores = self.model.score(some[0][0], captions, samples=self.samples)
            found += [(one.score, False) for one in scores]
        for request, answer in zip(requests, found, strict=True):
            self.cache_hook.add_partial("loglikelihood", request.args, answer)
        return found

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """A caption of each image, up to the first of the task's ends. What else a task says of sampling decides nothing."""
        found = []
        for request in requests:
            image, how = self._asked(request)
            text = self.model.caption(image).text
            ends = how.get("until") or []
            for end in [ends] if isinstance(ends, str) else ends:
                text = text.split(end)[0] if end else text
            found.append(text)
            self.cache_hook.add_partial("generate_until", request.args, text)
        return found

    def loglikelihood_rolling(self, requests: Sequence[Any]) -> list[float]:
        """Refused: text without an image has no likelihood here."""
        raise UserError(f"{self.model.name}: scores captions of images; a task of text alone cannot be asked")

    def _asked(self, request: Any) -> tuple[Any, Any]:
        """The one image of a request, and what stands behind its prompt. UserError for a prompt, or another number of images."""
        prompt, what, *more = request.args
        images = more[0].get("visual") if more else None
        images = images if isinstance(images, list | tuple) else [images]
        if len(images) != 1 or images[0] is None:
            count = sum(one is not None for one in images)
            raise UserError(f"{self.model.name}: a request with {count} images; a captioner reads one")
        if (words := prompt.replace(_PLACEHOLDER, " ").strip()) and not self.ignore_prompts:
            raise UserError(
                f"{self.model.name}: a captioner reads no prompt, and the task's is {words[:60]!r}; allowed: doc_to_text: "
                f"'{_PLACEHOLDER}', or ignore_prompts=True"
            )
        return images[0], what


if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    try:
        cli_evaluate()
    except UserError as error:
        print(f"mdc: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
