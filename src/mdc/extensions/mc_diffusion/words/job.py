"""The job ``mdc import-words``: the BPE token embeddings of an open_clip model, kept as safetensors.

Writes ``words.safetensors``, one tensor (49,408, E) in the order of CLIP's BPE tokens, and last ``words.json``.
"""

from mdc.extensions.mc_diffusion.jobs import WordsJob
from mdc.extensions.mc_diffusion.words.read import WORDS
from mdc.models.encoders.open_clip import created
from mdc.models.text import CLIP_SIZE
from mdc.models.weights import WEIGHTS_FORMAT, save_tensors
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, record
from mdc.plan.records import UserError, clear_leftovers, write_json


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.extensions.mc_diffusion.jobs.WordsJob`.

    UserError if the model is not available, has another vocabulary than CLIP's, or another embedding width than the scale's
    entry.
    """
    job: WordsJob = call.job
    try:
        model = created(job.entry.model, job.entry.weights, data_folder())
    except UserError as error:
        raise UserError(
            f"words.{job.name}: {error}; without a network, fetch the weights elsewhere (open_clip names where they lie) "
            f"and give their file below {data_folder()} as words.{job.name}.weights"
        ) from None
    text = getattr(model, "text", model)
    embedding = getattr(text, "token_embedding", None)
    shape = tuple(embedding.weight.shape) if embedding is not None else ()
    if shape != (CLIP_SIZE, job.entry.width):
        raise UserError(
            f"words.{job.name}: {job.entry.model} has embeddings of shape {shape or 'none'}; needed: "
            f"{(CLIP_SIZE, job.entry.width)}, those of CLIP's BPE tokens and of the width that the scale says"
        )
    assert embedding is not None
    clear_leftovers(call.out)
    path = call.out / WORDS
    metadata = {"format": WEIGHTS_FORMAT, "config_sha256": job.sha256}
    save_tensors(path, {"words": embedding.weight.detach().float().cpu().contiguous()}, metadata)
    write_json(call.out / "words.json", record(call, "words", [path]) | {"width": job.entry.width})
