"""``mdc.load``: the Python API of a trained run (docs/api.md), used by the command line, the demo and the exports.

Unsupported operations raise :class:`mdc.UserError` with the reason.
"""

import argparse
import math
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Unpack, overload

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from mdc.app.answers import Caption, Classified, Classifying, Drawing, Encoded, Piece, Score, warn_of
from mdc.app.caption_options import Options, template, unknown_in, way_of
from mdc.app.export import open_clip_model
from mdc.app.find_run import run_folder
from mdc.app.scores import Scores, checked
from mdc.app.user_images import Images, OneImage, batches, computed, is_one, several
from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.generate import RunWriter
from mdc.evaluation.predictors.score import RunScorer
from mdc.evaluation.predictors.writing import DecodedCaption
from mdc.models.encoder import pool
from mdc.models.runs import RunModel, open_run, scale_of, weights_of
from mdc.plan.config.kinds.backbones import Backbone, FrozenEncoderBackbone
from mdc.plan.records import UserError, did_you_mean
from mdc.training.device import choose_device

#: features of an image: ``encode`` gives all, ``mdc features`` one
FEATURES = ("probed", "cls", "patch_mean", "embedding")
_BATCH, _CAPTIONED = 64, 32  # images that are encoded, and captioned, at a time
_ALONE = "the folder holds the image encoder alone, which neither scores nor writes captions; export with --to hub"


class _Once(RunModel):
    """A run whose model is loaded once."""

    def __init__(self, run: RunModel) -> None:
        super().__init__(**vars(run))
        object.__setattr__(self, "load", cache(run.load))


class Model:
    """A trained run with its ``weights``: "last", or "best" on held-out pairs. ``name``: its id; ``scale``: the folder of its
    scale, None without one. With ``encoder_alone`` there is no decoder, so it neither scores nor captions."""

    def __init__(
        self,
        run: RunModel,
        name: str,
        weights: str,
        scale: Path | None = None,
        device: str = "auto",
        encoder_alone: bool = False,
    ) -> None:
        self.run, self.name, self.weights, self.scale = _Once(run), name, weights, scale
        self.job, self.vocabulary, self.encoder_alone = run.job, run.vocabulary, encoder_alone
        self.device = choose_device(device)

    @classmethod
    def of_run(cls, folder: Path, weights: str | None = None, device: str = "auto") -> "Model":
        """The run in ``folder``."""
        weights = weights or weights_of(folder)
        run, manifest = open_run(folder, weights)
        return cls(run, str(manifest["id"]), weights, scale_of(folder, manifest), device)

    def __repr__(self) -> str:
        return f"mdc.Model({self.name}, {self.weights} weights, {self.device})"

    # --- the encoder ------------------------------------------------------------------------------------------------------

    @property
    def probed(self) -> str:
        """Which feature linear probes see: "cls" of a CLIP, else "patch_mean"."""
        return self.job.method.usual_pooling

    @property
    def own_backbone(self) -> Backbone:
        """Of its own encoder; UserError for a run on a frozen one."""
        if isinstance(self.job.backbone, FrozenEncoderBackbone):
            raise UserError(
                f"{self.name}: uses the frozen encoder {self.job.backbone.frozen.job} and has none of its own; allowed: runs "
                "that train their encoder"
            )
        return self.job.backbone

    @cached_property
    def _encoder(self) -> Any:
        _ = self.own_backbone
        return self.run.load().to(self.device).eval()

    def encode(self, images: Images) -> Encoded:
        """The features of images, in their order. Images are resized and cropped as for the probes.

        >>> model.encode(["val-0000003.png", "val-0000004.png"]).probed.shape
        torch.Size([2, 96])
        """
        if not len(several(images)):
            raise UserError("images: none; at least one is needed")
        _ = self._encoder  # loaded once, before there are threads
        batches_encoded = computed(images, self._crop, _BATCH, self.encode_pixels, self.device)
        parts = {name: [getattr(tensors, name) for tensors in batches_encoded] for name in Encoded.__annotations__}
        features: dict[str, Any] = {
            name: None if tensors[0] is None else torch.cat(tensors) for name, tensors in parts.items()
        }
        return Encoded(**features)

    def _crop(self, image: Image.Image) -> Tensor:
        return torch.from_numpy(center_resize(image, self.job.backbone.image_size)).permute(2, 0, 1)

    @torch.no_grad()
    def encode_pixels(self, images: Tensor) -> Encoded:
        """``encode`` of preprocessed images, resized and cropped to the middle, (B, 3, S, S) uint8."""
        prepared = self._encoder.encoder.prepared(images.to(self.device))
        cls, patches = self._encoder.encoder(prepared)
        mean = pool(cls, patches, "patch_mean")
        clip = self.job.method.embeds_captions
        embedding = F.normalize(self._encoder.image_projection(cls).float(), dim=-1) if clip else None
        features = (patches, mean, cls, cls if self.probed == "cls" else mean, embedding)
        return Encoded(*(feature if feature is None else feature.float().cpu() for feature in features))  # type: ignore[arg-type]

    # --- scores -----------------------------------------------------------------------------------------------------------

    @property
    def estimators(self) -> tuple[str, ...]:
        """Its estimators of a caption's score, the method's own first; empty if it cannot score."""
        return () if self.encoder_alone else self.job.method.estimators

    def scorer(self, samples: int = 256) -> RunScorer:
        """Its scorer, with so many masks of a sampled estimator; UserError if it cannot score."""
        if self.encoder_alone:
            raise UserError(f"{self.name}: {_ALONE}")
        if not self.estimators:
            raise UserError(
                f"{self.name}: a run of {self.job.method_name} ({self.job.method.objective}) cannot score captions"
            )
        return RunScorer(self.run, samples=samples, precision="fp32", device=self.device)

    @overload
    def score(
        self, images: OneImage, captions: str | Sequence[str], estimator: str | None = ..., **drawing: Unpack[Drawing]
    ) -> list[Score]: ...

    @overload
    def score(
        self, images: Any, captions: Sequence[Sequence[str]], estimator: str | None = ..., **drawing: Unpack[Drawing]
    ) -> list[list[Score]]: ...

    def score(self, images: Any, captions: Any, estimator: str | None = None, **drawing: Unpack[Drawing]) -> Any:
        """Scores of captions with an image. With several images, each has its own list of captions.

        ``estimator``: one of ``estimators``; ``drawing``: see :class:`Drawing`. A token outside the vocabulary is left out, with
        one warning for all; the result names it. A caption of such tokens alone has the score NaN.

        >>> model.score("photo.jpg", ["a red circle", "a blue star"])[0].score
        -7.31
        """
        scores = self.scores(estimator, **drawing)
        by_image = [captions] if is_one(images) else list(captions)
        if len(by_image) != (count := len(several(images))):
            raise UserError(
                f"{count} images, but captions for {len(by_image)}; each image needs its own, or a list of its own"
            )
        by_image = [[texts] if isinstance(texts, str) else list(texts or ()) for texts in by_image]
        if wrong := [text for texts in by_image for text in texts if not isinstance(text, str)]:
            raise UserError(f"captions: {wrong[0]!r} is no text")
        scored: list[list[Score]] = []
        for pixels, names in batches(images, scores.scorer.picture, _BATCH):
            scored += scores.of(pixels, by_image[len(scored) : len(scored) + len(names)])
        warn_of(token for group in scored for text in group for token in text.unknown)
        return scored[0] if is_one(images) else scored

    def scores(self, estimator: str | None = None, **drawing: Unpack[Drawing]) -> Scores:
        """The scorer behind ``score``, for many images; UserError for what the run or the estimator cannot do."""
        samples, seed, mismatched = checked(drawing)
        scorer, chosen = self.scorer(samples), estimator or self.estimators[0]
        if chosen not in self.estimators:
            raise UserError(
                f"{self.name}: a run of {self.job.method_name} has no estimator {chosen!r}"
                f"{did_you_mean(chosen, self.estimators)}; it has {', '.join(self.estimators)}"
            )
        return Scores(self.run, scorer, chosen, samples, seed, self.corpus if mismatched else None)

    @property
    def corpus(self) -> Path:
        """The folder of its training corpus; UserError if the run has none beside it."""
        if self.scale is None:
            raise UserError(
                f"{self.name}: lies without its corpus, whose held-out images a mismatched or debiased score needs"
            )
        return self.scale / "data" / "corpora" / self.job.corpus

    @property
    def has_corpus(self) -> bool:
        """Whether the corpus that it was trained on lies beside it; an exported run has none."""
        return self.scale is not None and (self.corpus / "index.json").is_file()

    # --- classes ----------------------------------------------------------------------------------------------------------

    @overload
    def classify(
        self,
        images: OneImage,
        classes: Sequence[str],
        templates: str | Sequence[str] | None = ...,
        **options: Unpack[Classifying],
    ) -> Classified: ...

    @overload
    def classify(
        self,
        images: Any,
        classes: Sequence[str],
        templates: str | Sequence[str] | None = ...,
        **options: Unpack[Classifying],
    ) -> list[Classified]: ...

    def classify(
        self,
        images: Any,
        classes: Sequence[str],
        templates: str | Sequence[str] | None = None,
        **options: Unpack[Classifying],
    ) -> Any:
        """The class of each image: whose caption scores highest (zero-shot classification).

        ``templates``: the captions of a class, each with "{class}" ("a photo of a {class}"), or "open_clip", its 80; ``options``:
        see :class:`mdc.app.answers.Classifying`. A token outside the vocabulary is left out, with one warning.

        >>> model.classify("photo.jpg", ["circle", "star"], "a {class}").label
        'circle'
        """
        from mdc.app.classify import Classifier

        results = Classifier(self, classes, templates, options).of(images)
        return results[0] if is_one(images) else results

    # --- captions ---------------------------------------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """Whether it can decode captions."""
        return self.job.method.decoding is not None and not self.encoder_alone

    @cached_property
    def writer(self) -> RunWriter:
        """Its decoder of captions; UserError if it has none."""
        if self.encoder_alone:
            raise UserError(f"{self.name}: {_ALONE}")
        return RunWriter(self.run, precision="fp32", device=self.device)

    @overload
    def caption(self, images: str | Path | Image.Image, **options: Unpack[Options]) -> Caption: ...

    @overload
    def caption(self, images: Sequence[Any], **options: Unpack[Options]) -> list[Caption]: ...

    def caption(self, images: Any, **options: Unpack[Options]) -> Any:
        """A caption of each image, decoded as in the paper; ``options``: see :class:`mdc.app.caption_options.Options`.

        >>> model.caption("photo.jpg").text
        'a red circle above a blue star'
        """
        return self._written(images, options)

    def fill(self, images: Any, text: str, **options: Unpack[Options]) -> Any:
        """``text`` with each "?" replaced by a token, for each image; for masked methods alone. A token outside the
        vocabulary is left out, with one warning for all.

        >>> model.fill("photo.jpg", "a ? circle").text
        'a red circle'
        """
        filled = self._written(images, options, text)
        warn_of(unknown_in(text, self.vocabulary))
        return filled

    def _written(self, images: Any, options: Options, fill: str | None = None) -> Any:
        parts = batches(images, self.writer.picture, _CAPTIONED)
        captions = [caption for pixels, names in parts for caption in self.caption_pixels(pixels, names, options, fill)]
        return captions[0] if is_one(images) else captions

    def caption_pixels(
        self, images: Tensor, names: Sequence[str], options: Options, fill: str | None = None
    ) -> list[Caption]:
        """``caption``, or ``fill``, of pixels by ``writer.picture``, (B, 3, S, S) uint8; sampling depends on an image's name and
        the seed."""
        return [self.as_caption(caption) for caption in self.decoded(self.writer.look(images), names, options, fill)]

    def decoded(
        self, visual: Any, names: Sequence[str], options: Options, fill: str | None = None
    ) -> list[DecodedCaption]:
        """The same as tokens, of images encoded by ``writer.look``."""
        policy = way_of(self.job, options, filling=fill is not None)
        if fill is None:
            return self.writer.write(visual, policy, names)
        return self.writer.fill(visual, [template(fill, self.vocabulary)] * len(names), policy, names)  # type: ignore[arg-type]

    def as_caption(self, caption: DecodedCaption) -> Caption:
        """Tokens as text."""
        # tokens of step 0 have no probability: they were given, or are of a diffusion's random start
        pieces = [
            Piece(self.writer.piece(piece), step, math.exp(min(confidence, 0.0)) if step else None)
            for piece, step, confidence in zip(caption.pieces, caption.step, caption.confidence, strict=True)
        ]
        return Caption(self.writer.text(caption), caption.log_prob, pieces)


def load(run: str | Path, weights: str | None = None, *, scale: str | None = None, device: str = "auto") -> Model:
    """A trained run. ``run``: its id, as ``dense/ViT-T-12/mdc/s0`` (of ``scale``, or of the only one that has it; results lie
    under ``results/``), its folder, a folder that ``mdc export`` wrote, or ``hub:OWNER/NAME`` of such a one on the Hugging Face
    hub. ``weights``: "last" or "best"; None: best of a finetuned run, else last.

    UserError if there is no such run, or something of it is missing or changed.

    >>> mdc.load("dense/ViT-T-12/mdc/s0")
    mdc.Model(runs/dense/ViT-T-12/mdc/s0, last weights, cpu)
    """
    if weights not in (None, "last", "best"):
        raise UserError(f"weights {weights}: a run has no such weights; allowed: last, best")
    folder = run_folder(str(run), scale=scale)
    if (folder / "run.json").is_file():
        return Model.of_run(folder, weights, device)
    exported, record = open_clip_model.read(folder)
    if weights not in (None, record["weights"]):
        raise UserError(f"weights {weights}: {folder} holds the {record['weights']} ones")
    alone = record["text_tower"] == open_clip_model.NONE
    return Model(exported, record["run"], record["weights"], device=device, encoder_alone=alone)


def load_from_args(args: argparse.Namespace) -> Model:
    """The run of a command line. ``args``: run, weights, params, scale."""
    return load(run_folder(args.run, args.params, args.scale), args.weights)
