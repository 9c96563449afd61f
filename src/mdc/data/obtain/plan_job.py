"""The job ``mdc plan-download``: what of a list of URLs will be asked for, fixed before several jobs download it.

Leaves ``planned.json``, which names the plan by its hash; the plan itself lies in the data set's folder
(:mod:`mdc.data.obtain.plan`).
"""

from __future__ import annotations

from mdc.data.obtain.job import head, with_list
from mdc.data.obtain.plan import PLAN
from mdc.data.obtain.urls import make_the_plan
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.records import sha256_file, write_json
from mdc.plan.registry.datasets import REGISTRY

RECORD = "planned.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.PlanDownloadJob`."""
    entry, folder = REGISTRY.get(call.job.name), data_folder() / call.job.dataset.path
    config, listed = with_list(call.job.complete(), entry, folder)
    plan = make_the_plan(config, entry, data_folder())
    counts = {"rows": plan["rows"], "chosen": plan["chosen"], "left_out": plan["left_out"], "parts": len(plan["parts"])}
    commit = {key: listed[key] for key in ("list_mirror",) if key in listed}
    written = call.out / RECORD
    told = {"kind": "planned", **head(call), **commit, **counts}
    write_json(written, {**told, "plan_sha256": sha256_file(folder / "plan" / PLAN)})
    write_made(call, [written])
