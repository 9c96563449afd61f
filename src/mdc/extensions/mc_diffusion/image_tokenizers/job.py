"""The job ``mdc tokenizer``: a VQ-VAE of a corpus's images, trained or imported.

Writes ``tokenizer.safetensors``, after training ``reconstructions.png`` (held-out images above their reconstructions), and last
``tokenizer.json``. The codebook is vector-quantize-pytorch's: a moving average of each code's vectors, initialised by k-means,
dead codes replaced.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mdc.data.loader.center_crops import center_crops, corpus_images
from mdc.data.loader.shuffle import shuffled
from mdc.data.shards.index import ShardReader, read_index
from mdc.extensions.mc_diffusion.image_tokenizers.codes import tokenizer_of
from mdc.extensions.mc_diffusion.image_tokenizers.gumbel_vqgan import renamed
from mdc.extensions.mc_diffusion.image_tokenizers.vq_vae import VqTokenizer, perplexity, pixels, psnr
from mdc.extensions.mc_diffusion.jobs import TokenizerJob
from mdc.extensions.mc_diffusion.kinds import GumbelVqgan, VqVae
from mdc.models.encoders.tower import fill, weights_of_file
from mdc.models.initial import seeded
from mdc.models.weights import WEIGHTS_FORMAT, save_weights
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, record
from mdc.plan.processes.interrupts import Interrupted, Interrupts
from mdc.plan.progress import progress
from mdc.plan.records import UserError, atomic_path, clear_leftovers, sha256_file, write_json
from mdc.training.device import choose_device
from mdc.training.state import Position, Saver, States

TOKENIZER, PICTURE = "tokenizer.safetensors", "reconstructions.png"
_SHOWN = 8  # images in reconstructions.png
_SAVE_EVERY = 60  # seconds between two states, at least


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.extensions.mc_diffusion.jobs.TokenizerJob`."""
    job: TokenizerJob = call.job
    clear_leftovers(call.out)
    call.out.mkdir(parents=True, exist_ok=True)
    metrics: dict[str, Any]
    if isinstance(job.entry, GumbelVqgan):
        tokenizer, metrics = _imported(job.entry, job.name), {}
    else:
        tokenizer, metrics = _trained(call, job.entry)
    path = call.out / TOKENIZER
    save_weights(path, tokenizer, {"format": WEIGHTS_FORMAT, "config_sha256": job.sha256})
    outputs = [path, *([call.out / PICTURE] if metrics else [])]
    # the codebook is no parameter of its own
    parameters = sum(value.numel() for value in tokenizer.state_dict().values())
    write_json(call.out / "tokenizer.json", record(call, "tokenizer", outputs) | {"parameters": parameters} | metrics)
    _states(call).clear()


def _imported(entry: GumbelVqgan, name: str) -> nn.Module:
    path = data_folder() / entry.path
    if not path.is_file():
        raise UserError(f"tokenizers.{name}: {path} is not there; mdc data check vqgan_gumbel_f8 says where to get it")
    tokenizer = tokenizer_of(entry)
    state = weights_of_file(path)
    try:
        weights = renamed(state)
    except KeyError as error:
        raise UserError(f"{path}: no Gumbel VQGAN, for it has no {error.args[0]}") from None
    fill(tokenizer, weights, path)
    return tokenizer


class Trained(nn.Module):
    """A tokenizer with the quantiser that learns its codebook."""

    def __init__(self, entry: VqVae) -> None:
        super().__init__()
        from vector_quantize_pytorch import VectorQuantize

        self.tokenizer = VqTokenizer(entry)
        self.quantiser = VectorQuantize(
            dim=entry.width,
            codebook_size=entry.codes,
            decay=0.95,
            commitment_weight=entry.commitment,
            kmeans_init=True,
            threshold_ema_dead_code=1,
        )

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """(B, 3, S, S) in [−1, 1] → the squared error of the pixels, and that of the vectors, weighted."""
        quantised, _, commitment = self.quantiser(self.tokenizer.vectors(images))
        return F.mse_loss(self.tokenizer.images(quantised), images), commitment.sum()

    def settled(self) -> VqTokenizer:
        """The tokenizer with the learnt codebook."""
        self.tokenizer.codebook.copy_(self.quantiser.codebook.detach().view_as(self.tokenizer.codebook))
        return self.tokenizer


def _trained(call: Call, entry: VqVae) -> tuple[VqTokenizer, dict[str, Any]]:
    recipe = entry.recipe
    torch.set_num_threads(recipe.threads)
    device = choose_device(recipe.device)
    corpus = call.input(f"data/corpora/{entry.corpus}")
    splits = read_index(corpus, verify="auto", kind="corpus")["splits"]
    reader = ShardReader(corpus, "train")
    if len(reader) < max(recipe.batch_size, entry.codes):
        raise UserError(
            f"{corpus}: {len(reader)} training images are too few for batches of {recipe.batch_size} and {entry.codes} codes"
        )
    # layers, the initial codebook and replacements of dead codes are drawn from the global generator
    with seeded(recipe.seed, "tokenizer"):
        model = Trained(entry).to(device)
        _train(call, model, reader, entry, device)
    tokenizer = model.settled().eval()
    measured_on = "val" if splits.get("val", {}).get("samples") else "train"
    return tokenizer, _measured(call, tokenizer, corpus, measured_on, entry, device)


def _train(call: Call, model: Trained, reader: ShardReader, entry: VqVae, device: torch.device) -> None:
    """Train to the last epoch. A killed training resumes from its last state; SIGINT and SIGTERM save one, as for a run."""
    recipe = entry.recipe
    optimizer = torch.optim.AdamW(model.parameters(), recipe.lr, weight_decay=0.0, fused=True)
    states = _states(call)
    per_epoch = len(reader) // recipe.batch_size
    position = states.load(model, optimizer)
    first, steps = position.step if position is not None else 0, recipe.epochs * per_epoch
    model.train()
    shown = progress(total=steps, initial=first, desc=call.job.job, unit="step")
    with Interrupts() as interrupts, Saver(states, _SAVE_EVERY) as saver, shown as bar:
        for done in range(first, steps):
            epoch, place = divmod(done, per_epoch)
            if not place or done == first:
                order = shuffled(np.arange(len(reader)), len(reader), recipe.seed, epoch)
            numbers = order[place * recipe.batch_size :][: recipe.batch_size].tolist()
            images = pixels(center_crops(reader, numbers, entry.image_size)[0].to(device))
            error, commitment = model(images)
            loss = error + commitment
            value = float(loss.detach())
            if not math.isfinite(value):
                raise UserError(f"{call.job.job}: the loss is {value} in epoch {epoch}; lower recipe.lr")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            bar.update()
            bar.set_postfix(loss=f"{value:.4f}", refresh=False)
            number = interrupts.number
            if number or done + 1 == steps or saver.due():
                saver.begin(model, optimizer, Position(done + 1))
            if number:
                saver.wait()
                raise Interrupted.saved(number, done + 1, steps)


@torch.no_grad()
def _measured(
    call: Call, tokenizer: VqTokenizer, corpus: Path, split: str, entry: VqVae, device: torch.device
) -> dict[str, Any]:
    """Peak signal-to-noise ratio in dB and usage of codes, on held-out images (training images where there are none)."""
    reader = ShardReader(corpus, split)
    error, count = 0.0, 0
    counted = torch.zeros(entry.codes, dtype=torch.int64)
    shown: list[Tensor] = []
    for batch in corpus_images(corpus, split, image_size=entry.image_size, batch_size=64, start=0, stop=len(reader)):
        images = pixels(batch.to(device))
        codes = tokenizer.codes(tokenizer.vectors(images))
        reconstructed = tokenizer.images(tokenizer.codebook[codes]).clamp(-1, 1)
        error += float(F.mse_loss(reconstructed, images, reduction="sum"))
        count += images.numel()
        counted += torch.bincount(codes.flatten().cpu(), minlength=entry.codes)
        if not shown:
            shown = [images[:_SHOWN].cpu(), reconstructed[:_SHOWN].cpu()]
    _picture(call.out / PICTURE, shown)
    metrics = {"psnr": psnr(error / count), "used": int((counted > 0).sum()), "perplexity": perplexity(counted.numpy())}
    return {"measured_on": split, "images": len(reader), **metrics}


def _picture(path: Path, rows: list[Tensor]) -> None:
    """Rows of images (N, 3, S, S) in [−1, 1] as one PNG, scaled up to a width of at most 1200 pixels."""
    from PIL import Image

    grid = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
    array = ((grid.permute(1, 2, 0) + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()
    image = Image.fromarray(array)
    times = max(1200 // image.width, 1)
    with atomic_path(path) as temporary:
        image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST).save(
            temporary, format="PNG"
        )


def _states(call: Call) -> States:
    inputs = {name: sha256_file(path) for name, path in call.manifests.items()}
    return States.among(call.out / "state", call.job.config(), inputs)
