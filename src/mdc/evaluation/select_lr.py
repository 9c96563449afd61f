"""The job ``mdc select-lr``: choose a method's learning rate, the one whose runs' probes have the best mean over seeds.

Writes ``lr.json`` with the rate (``lr``) and every value (``tried``: rate → its probes' values, one for each seed). All methods
of a scale are tuned alike: the same rates, seeds and items (:class:`mdc.plan.config.pretrain.LrSelection`).
"""

from statistics import fmean

from mdc.plan.jobs.call import Call, record
from mdc.plan.jobs.model import SelectLrJob
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError, write_json


def main(call: Call) -> None:
    """Run the job. ``call``: a :class:`mdc.plan.jobs.call.Call` with job, input and out.

    UserError if the best rate is the least or the greatest, since a better one may lie beyond: a person adds one to the grid.
    """
    job: SelectLrJob = call.job

    def value(probe: str, config_sha256: str) -> float:
        _, told = recorded(call.input(probe), "items.parquet", config_sha256, job.job)
        return float(told["probes"][job.by]["value"])

    tried = {lr: [value(*probe) for probe in probes.items()] for lr, probes in job.tried}
    means = {lr: fmean(values) for lr, values in tried.items()}
    best = max(means, key=lambda lr: (means[lr], -lr))  # of equal ones the least
    if best in (min(means), max(means)):
        curve = ", ".join(f"{lr:g}: {mean:.2f}" for lr, mean in means.items())
        beyond = f"below {best:g}" if best == min(means) else f"above {best:g}"
        raise UserError(
            f"{job.job}: the best learning rate is at the edge of the grid ({job.by}: {curve}); add one {beyond} to "
            "pretrain.lr_selection.grid"
        )
    values = [{"lr": lr, "values": values, "mean": means[lr]} for lr, values in tried.items()]
    write_json(call.out / "lr.json", record(call, "lr", []) | {"lr": best, "by": job.by, "tried": values})
