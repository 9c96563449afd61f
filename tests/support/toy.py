"""Tiny models and batches for tests."""

from __future__ import annotations

from typing import Any

import torch

from mdc.config import Backbone, Decoder, Method, ProtocolPretrain, Recipe, Runtime

V = 40  # predictable tokens; SOT and EOT are the last two of them
SOT, EOT, MASK = V - 2, V - 1, V

BACKBONE = Backbone(
    label="toy",
    image_size=16,
    patch_size=8,
    width=32,
    layers=2,
    heads=2,
    embed_dim=16,
    decoder=Decoder(width=32, layers=2, heads=2),
)

METHODS = {
    "clip": Method(label="CLIP", objective="contrastive", pooling="cls"),
    "arc": Method(label="ARC", objective="autoregressive", pooling="patch_mean"),
    "mdc": Method(
        label="MDC",
        objective="masked",
        pooling="patch_mean",
        t_range=(0.5, 1.0),
        weight="inverse_t",
        normaliser="valid_tokens",
    ),
}

PROTOCOL = ProtocolPretrain(
    optimizer="AdamW",
    lr_schedule="cosine",
    least_t=1e-3,
    t_draw="stratified",
    adam_eps=1e-6,
    decay="matrices_only",
    final_lr=0.0,
    temperature=0.07,
    max_logit_scale=100.0,
    clip_text_attention="causal",
    mask_duplicates_over=0.05,
    arc_normaliser="valid_tokens",
    interpolation="bicubic",
    mean_and_std="openai",
    crop_scale=(0.9, 1.0),
    crop_ratio=(0.75, 4 / 3),
    flips=False,
)

RUNTIME = Runtime(workers=0, log_every=1, checkpoint_every=5)


def recipe(**changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "epochs": 1,
        "batch_size": 8,
        "accumulation": 1,
        "processes": 1,
        "lr": 3e-3,
        "warmup_steps": 2,
        "weight_decay": 0.1,
        "beta1": 0.9,
        "beta2": 0.98,
        "clip_norm": 1.0,
        "precision": "fp32",
        "compile": False,
        "threads": 1,
        "device": "cpu",
        "validate_every": 1000,
    }
    return Recipe(**(values | changes))


def batch(size: int = 8, seed: int = 0, longest: int = 14, width: int = 16) -> dict[str, Any]:
    """A random batch as the loader yields it: captions of different lengths, none twice."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(4, longest + 1, (size,), generator=generator)
    tokens = torch.randint(0, SOT, (size, width), generator=generator)
    for row, length in enumerate(lengths.tolist()):
        tokens[row, 0] = SOT
        tokens[row, length - 1 :] = EOT
    return {
        "images": torch.randint(0, 256, (size, 3, 16, 16), generator=generator, dtype=torch.uint8),
        "tokens": tokens,
        "lengths": lengths,
        "jitter": torch.rand(size, generator=generator),
        "uniforms": torch.rand(size, width, generator=generator),
        "place": torch.arange(size),
        "keys": [f"sample{i}" for i in range(size)],
        "caption_hash": torch.arange(size),
        "epoch": 0,
        "step": 0,
    }
