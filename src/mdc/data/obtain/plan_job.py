"""The job ``mdc plan-download``: fix which rows of a list of URLs are requested, before several jobs download them.

Writes ``planned.json``, which has the plan's hash; the plan itself is in the data set's folder (:mod:`mdc.data.obtain.plan`).
"""

from mdc.data.obtain.job import head, with_list
from mdc.data.obtain.plan import PLAN
from mdc.data.obtain.urls import plan_download
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.records import sha256_file, write_json
from mdc.plan.registry.datasets import REGISTRY

RECORD = "planned.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.PlanDownloadJob`."""
    entry, folder = REGISTRY.get(call.job.name), data_folder() / call.job.dataset.path
    config, listed = with_list(call.job.complete(), entry, folder)
    plan = plan_download(config, entry, data_folder())
    counts = {"rows": plan["rows"], "chosen": plan["chosen"], "left_out": plan["left_out"], "parts": len(plan["parts"])}
    commit = {key: listed[key] for key in ("list_mirror",) if key in listed}
    written = call.out / RECORD
    record = {"kind": "planned", **head(call), **commit, **counts}
    write_json(written, {**record, "plan_sha256": sha256_file(folder / "plan" / PLAN)})
    write_made(call, [written])
