"""The job ``mdc import-encoder``: the weights of a frozen encoder, kept as safetensors.

Writes ``encoder.safetensors`` and last ``encoder.json``. No later job needs the network or a package for these weights.
"""

from pathlib import Path

from mdc.models.encoders.tower import shape_of
from mdc.models.runs import WEIGHTS, read_run
from mdc.models.towers import TOWER, fetched
from mdc.models.weights import save_weights
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, record
from mdc.plan.jobs.encoder_model import EncoderJob
from mdc.plan.records import UserError, clear_leftovers, read_json, sha256_file, write_json


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.plan.jobs.encoder_model.EncoderJob`.

    UserError if the weights are not available, or if the encoder's tokens differ from the scale's entry.
    """
    job: EncoderJob = call.job
    checkpoint = None
    if job.run is not None:
        path = call.input(job.run)
        checkpoint, manifest = read_run(path, WEIGHTS[getattr(job.entry, "weights", None) or "last"])
        if manifest.get("config_sha256") != job.run_config_sha256:
            raise UserError(f"{path}: made with another configuration than {job.job} expects; retrain the run")
    if job.tokenizer is not None:
        checkpoint = _tokenizer(call.input(job.tokenizer.job), job)
    tower = fetched(job, data_folder(), checkpoint)
    size, expected = job.entry.image_size, (job.entry.tokens, job.entry.width)
    _, count, width = shape_of(tower, size, f"encoders.{job.name}")
    if (count, width) != expected:
        raise UserError(
            f"encoders.{job.name}: gives {count} tokens of width {width} of an image of {size} × {size} pixels; "
            f"tokens and width say {expected[0]} and {expected[1]}"
        )
    clear_leftovers(call.out)
    weights = call.out / TOWER
    save_weights(weights, tower, {"config_sha256": job.sha256})
    fields = {"mean": list(tower.mean), "std": list(tower.std), "parameters": tower.learnt()}
    write_json(call.out / "encoder.json", record(call, "encoder", [weights]) | fields)


def _tokenizer(path: Path, job: EncoderJob) -> Path:
    assert job.tokenizer is not None
    manifest = read_json(path)
    if manifest.get("config_sha256") != job.tokenizer.config_sha256:
        raise UserError(f"{path}: made with another configuration than {job.job} expects; make the tokenizer again")
    weights = path.parent / "tokenizer.safetensors"
    if sha256_file(weights) != manifest["outputs"].get(weights.name):
        raise UserError(f"{weights}: not the weights that {path} names (its sha256 differs); make the tokenizer again")
    return weights
