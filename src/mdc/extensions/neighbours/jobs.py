"""The job that counts tokens, for SuperClass."""

from typing import TYPE_CHECKING, Literal

from mdc.plan.config.params import ProtocolData
from mdc.plan.jobs.job import Job

if TYPE_CHECKING:  # reading a job imports this module
    from mdc.plan.jobs.context import Context


class FrequenciesJob(Job):
    """Document frequencies of the training captions of the corpus in ``inputs``, truncated to the context."""

    verb: Literal["frequencies"]
    protocol: ProtocolData


def frequencies(plan: "Context", corpus: str) -> FrequenciesJob:
    """The job that counts the tokens of a corpus."""
    inputs = [plan.corpus(corpus).job]
    return plan.make(FrequenciesJob, f"data/frequencies/{corpus}", inputs, protocol=plan.params.protocol.data)
