"""The job ``mdc download``: one group of a planned data set's parts, each downloaded and accounted for.

Leaves ``downloaded.json``; the shards lie in the data set's folder, which all groups fill. When all of them are done,
``mdc obtain`` finds every shard there, and gives the account of the whole.
"""

from __future__ import annotations

from mdc.formats.data_folder import data_folder
from mdc.jobs.call import Call, write_made
from mdc.obtain.job import head, with_runtime
from mdc.obtain.urls import download_group, package_versions
from mdc.records import read_json, write_json

RECORD = "downloaded.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.jobs.model.DownloadJob`."""
    job = call.job
    (planned,) = call.given.values()
    found = download_group(
        with_runtime(job.config(), call.runtime),
        data_folder(),
        read_json(planned)["plan_sha256"],
        job.group,
        job.groups,
    )
    written = call.out / RECORD
    write_json(written, {"kind": "downloaded", **head(call), "group": job.group, "groups": job.groups, **found})
    write_made(call, [written], package_versions())
