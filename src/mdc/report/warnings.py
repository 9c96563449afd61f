"""What a reader of a table or figure must know before its numbers: below its first block, in its record, on the index page."""

from mdc.plan.jobs.shown import ArtefactJob
from mdc.report import seen
from mdc.report.manifests import Manifests
from mdc.report.overfitting import overfitted


def warnings(job: ArtefactJob, manifests: Manifests) -> list[str]:
    """A sentence each: test images that were trained on, then runs that overfitted. Errors as of the records that are read."""
    return [*seen.sentences(job, manifests), *(overfitted(job, manifests) if job.columns else [])]
