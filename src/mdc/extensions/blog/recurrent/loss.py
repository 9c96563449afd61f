"""The objective ``recurrent``: an LSTM with soft attention predicts each token (Xu et al., 2015), as ARC supervises it.

The loss of a caption is −log p(y | a) + λ Σ_i (1 − Σ_t α_ti)² (their equation 14), which spreads attention over all parts of an
image; the loss of a batch is the sum over captions, divided by tokens. λ is the method's ``doubly_stochastic``.
"""

from mdc.extensions.blog.recurrent.model import RecurrentCaptioner
from mdc.training.objectives.captioning import CaptioningObjective
from mdc.training.objectives.left_to_right import supervise
from mdc.training.objectives.objective import Setup

build_model = RecurrentCaptioner


def build_objective(model: RecurrentCaptioner, setup: Setup) -> CaptioningObjective:
    """See :class:`mdc.training.objectives.objective.ObjectiveModule`. ``loss`` is the cross-entropy alone, in nats per token as
    ARC's, ``attention`` the second term; their sum is minimised."""
    terms = {"loss": 1.0, "attention": setup.method.doubly_stochastic}
    return CaptioningObjective(model, supervise, setup, terms=terms)
