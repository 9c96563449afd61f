"""The provenance of a job as text: record, command, run time, log, configuration, library versions."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mdc.checks.differences import leaves
from mdc.checks.place import Place, read
from mdc.plan.verbs import VERBS

_INDENT = 14
#: jobs of these stages decide a number; their configurations and versions are printed
_CONFIGURED = ("trainings", "probes", "scoring", "captions")


def story(place: Place, jobs: Iterable[str]) -> list[str]:
    """One section per job, in order; after a verb's first job only the differences in configuration."""
    text: list[str] = []
    first: dict[str, Mapping[str, Any]] = {}
    versions: Any = None
    for job in jobs:
        record, verb = read(place.record(job)), place.jobs[job].verb
        text += ["", *_job(place, job, record)]
        if VERBS[verb].stage in _CONFIGURED:
            if record.get("versions") != versions:
                versions = record.get("versions")
                text.append(line("versions", _joined(versions)))
            text += _config(record.get("config", {}), first.get(verb))
            first.setdefault(verb, record.get("config", {}))
        for edit in place.plan.edits.get(job, []):
            text.append(
                line("edit", f"code {edit.old[:12]}… → {edit.new[:12]}…, accepted on {edit.date}: {edit.reason}")
            )
    return text


def _job(place: Place, job: str, record: Mapping[str, Any]) -> list[str]:
    path = place.record(job)
    text = [job, line("record", str(path) if path.is_file() else f"{path} is missing")]
    if "samples_seen" in record:
        training = f"{record['steps']} steps, {record['samples_seen']} samples seen, last loss {record['loss']:.3f}"
        text.append(line("training", training))
    for name, sha256 in record.get("outputs", {}).items():
        if name.endswith(".safetensors"):
            text.append(line("checkpoint", f"{path.parent / name}, sha256 {sha256[:12]}…"))
    host = place.host(job)
    if not host:
        return [*text, line("command", "not known: no host file of this record is here"), _log(place, job)]
    threads = f"{host['threads']} thread{'' if host['threads'] == 1 else 's'}" if "threads" in host else None
    where = ", ".join(filter(None, (host.get("device"), host["processor"], host["machine"], threads)))
    speed = f", {host['images_per_second']:.0f} images/s" if host.get("images_per_second") else ""
    earlier = f", {host['seconds_before']:.0f} s of them before a restart" if host.get("seconds_before") else ""
    return [
        *text,
        line("command", host["command"]),
        line("run time", f"{host['seconds']:.1f} s{earlier}{speed} ({where})"),
        _log(place, job, host["log"]),
    ]


def _log(place: Place, job: str, logged: str | None = None) -> str:
    path = Path(logged) if logged else place.folder.log(job)
    return line("log", str(path) if path.is_file() else f"{path} (not here)")


def _config(config: Mapping[str, Any], before: Mapping[str, Any] | None) -> list[str]:
    """A resolved configuration; for a later seed only what differs from the first's."""
    if not config:
        return []
    if before is not None:
        changed = ", ".join(f"{path} {new}" for path, _, new in leaves(before, config) if path != "job")
        return [line("config", f"as the first one's, but {changed}")]
    text = yaml.safe_dump(dict(config), sort_keys=False, default_flow_style=None, width=100, allow_unicode=True)
    return [line("config", ""), *(f"    {row}" for row in text.rstrip().splitlines())]


def _joined(versions: Mapping[str, str] | None) -> str:
    return ", ".join(f"{name} {version}" for name, version in (versions or {}).items()) or "not known"


def line(name: str, text: str) -> str:
    """``  name        text``, the layout of every line of `mdc why`."""
    return f"  {name:<{_INDENT - 2}}{text}".rstrip()
