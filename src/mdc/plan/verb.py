"""What a verb of the pipeline says of itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Verb:
    """One verb.

    ``stage``: its group in the counts of the index page. ``layer``: the folder of its jobs below ``results/<scale>/``, a prefix
    of their names. ``module``: its ``main(call)`` does a job (see :class:`mdc.plan.jobs.call.Call`). ``jobs``: the module with
    the class of its jobs. ``text``: its help.

    In the job's folder, ``record`` is the file that holds its configuration (``config``), inputs (``inputs`` {job: sha256}) and
    outputs (``outputs`` {file: sha256}); ``manifest`` is the file that later jobs read and name by sha256. For data the two
    differ: a rerun that writes an equal set reruns nothing after it. ``outputs``: further files that the workflow must know.
    ``lists``: if the manifest lists files as {file, bytes, sha256}, their folder relative to the manifest's.

    ``options``: its further command-line options (see :data:`mdc.plan.verbs.OPTIONS`), each with the workflow's value: for
    ``runtime`` the block of the scale that is written to a file, for ``state`` and ``cache`` the folder below
    ``.state/<scale>/``, in which ``{job}`` is the job; None where the workflow does not use it. ``computes``: the key of the job
    that holds its device and number of threads and, if ``shared``, of processes. ``resumes``: a failed job is retried twice,
    resumes, and appends to its log.

    Besides its configuration and the manifests of its inputs, two kinds of files decide when a job reruns. ``reads``: the names
    of files of its inputs that must exist. ``watches``: the key of the job that names the user's own files; the job reruns when
    they change.
    """

    stage: str
    layer: str
    module: str
    record: str
    text: str
    manifest: str = ""
    outputs: tuple[str, ...] = ()
    options: Mapping[str, str | None] = field(default_factory=dict)
    computes: str = ""
    shared: bool = False
    resumes: bool = False
    reads: tuple[str, ...] = ()
    watches: str = ""
    lists: str = ""
    jobs: str = "mdc.plan.jobs.model"

    def __post_init__(self) -> None:
        object.__setattr__(self, "manifest", self.manifest or self.record)
