"""Captions by open_clip's CoCa, by our beam search: open_clip 3.3's ``generate`` needs a transformers below 4.57."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from mdc.diffusion.beam import beam_search
from mdc.evaluation.captioned import Captioned
from mdc.evaluation.job_models import open_clip_scorer
from mdc.evaluation.parts import device_of, identity_of, ranges, sharded
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import CaptionsJob, CocaModel
from mdc.plan.processes.group import process_group
from mdc.plan.records import UserError

#: columns that captions by other models lack
NOTHING: Mapping[str, Any] = {
    **{"clip_ids": None, "pieces": [], "step": [], "confidence": []},
    **{"log_prob": None, "calls": None},
}
#: start and end of open_clip's vocabulary; it allows an end after five tokens, the start included
_SOT, _EOT, _BEFORE_END = 49406, 49407, 5
_PART = 32  # images of a part


def of_coca(call: Call, asked: CocaModel, images: Captioned) -> list[dict[str, Any]]:
    """A caption of each image; finished parts are kept, so a killed job resumes. UserError if the model cannot be loaded, or is
    no CoCa."""
    import open_clip

    job: CaptionsJob = call.job
    device = device_of(job.captioning)
    loaded, weights = open_clip_scorer(asked.model, asked.weights, "fp32", device)
    if not hasattr(loaded.model, "text_decoder"):
        raise UserError(f"{job.job}: open_clip's {asked.model} writes no captions; allowed: a CoCa, as coca_ViT-B-32")
    identity = identity_of(job.fingerprint, weights, job.captioning, device)
    identity |= {"coca": asked.model_dump(mode="json"), "shards": images.shards}

    def written(numbers: range) -> list[str]:
        pixels = torch.stack([loaded.picture(images.image(n)) for n in numbers]).to(device)
        found = search(loaded.model, pixels, asked.num_beams, asked.max_tokens)
        return [open_clip.decode(torch.tensor(tokens)).strip() for tokens in found]

    with process_group(job.captioning.processes, device) as group:
        parts = sharded(call, group, ranges(len(images), _PART), written, identity)
    captions = [caption for part in parts for caption in part]
    return [
        {"system": asked.system, "image": key, "caption": caption, **NOTHING}
        for key, caption in zip(images.keys, captions, strict=True)
    ]


@torch.no_grad()
def search(model: Any, pixels: Tensor, num_beams: int, max_tokens: int) -> list[list[int]]:
    """The tokens of each image's caption, without start and end; both count as two of ``max_tokens``. ``pixels`` (I, 3, H, W)."""
    latent, tokens_of_image = model._encode_image(pixels)
    known = torch.arange(len(pixels), device=pixels.device)  # the images that are still searched
    prefix: Tensor | None = None  # (I, B, T)

    def following(images: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        nonlocal known, prefix
        if prefix is None:
            prefix = tokens[..., None]
        else:
            before = prefix[torch.searchsorted(known, images)[:, None], parents]
            prefix = torch.cat([before, tokens[..., None]], dim=2)
        known = images
        rows = images.repeat_interleave(tokens.shape[1])
        out = model(None, prefix.flatten(0, 1), latent[rows], tokens_of_image[rows], output_labels=False)
        log_probs: Tensor = out["logits"][:, -1].float().log_softmax(dim=-1)
        return log_probs.view(*tokens.shape, -1)

    lengths: Any = {"min_tokens": _BEFORE_END - 1, "max_tokens": max_tokens - 2}
    how: Any = {"num_beams": num_beams, "start": _SOT, "end": _EOT, "length_penalty": 1.0, "device": pixels.device}
    return [list(best.tokens[:-1]) for best in beam_search(following, len(pixels), **lengths, **how)]
