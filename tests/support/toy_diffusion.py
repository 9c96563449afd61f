"""A tiny captioner of mask-and-replace diffusion on a frozen encoder's vectors, and batches for it."""

from typing import Any

import torch
import toy
from torch import Tensor

from mdc.data.loader.batch import CaptionBatch
from mdc.extensions.mc_diffusion.mask_and_replace.loss import MaskAndReplaceObjective, build_objective
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.method import Method
from mdc.plan.config.methods import method as made
from mdc.training.objectives.objective import Setup

VOCABULARY, STEPS, LENGTH, VECTORS = 12, 10, 8, 4


def backbone(size: int, tokens: int, of: int, **decoder: int) -> FrozenEncoderBackbone:
    frozen = {"job": "encoders/vq", "config_sha256": "0", "image_size": size, "tokens": tokens, "width": of}
    return FrozenEncoderBackbone.model_validate({"label": "", "image_size": size, "frozen": frozen, "decoder": decoder})


BACKBONE = backbone(8, VECTORS, 6, width=16, layers=2, heads=2)


def method(replaced: float = 0.1, **more: Any) -> Method:
    entry = {"label": "", "objective": "mask_and_replace", "pooling": "patch_mean", "diffusion_steps": STEPS}
    return made(**{**entry, "replaced": replaced, **more})


CFG = {"guidance": {"kind": "cfg", "degraded": 0.5}}
MCS = {"guidance": {"kind": "mcs", "degraded": 0.5, "mask_rate": 0.5}}


def objective(entry: Method, batch_size: int = 6, seed: int = 0) -> MaskAndReplaceObjective:
    model = toy.build_model(entry, BACKBONE, None, VOCABULARY, 20, seed)  # type: ignore[arg-type]
    with torch.no_grad():  # so that the time matters from the beginning
        for name, parameter in model.named_parameters():
            if name.endswith("change.weight"):
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(len(name))))
    setup = Setup(entry, None, VOCABULARY, batch_size, "fp32")  # type: ignore[arg-type]
    return build_objective(model, setup, length=LENGTH)


def batch(size: int = 6, seed: int = 0) -> CaptionBatch:
    generator = torch.Generator().manual_seed(seed)
    sot, eot = VOCABULARY - 2, VOCABULARY - 1
    lengths = torch.randint(3, 11, (size,), generator=generator)
    tokens = torch.randint(0, sot, (size, 16), generator=generator)
    tokens[:, 0] = sot
    for row, length in zip(tokens, lengths.tolist(), strict=True):
        row[length - 1 :] = eot

    def drawn(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    return CaptionBatch(
        images=drawn(size, VECTORS, 6).half(),
        keys=[str(n) for n in range(size)],
        tokens=tokens,
        lengths=lengths,
        jitter=drawn(size),
        uniforms=drawn(size, 16),
        place=torch.arange(size),
        caption_hash=torch.zeros(size, dtype=torch.int64),
        token_draws=drawn(size, 16),
        image_draws=drawn(size, 1 + VECTORS),
    )
