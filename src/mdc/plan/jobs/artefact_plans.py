"""The job of a table or figure, from the values that its module gives, and the plan of those that show logs of runs."""

from typing import Any

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.types import Parameters
from mdc.plan.jobs import overlaps
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.ids import Run
from mdc.plan.jobs.shown import ArtefactJob, System, plain

#: the values that a plan gives a job
Values = dict[str, Any]


def artefact_job(plan: Context, name: str) -> ArtefactJob:
    """The job of a table or figure. Its plan returns its own values; under ``jobs`` its inputs, by name the job whose
    configuration must be the current one, or None; and under ``modules`` the modules that it loads by name."""
    artefact = plan.scale.tables.artefacts[name]
    values = artefact.load("plan")(plan, name, plan.scale.tables[name])
    values |= overlaps.seen(plan, values)
    jobs, modules = values.pop("jobs"), values.pop("modules", [])
    if artefact.category == "Tables" and "columns" in values:  # warnings of overfitting need their logs
        rows = [system for system in values.get("systems", ()) if system.weights != "best"]
        runs = (f"runs/{run}" for system in rows for run in system.runs)
        jobs |= {run: plan.made[run] for run in runs if run in plan.made}
    # the configurations of sets are not pinned: an equal set that other code wrote gives the same table
    expected = {key: job.sha256 for key, job in jobs.items() if job is not None and job.verb != "corpus"}
    if name not in ARTEFACTS:
        values |= {"kind": artefact.kind, "title": artefact.title}
    values |= {"artefact": name, "files": list(artefact.files), "expected": expected}
    own = values.keys() - ArtefactJob.model_fields.keys()
    values["more"] = plain({key: values.pop(key) for key in list(values) if key in own})
    return plan.make(ArtefactJob, name, list(jobs), [artefact.module, *modules], scale_label=plan.scale.label, **values)


def losses(plan: Context, name: str, table: Parameters) -> Values:
    """The logs of all runs, which are beside the runs' manifests."""
    by_system: dict[str, list[Run]] = {}
    for run in plan.runs:
        if not run.finetune:  # its loss is on another corpus than its run's
            by_system.setdefault(run.system, []).append(run)
    jobs = {run.id: plan.pretrain(run) for runs in by_system.values() for run in runs}
    systems = [
        System(
            key=key,
            **plan.labels(runs[0]),
            runs=[run.id for run in runs],
            records=[jobs[run.id].job for run in runs],
            more={
                "seeds": [run.seed for run in runs],
                "objective": method.objective,
                "t_range": method.masked_share and list(method.masked_share),
            },
        )
        for key, runs in by_system.items()
        for method in [jobs[runs[0].id].method]
    ]
    return {"jobs": {job.job: job for job in jobs.values()}, "systems": systems}
