"""The job of a table or figure, from the values that its module gives."""

from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.jobs import overlaps
from mdc.plan.jobs.context import Context
from mdc.plan.jobs.shown import ArtefactJob, plain


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
    if any(file.endswith(".png") for file in artefact.files):
        shown = {system.method.key for system in values.get("systems", ())}
        shown |= {curve["method"] for curve in values.get("curves", ())}
        methods = plan.params.methods.items()
        values["styles"] = [(key, *method.style) for key, method in methods if key in shown and method.style]
    # the configurations of sets are not pinned: an equal set that other code wrote gives the same table
    expected = {key: job.sha256 for key, job in jobs.items() if job is not None and job.verb != "corpus"}
    if name not in ARTEFACTS:
        values |= {"kind": artefact.kind, "title": artefact.title}
    values |= {"artefact": name, "files": list(artefact.files), "expected": expected}
    own = values.keys() - ArtefactJob.model_fields.keys()
    values["more"] = plain({key: values.pop(key) for key in list(values) if key in own})
    return plan.make(ArtefactJob, name, list(jobs), [artefact.module, *modules], scale_label=plan.scale.label, **values)
