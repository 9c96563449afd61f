"""The objective ``timed``: that of masked methods, with a decoder that is conditioned on t (MDC's paper, section 3.2, leaves it
out)."""

from mdc.data.loader.batch import CaptionBatch
from mdc.methods.masked import loss as masked
from mdc.models.build import ModelSetup
from mdc.models.captioner import Captioner
from mdc.training.objectives.captioning import CaptioningObjective, Supervision
from mdc.training.objectives.objective import Setup

of_run, schedule_of = masked.of_run, masked.schedule_of


def build_model(setup: ModelSetup) -> Captioner:
    """As of masked methods, with adaptive layer norms."""
    places = setup.context_length
    return Captioner(setup.backbone, setup.vocabulary_size, places, causal=False, seed=setup.seed, timed=True)


def build_objective(model: Captioner, setup: Setup, canvas: int | None = None) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule` and :func:`mdc.methods.masked.loss.build_objective`."""
    schedule = schedule_of(setup.method, setup.protocol)

    def supervised(batch: CaptionBatch, global_batch: int) -> Supervision:
        found = masked.supervise(setup.method, setup.protocol, setup.mask_id, batch, global_batch)
        return found._replace(extra_inputs={"times": schedule.draw(batch.jitter, batch.place, global_batch)})

    return CaptioningObjective(model, supervised, setup, masked.canvas_transform(canvas))
