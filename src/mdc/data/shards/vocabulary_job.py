"""The job ``mdc vocabulary``: the BPE tokens that models read and predict."""

from mdc.data.shards.index import read_index
from mdc.models.text import Vocabulary
from mdc.plan.jobs.call import Call, write_made
from mdc.plan.records import write_json

VOCABULARY = "vocabulary.json"


def main(call: Call) -> None:
    """Run the job: ``call.job`` is a :class:`mdc.plan.jobs.model.VocabularyJob`."""
    if call.job.kind == "full":
        vocabulary = Vocabulary.full()
    else:
        vocabulary = Vocabulary.corpus(*(read_index(path)["pieces"] for path in call.manifests.values()))
    path = call.out / VOCABULARY
    write_json(path, vocabulary.to_json())
    write_made(call, [path])
