"""The estimators that score an image and a caption, by name. :mod:`mdc.plan.config.score` lists those of each method.

:mod:`mdc.evaluation.predictors.score` implements them; this module imports nothing, so that validation and planning stay fast.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimator:
    """``label``: its label in a row, after the method's name ("" where the name is enough). ``text``: its definition, a sentence.

    ``sampled``: its masks are sampled, so a score has a standard error. ``nats``: it is a sum of log probabilities, so it has
    a per-token mean, and the score of a mismatched image can be subtracted.
    """

    label: str
    text: str
    sampled: bool = False
    nats: bool = True


ESTIMATORS = {
    "cosine": Estimator("", "the cosine of image and caption", nats=False),
    "bag_of_words": Estimator(
        "bag of words", "Σ log softmax over the set of the caption's tokens, whatever their order and number"
    ),
    "likelihood": Estimator("", "Σ log p(c_i | c_<i, V) (the paper's equation 7)"),
    "monte_carlo": Estimator("Monte Carlo", "the lower bound on log p(c | V) of the paper's equation 8", sampled=True),
    "monte_carlo_range": Estimator(
        "Monte Carlo, trained range",
        "the mean of equation 8's terms over numbers of masks within the range of t in training, which is no bound",
        sampled=True,
    ),
    "heuristic": Estimator(
        "Heuristic", "the paper's N steps: at each, the masked place of the highest confidence is scored and shown"
    ),
    "parallel": Estimator("parallel", "Σ log p(c_i | V) from the fully masked caption, in one pass"),
    "fixed_ratio": Estimator(
        "fixed ratio",
        "equation 8's term at the number of masks nearest to the trained ratio, which is no bound",
        sampled=True,
    ),
    "pseudo_likelihood": Estimator("pseudo-likelihood", "Σ log p(c_i | all other tokens, V), which is no likelihood"),
}

#: captions that CLIPScore's model could not read unchanged: name of the count in a record → its text in a table
CLIP_COUNTS = {
    "cut": "captions were longer than its context and lost their end",
    "unknown": "captions had tokens that are not in its vocabulary, and were scored without these",
    "empty": "captions had no word that it can read, and scored 0",
    "long_references": "references were longer than its context and were left out",
}
