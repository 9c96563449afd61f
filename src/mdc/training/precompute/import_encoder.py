"""The job ``mdc import-encoder``: the weights of a frozen encoder, kept as safetensors.

Writes ``encoder.safetensors`` and last ``encoder.json``. No later job needs the network or a package for these weights.
"""

from mdc.models.encoders.tower import TOWER, fetched, shape_of
from mdc.models.weights import save_weights
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, record
from mdc.plan.jobs.model import EncoderJob
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError, clear_leftovers, write_json


def main(call: Call) -> None:
    """Run the job. ``call.job``: a :class:`mdc.plan.jobs.model.EncoderJob`.

    UserError if the weights are not available, or if the encoder's tokens differ from the scale's entry.
    """
    job: EncoderJob = call.job
    checkpoint = None
    if (behind := job.behind) is not None:
        checkpoint, _ = recorded(call.input(behind.job), behind.file, behind.config_sha256, job.job)
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
