"""Find a run's folder by its id, folder or name on the hub."""

from pathlib import Path

from mdc.plan.records import UserError, did_you_mean

RESULTS = Path("results")


def run_folder(run: str, params: str = "params.yaml", scale: str | None = None) -> Path:
    """The folder of a run. ``run``: a folder, an id of ``scale``, or an export of ``mdc export``, here or as ``hub:OWNER/NAME``
    on the Hugging Face hub. For an export for open_clip alone, that folder, which has no run.json.

    Without ``scale``, an id refers to the scale of ``params``, else to the only other scale that has it. UserError if no scale
    has it, with the command that makes it if it is planned, or several have.
    """
    if run.startswith("hub:"):
        return _exported(_fetched(run.removeprefix("hub:")))
    folder = Path(run)
    if (folder / "run.json").is_file():
        return folder
    if (folder / "mdc").is_dir() or (folder / "open_clip_config.json").is_file():
        return _exported(folder)
    default = scale
    if not default and Path(params).is_file():  # a person may have a trained folder and no repository
        from mdc.plan.config.read import load

        default = load(params).scale
    name = run.removeprefix("runs/")
    scales = sorted(folder.name for folder in RESULTS.glob("*") if (folder / "runs" / name / "run.json").is_file())
    matching = [default] if default in scales else [] if scale else scales
    if len(matching) == 1:
        return RESULTS / matching[0] / "runs" / name
    if scales:
        raise UserError(f"run {run}: scale {default} has no such run, but {', '.join(scales)} have; choose by scale")
    ids = sorted(
        {str(path.parent.relative_to(runs)) for runs in RESULTS.glob("*/runs") for path in runs.rglob("run.json")}
    )
    planned = list[str]()
    if Path(params).is_file():
        from mdc.checks.chain import Chain

        chain = Chain(params, scale)
        if f"runs/{name}" in chain.jobs:
            command = chain.update(f"runs/{name}")
            raise UserError(f"run {run}: planned at scale {chain.scale} and not made yet; to make it: {command}")
        planned = [job.removeprefix("runs/") for job in chain.jobs if job.startswith("runs/")]
    hint = did_you_mean(name, [*ids, *planned])
    raise UserError(
        f"run {run}: no folder with a run.json, and no scale's run{hint}; runs: {', '.join(ids[:8]) or 'none yet'}"
    )


def _exported(folder: Path) -> Path:
    """The run within an exported folder, or the folder itself if it is open_clip's alone."""
    manifests = sorted((folder / "mdc").rglob("run.json"))
    if len(manifests) == 1:
        return manifests[0].parent
    if manifests or not (folder / "open_clip_config.json").is_file():
        raise UserError(f"{folder}: holds {len(manifests)} runs; needed: one, as `mdc export` writes it")
    return folder


def _fetched(name: str) -> Path:
    """A model folder of the hub, fetched."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=["mdc/**", "open_clip_*"]))
    except Exception as error:  # the hub's client raises many kinds
        raise UserError(f"hub:{name}: cannot be fetched ({' '.join(str(error).split())[:200]})") from None
