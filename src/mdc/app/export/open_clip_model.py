"""A run as an open_clip model: its configuration, and its weights under open_clip's names.

CLIP fits whole: our text tower is open_clip's transformer. Its embedding gets a row for every token of CLIP's vocabulary, which
open_clip's tokenizer uses; tokens outside the run's vocabulary are zeros. A captioner has no text embedding. Its encoder becomes
the image tower with the probed feature (paper, section 4.2: the mean of the patch tokens after the final norm). open_clip needs a
text tower, so a small one of zeros is added: it gives all texts the same embedding.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from mdc.methods.contrastive.model import Contrastive
from mdc.models.build import build_for
from mdc.models.decoder import TextTransformer
from mdc.models.normalise import OPENAI_MEAN, OPENAI_STD
from mdc.models.runs import RunModel
from mdc.models.text import CLIP_EOT, CLIP_SIZE, CLIP_SOT, Vocabulary
from mdc.plan.config.kinds.backbones import Backbone, Decoder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError, read_json

#: the file that open_clip reads first, and the weights beside it
CONFIG, WEIGHTS = "open_clip_config.json", "open_clip_model.safetensors"
#: what ``text_tower`` of our part of the configuration says
TRAINED, NONE = "trained", "none"
_SMALLEST = Decoder(width=8, layers=1, heads=1)


def cannot(job: PretrainJob) -> str | None:
    """Why open_clip cannot run such a model; None if it can."""
    if isinstance(job.backbone, Backbone) and job.backbone.only_here:
        return job.backbone.only_here
    if job.method.embeds_captions and job.protocol.pretrain.clip_text_attention != "causal":
        return (
            "its text tower looks at whole captions without padding (protocol.pretrain.clip_text_attention: bidirectional), "
            "which open_clip's cannot"
        )
    return None


def metadata(run: str) -> dict[str, str]:
    """Metadata of the weights file, in one key, since several have no fixed order."""
    return {"mdc": json.dumps({"format": "open_clip", "run": run}, sort_keys=True)}


def feature(clip: bool) -> str:
    """What ``encode_image`` gives, in words."""
    if clip:
        return "[CLS] after the final norm, projected"
    return "the mean of the patch tokens after the final norm, which is what the linear probe sees"


def parts(run: RunModel, facts: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """(open_clip's configuration, its weights) of a run that it can run. ``facts``: further facts under
    "mdc"."""
    job = run.job
    assert isinstance(job.backbone, Backbone)
    clip = job.method.embeds_captions
    model = run.load()
    shape = job.backbone.decoder if clip else _SMALLEST
    embedded = job.backbone.embed_dim if clip else job.backbone.width
    config = {
        "model_cfg": {
            "embed_dim": embedded,
            "vision_cfg": _vision(job.backbone, "tok" if clip else "avg"),
            "text_cfg": {
                "context_length": job.protocol.data.context_length,
                "vocab_size": CLIP_SIZE,
                "width": shape.width,
                "heads": shape.heads,
                "layers": shape.layers,
            },
        },
        "preprocess_cfg": {
            "mean": list(OPENAI_MEAN),
            "std": list(OPENAI_STD),
            "interpolation": "bicubic",
            "resize_mode": "shortest",
        },
        "mdc": {**facts, "config": job.config(), "feature": feature(clip), "text_tower": TRAINED if clip else NONE},
    }
    weights = {f"visual.{name}": value for name, value in model.encoder.tower.state_dict().items()}
    if clip:
        weights |= {"visual.proj": model.image_projection.weight.T, **_texts(model, run.vocabulary)}
    else:
        weights |= {"visual.proj": torch.eye(embedded), **_no_texts(job, embedded)}
    return config, {name: value.detach().float().contiguous() for name, value in weights.items()}


def _vision(backbone: Backbone, pool: str) -> dict[str, Any]:
    return {
        "image_size": backbone.image_size,
        "patch_size": backbone.patch_size,
        "width": backbone.width,
        "layers": backbone.layers,
        "head_width": backbone.width // backbone.heads,
        "mlp_ratio": 4.0,
        "pool_type": pool,
    }


def _texts(model: Contrastive, vocabulary: Vocabulary) -> dict[str, Tensor]:
    """CLIP's text tower with all of CLIP's BPE tokens."""
    return {
        **_transformer(model.text, _all_pieces(model.text.token_embedding.weight, vocabulary)),
        "text_projection": model.text_projection.weight.T,
        "logit_scale": model.logit_scale,
    }


def _no_texts(job: PretrainJob, embedded: int) -> dict[str, Tensor]:
    text = TextTransformer(_SMALLEST, 1, job.protocol.data.context_length, causal=True, seed=0)
    weights = _transformer(text, torch.zeros(CLIP_SIZE, _SMALLEST.width))
    weights |= {"text_projection": torch.zeros(_SMALLEST.width, embedded), "logit_scale": torch.zeros(())}
    return {name: torch.zeros_like(value) for name, value in weights.items()}


def _transformer(text: TextTransformer, embedding: Tensor) -> dict[str, Tensor]:
    weights = {
        "token_embedding.weight": embedding,
        "positional_embedding": text.positional_embedding,
        "ln_final.weight": text.norm.weight,
        "ln_final.bias": text.norm.bias,
    }
    for number, block in enumerate(text.blocks):
        for name, value in block.state_dict().items():
            weights[f"transformer.resblocks.{number}.{_NAMES[name]}"] = value
    return weights


#: a layer's parameters: ours → open_clip's
_NAMES = {
    "norm_self.weight": "ln_1.weight",
    "norm_self.bias": "ln_1.bias",
    "self_attention.qkv.weight": "attn.in_proj_weight",
    "self_attention.qkv.bias": "attn.in_proj_bias",
    "self_attention.out.weight": "attn.out_proj.weight",
    "self_attention.out.bias": "attn.out_proj.bias",
    "norm_mlp.weight": "ln_2.weight",
    "norm_mlp.bias": "ln_2.bias",
    "mlp.0.weight": "mlp.c_fc.weight",
    "mlp.0.bias": "mlp.c_fc.bias",
    "mlp.2.weight": "mlp.c_proj.weight",
    "mlp.2.bias": "mlp.c_proj.bias",
}


def _all_pieces(embedding: Tensor, vocabulary: Vocabulary) -> Tensor:
    """Rows in CLIP's numbering; ours for [MASK] is dropped."""
    if vocabulary.pieces is None:
        return embedding[:CLIP_SIZE]
    rows = torch.zeros(CLIP_SIZE, embedding.shape[1])
    rows[[*vocabulary.pieces, CLIP_SOT, CLIP_EOT]] = embedding[: vocabulary.size].detach()
    return rows


# --- and back ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exported(RunModel):
    """A run read back from :func:`parts`: a whole CLIP, or a captioner's encoder alone."""

    def load(self) -> Any:
        """The model; of a captioner, all but its encoder has initial weights."""
        model = build_for(self.job, self.vocabulary.size)
        try:
            weights = load_file(self.checkpoint)
            tower = {name.removeprefix("visual."): w for name, w in weights.items() if name.startswith("visual.")}
            projection = tower.pop("proj")
            model.encoder.tower.load_state_dict(tower)
            if self.job.method.embeds_captions:
                model.image_projection.weight.data.copy_(projection.T)
                _read_texts(model, self.vocabulary, weights)
        except (OSError, SafetensorError, RuntimeError, KeyError) as error:
            raise UserError(
                f"{self.checkpoint}: does not fit {CONFIG} ({' '.join(str(error).split())[:200]})"
            ) from None
        return model


def read(folder: Path) -> tuple[Exported, dict[str, Any]]:
    """A run of a folder that ``mdc export`` wrote, and what its configuration says of it. UserError if somebody else, or an
    earlier version, wrote it."""
    record = read_json(folder / CONFIG).get("mdc")
    if not isinstance(record, dict) or "config" not in record:
        raise UserError(f"{folder / CONFIG}: says of no run how it was trained; export the run again with this version")
    job: PretrainJob = as_job(record["config"], "pretrain", str(folder / CONFIG))
    pieces = record.get("pieces")
    vocabulary = Vocabulary.from_json({"kind": "full"} if pieces is None else {"kind": "corpus", "pieces": pieces})
    return Exported(folder / WEIGHTS, job, vocabulary), record


def _read_texts(model: Contrastive, vocabulary: Vocabulary, weights: dict[str, Tensor]) -> None:
    """CLIP's text tower from open_clip's names; [MASK]'s row, which CLIP never reads, keeps its initial weights."""
    text, rows = model.text, weights["token_embedding.weight"]
    chosen = rows if vocabulary.pieces is None else rows[[*vocabulary.pieces, CLIP_SOT, CLIP_EOT]]
    text.token_embedding.weight.data[: vocabulary.size].copy_(chosen)
    text.positional_embedding.data.copy_(weights["positional_embedding"])
    text.norm.load_state_dict({name: weights[f"ln_final.{name}"] for name in ("weight", "bias")})
    for number, block in enumerate(text.blocks):
        prefix = f"transformer.resblocks.{number}."
        block.load_state_dict({ours: weights[prefix + theirs] for ours, theirs in _NAMES.items()})
    model.text_projection.weight.data.copy_(weights["text_projection"].T)
    model.logit_scale.data.copy_(weights["logit_scale"])
