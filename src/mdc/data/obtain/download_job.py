"""The job ``mdc download``: one group of a data set's parts.

A part is one of the plan of a list of URLs, or a file of a mirror. Writes ``downloaded.json``; the downloads are in the data
set's folder, which all groups fill. When all groups are done, ``mdc obtain`` finds everything there and summarises it.
"""

from typing import Any

from mdc.data.obtain.job import head, way, with_runtime
from mdc.plan.data_folder import data_folder
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.records import read_json, write_json
from mdc.plan.registry.datasets import REGISTRY

RECORD = "downloaded.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.DownloadJob`."""
    job = call.job
    record, packages = _mirrored(call) if way(job.complete()) == "mirror" else _downloaded(call)
    written = call.out / RECORD
    write_json(written, {"kind": "downloaded", **head(call), "group": job.group, "groups": job.groups, **record})
    write_made(call, [written], packages)


def _mirrored(call: Call) -> tuple[dict[str, Any], dict[str, str]]:
    from mdc.data.obtain.hub import fetch_group

    job = call.job
    folder = data_folder() / job.dataset.path
    return fetch_group(job.complete(), REGISTRY.get(job.name), folder, job.group, job.groups), {}


def _downloaded(call: Call) -> tuple[dict[str, Any], dict[str, str]]:
    from mdc.data.obtain.urls import download_group, package_versions

    job = call.job
    (planned,) = call.manifests.values()
    config = with_runtime(job.complete(), call.runtime)
    record = download_group(config, data_folder(), read_json(planned)["plan_sha256"], job.group, job.groups)
    return record, package_versions()
