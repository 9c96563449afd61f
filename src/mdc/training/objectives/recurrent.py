"""The objective ``recurrent``: an LSTM with soft attention predicts each token (Xu et al., 2015), as ARC supervises it.

Of a caption the loss is −log p(y | a) + λ Σ_i (1 − Σ_t α_ti)² (their equation 14), so that every part of an image is looked
at about once; of a batch, the sum over its captions, divided by its tokens, as with the other captioners. λ is the method's
``doubly_stochastic``.
"""

from __future__ import annotations

from mdc.models.recurrent import RecurrentCaptioner
from mdc.training.objectives.captioning import CaptioningObjective
from mdc.training.objectives.left_to_right import supervise
from mdc.training.objectives.objective import Setup

build_model = RecurrentCaptioner


def build_objective(model: RecurrentCaptioner, setup: Setup) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`. ``loss`` is the cross-entropy alone, in nats per token as
    ARC's, and ``attention`` the second term; both are learnt."""
    assert setup.method.doubly_stochastic is not None  # the schema sees to it
    terms = {"loss": 1.0, "attention": setup.method.doubly_stochastic}
    return CaptioningObjective(model, supervise, setup, terms=terms)
