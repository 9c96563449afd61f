"""Zero-shot classification of a user's images by a run: the class whose captions score highest.

The same computation as the job ``mdc score-classes`` (:mod:`mdc.evaluation.zero_shot`), with the user's classes. Captions are
tokenised once, and an image is encoded once for all of them.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from mdc.app.answers import Classified, Classifying, warn_of
from mdc.app.user_images import Images, batches, several
from mdc.evaluation.predictors.score import RunScorer, caption_tokens
from mdc.evaluation.retrieval import HeldOut
from mdc.evaluation.zero_shot import PRIOR_IMAGES, Captions, ScoredProbe, class_texts, log_mean_probability
from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.data import ClassCaptions
from mdc.plan.estimators import ESTIMATORS
from mdc.plan.records import UserError

#: estimators whose scores are no log probabilities of captions, nor bounds on them: they get no softmax
_NO_PROBABILITY = ("bag_of_words", "fixed_ratio", "monte_carlo_range", "pseudo_likelihood")


class Classifier:
    """Classifies images into ``classes`` with a ``model`` of :func:`mdc.load`. UserError for classes, templates or options that
    it cannot take."""

    def __init__(
        self, model: Any, classes: Sequence[str], templates: str | Sequence[str] | None, options: Classifying
    ) -> None:
        self.labels = _labels(classes)
        sampling = {key: options[key] for key in ("samples", "seed") if key in options}
        scores = model.scores(options.get("estimator"), **sampling)
        scorer, self.estimator, self._draws = scores.scorer, scores.estimator, scores.draws
        captions, self.unknown = _captions(scorer, self.labels, _templates(templates))
        self._scorer, self._probe = scorer, ScoredProbe("asked", scorer, captions, 0)
        self.debiased, self._prior = options.get("debiased", False), None
        if self.debiased:
            if not ESTIMATORS[self.estimator].nats:
                raise UserError(
                    f"{model.name}: debiased: a {self.estimator} is no probability, so words alone have none"
                )
            images = HeldOut.of(model.corpus, PRIOR_IMAGES, model.run.context_length).images
            self._prior = log_mean_probability(self._scores(images))
        warn_of(chain(*self.unknown.values()), above=3)

    def of(self, images: Images) -> list[Classified]:
        """The class of each image."""
        if not len(several(images)):
            return []
        scores = self._scores(images)
        scores = self._probe.of_classes(scores if self._prior is None else scores - self._prior)
        shares = (scores * self._factor).softmax(dim=1).tolist() if self.estimator not in _NO_PROBABILITY else None
        results = []
        for place, row in enumerate(scores.tolist()):
            probabilities = None if shares is None else dict(zip(self.labels, shares[place], strict=True))
            best = self.labels[int(scores[place].argmax())]
            by_class = dict(zip(self.labels, row, strict=True))
            results.append(Classified(best, by_class, probabilities, self.estimator, self.debiased, self.unknown))
        return results

    def picture(self, image: Image.Image) -> Tensor:
        """An RGB image preprocessed for the model, (3, S, S) uint8, which ``of`` takes as well."""
        return self._scorer.picture(image)

    @property
    def _factor(self) -> float:
        """What scores are multiplied with in the softmax: a CLIP's learnt scale of cosines."""
        return float(self._scorer.model.scale().detach()) if self.estimator == "cosine" else 1.0

    def _scores(self, images: Images) -> Tensor:
        """Scores of all captions, (I, captions) float64; of cosines those of classes, (I, K)."""
        parts = []
        for pixels, names in batches(images, self._scorer.picture, self._probe.at_once):
            visual, draws = self._scorer.look(pixels), self._draws * len(names)
            parts.append(self._probe.scores(self.estimator, visual, len(names), draws).cpu())
        return torch.cat(parts)


def _labels(classes: Sequence[str]) -> list[str]:
    if isinstance(classes, str):
        raise UserError(f"classes {classes!r}: one name; needed: a list of at least two")
    labels = [" ".join(label.split()) for label in classes]
    if len(labels) < 2:
        raise UserError(f"classes: {', '.join(labels) or 'none'}; at least two are needed")
    if twice := next((label for place, label in enumerate(labels) if label in labels[:place]), None):
        raise UserError(f"class {twice!r}: is given twice")
    return labels


def _templates(templates: str | Sequence[str] | None) -> ClassCaptions:
    if templates is None:
        return ClassCaptions()
    if templates == "open_clip":
        return ClassCaptions(templates="open_clip")
    listed = [templates] if isinstance(templates, str) else list(templates)
    if not listed:
        raise UserError("templates: none; leave them out for 'a photo of a {class}'")
    for place, template in enumerate(listed):
        if "{class}" not in template:
            raise UserError(f"template {template!r}: lacks {{class}}, in whose place a class's name is put")
        if template in listed[:place]:
            raise UserError(f"template {template!r}: is given twice")
    return ClassCaptions(templates=listed)


def _captions(scorer: RunScorer, labels: list[str], config: ClassCaptions) -> tuple[Captions, dict[str, list[str]]]:
    """The captions of all classes, and by class their tokens outside the vocabulary, which are left out."""
    vocabulary: Vocabulary = scorer.vocabulary
    # underscores of folder names are spaces, as in the captions
    if outside := [label for label in labels if not vocabulary.known(clip_pieces(label.replace("_", " ")))]:
        raise UserError(f"classes wholly outside this model's vocabulary: {', '.join(map(repr, outside))}")
    used, texts = class_texts("asked", {"kind": "asked"}, labels, config)
    tokens, first, missing = [], dict[tuple[int, ...], str](), dict[str, list[str]]()
    for label, captions in zip(labels, texts, strict=True):
        for caption in captions:
            tokens.append(caption_tokens(vocabulary, caption, scorer.context_length, drop_unknown=True))
            if unknown := vocabulary.unknown(caption):
                missing[label] = list(dict.fromkeys([*missing.get(label, ()), *unknown]))
        same = first.setdefault(tuple(tokens[-1]), label)
        if same != label:
            raise UserError(
                f"classes {same!r} and {label!r}: are one caption to this model, so no score tells them apart"
            )
    return Captions(used, texts, tokens), missing
