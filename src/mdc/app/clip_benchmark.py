"""The verb ``mdc clip-benchmark``: CLIP-benchmark's own command line, with our runs among its models.

A run is called by its id or folder (``--model``), and its weights by ``--pretrained`` last (the default) or best. Linear
probes see the features that a method is probed with (the mean of patches, or [CLS]); zero-shot tasks see a CLIP run's
embeddings, and a captioner, which has none, is refused there.
"""

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from mdc.app.find_run import run_folder
from mdc.data.formats.images import center_resize
from mdc.evaluation.predictors.score import caption_tokens
from mdc.models.encoder import pool
from mdc.models.normalise import normalise
from mdc.models.runs import WEIGHTS, open_run
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.records import UserError, read_json

TYPE = "mdc"


def main(args: argparse.Namespace) -> None:
    """``args``: arguments (CLIP-benchmark's own), params, scale."""
    import clip_benchmark.models as models
    from clip_benchmark import cli

    if TYPE not in models.MODEL_TYPES:
        models.MODEL_TYPES.append(TYPE)
    words = list(args.arguments)
    if words[:1] == ["eval"]:
        words[1:1] = ["--pretrained", "last", "--model_type", TYPE]  # the user's own options come later and override
    before, theirs = sys.argv, models.TYPE2FUNC["open_clip"]
    sys.argv = ["clip_benchmark", *words]
    try:
        task = _checked(_parsed(cli))

        def loaded(model_name: str, pretrained: str, cache_dir: str, device: Any) -> Any:
            folder = run_folder(model_name, args.params, args.scale)
            return benchmark_model(folder, _weights(pretrained), task, torch.device(device))

        def of_open_clip(model_name: str, **more: Any) -> Any:
            if task != "linear_probe":
                _has_texts(model_name)
            return theirs(model_name=model_name, **more)

        models.TYPE2FUNC |= {TYPE: loaded, "open_clip": of_open_clip}
        cli.main()
    finally:
        sys.argv, models.TYPE2FUNC["open_clip"] = before, theirs


def _parsed(cli: Any) -> argparse.Namespace:
    """The command line as CLIP-benchmark's own parser reads it; UserError with its message."""
    stderr = io.StringIO()
    try:
        with redirect_stderr(stderr):
            arguments: argparse.Namespace = cli.get_parser_args()[1]
    except SystemExit as stop:
        if not stop.code:
            raise  # its help
        raise UserError(stderr.getvalue().strip().rpartition("\n")[2]) from None
    return arguments


def _checked(arguments: argparse.Namespace) -> str:
    """The task, "" for other commands; UserError for one that cannot run here, and for weights that no run has."""
    if getattr(arguments, "which", None) != "eval":
        return ""
    if arguments.task == "linear_probe" and not torch.cuda.is_available():
        raise UserError(
            "CLIP-benchmark's linear probe runs on a GPU only, and PyTorch sees none here; "
            "allowed: its zero-shot tasks, or our own probe, which equals it to the bit (snakemake probe_all)"
        )
    if arguments.model_type == TYPE and not arguments.pretrained_model:
        for weights in arguments.pretrained:
            _weights(weights)
    return str(arguments.task)


def _has_texts(name: str) -> None:
    """UserError if an open_clip model is an exported folder without a trained text tower. Checked when models are loaded, since
    a command line has three ways of naming them."""
    config = Path(name.removeprefix("local-dir:")) / "open_clip_config.json"
    if (
        name.startswith("local-dir:")
        and config.is_file()
        and read_json(config).get("mdc", {}).get("text_tower") == "none"
    ):
        raise UserError(
            f"{name}: a captioner's image encoder, without a trained text tower; allowed: --task linear_probe, or the folder of "
            "a CLIP run"
        )


def _weights(pretrained: str) -> str:
    if pretrained not in WEIGHTS:
        raise UserError(f"--pretrained {pretrained}: a run has no such weights; allowed: {', '.join(WEIGHTS)}")
    return pretrained


class BenchmarkModel(nn.Module):
    """The model interface of CLIP-benchmark. ``features``: encode images as they are probed, not as CLIP compares them."""

    def __init__(self, model: Any, pooling: str, eot: int, features: bool) -> None:
        super().__init__()
        self.model, self.pooling, self.eot, self.features = model, pooling, eot, features

    def encode_image(self, images: Tensor) -> Tensor:
        """images (B, 3, S, S) normalised → features (B, D), or unit embeddings (B, E)."""
        if self.features:
            cls, patches = self.model.encoder(images)
            return pool(cls, patches, self.pooling)
        return self.model.embed_images(images)

    def encode_text(self, tokens: Tensor) -> Tensor:
        """tokens (B, T), padded with EOT → unit embeddings (B, E)."""
        lengths = (tokens == self.eot).int().argmax(dim=1) + 1
        return self.model.embed_texts(tokens, lengths)


def benchmark_model(
    folder: Path, weights: str, task: str, device: torch.device
) -> tuple[BenchmarkModel, Callable[[Image.Image], Tensor], Callable[[Sequence[str]], Tensor]]:
    """(model, transform, tokenizer) of a run, as CLIP-benchmark's loaders return them."""
    if not (folder / "run.json").is_file():
        raise UserError(
            f"{folder}: exported for open_clip; name it so: --model local-dir:{folder} --pretrained '' --model_type open_clip"
        )
    run, _ = open_run(folder, weights)
    job, vocabulary, context_length = run.job, run.vocabulary, run.context_length
    features = task == "linear_probe"
    if not features and not job.method.embeds_captions:
        raise UserError(
            f"{folder}: a run of {job.method_name} has no embeddings of images and texts that could be compared; "
            "allowed here: linear_probe, or a CLIP run"
        )
    if isinstance(job.backbone, FrozenEncoderBackbone):
        raise UserError(
            f"{folder}: uses the frozen encoder {job.backbone.frozen.job}; give CLIP-benchmark that encoder itself"
        )
    model = run.load()
    size = job.backbone.image_size

    def transform(image: Image.Image) -> Tensor:
        pixels = torch.from_numpy(center_resize(image.convert("RGB"), size)).permute(2, 0, 1)
        return normalise(pixels[None])[0]

    def tokenizer(texts: Sequence[str]) -> Tensor:
        tokens = torch.full((len(texts), context_length), vocabulary.eot)
        for row, text in zip(tokens, texts, strict=True):
            ids = caption_tokens(vocabulary, text, context_length)
            row[: len(ids)] = torch.tensor(ids)
        return tokens

    benchmarked = BenchmarkModel(model.to(device).eval(), job.method.usual_pooling, vocabulary.eot, features)
    return benchmarked, transform, tokenizer
