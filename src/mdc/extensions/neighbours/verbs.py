"""The verb that counts tokens."""

from mdc.plan.verb import Verb

VERBS = {
    "frequencies": Verb(
        stage="data",
        layer="data/frequencies",
        module="mdc.extensions.neighbours.superclass.frequencies",
        jobs="mdc.extensions.neighbours.jobs",
        record="made.json",
        manifest="frequencies.json",
        text="count in how many training captions of a corpus each token occurs",
    ),
}
