"""A judge's choices for Table 3: how often each system is chosen, and a test whether the letter of an option matters."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown import ArtefactJob
from mdc.plan.records import UserError
from mdc.report.manifests import Manifests, as_rows, table_of
from mdc.report.statistics.estimate import Estimate, estimate
from mdc.report.statistics.replicates import Items, resampled


@dataclass(frozen=True)
class Judged:
    """One ``contest`` {name, label, dataset, systems, records}, all seeds.

    ``share``: how often each system is chosen, in per cent of the images with an answer for every seed. ``answers``: status →
    count; ``letters``: how often each letter is chosen; equal captions share a vote.

    ``letter_p``: the p of the letters' counts if letters do not matter. Letters are drawn for each image and seed, so captions
    cannot explain uneven counts. An image is one observation, whatever the number of seeds.
    """

    contest: Mapping[str, Any]
    share: dict[str, Estimate]
    answers: Counter[str]
    letters: dict[str, float]
    letter_p: float


def judged(job: ArtefactJob, manifests: Manifests, contest: Mapping[str, Any]) -> Judged:
    """A contest's choices; UserError if no image got an answer with every seed."""
    tables = [table_of(manifests, name, "judged.parquet") for name in contest["records"]]
    seeds = [[row for row in as_rows(table) if row["contest"] == contest["name"]] for table in tables]
    answered = [{row["image"]: row for row in rows if row["votes"]} for rows in seeds]
    images = tuple(image for image in answered[0] if all(image in seed for seed in answered))
    if not images:
        raise UserError(f"{contest['label']}: no image got an answer with every seed; let the judge choose again")

    def votes(system: str) -> list[Items]:
        by_seed = [
            [dict(zip(seed[i]["systems"], seed[i]["votes"], strict=True))[system] for i in images] for seed in answered
        ]
        return [Items(images, np.array(votes_of_seed), images, kind="share") for votes_of_seed in by_seed]

    shares = resampled({system: votes(system) for system in contest["systems"]}, job.statistics.bootstrap)
    share = {system: estimate(chosen.times(100), job.statistics.level) for system, chosen in shares.items()}
    # the votes of each image, summed over the seeds with an answer
    every = dict.fromkeys(image for seed in answered for image in seed)
    placed = np.array([np.sum([seed[image]["votes"] for seed in answered if image in seed], axis=0) for image in every])
    letters = dict(zip(ascii_uppercase, placed.sum(axis=0).tolist(), strict=False))
    answers = Counter(row["status"] for rows in seeds for row in rows)
    return Judged(contest, share, answers, letters, places_p(placed))


def places_p(votes: NDArray[np.float64]) -> float:
    """The probability of places at least as uneven as the sums of ``votes`` (N, K), if places did not matter.

    A row has the votes of one item by place, whole or shared. If places do not matter, each row is exchangeable, so the sums
    have a known covariance: Σ over rows of s² · K/(K − 1) · (I − 1/K) with s² the variance within the row. Where each row is
    one whole vote this is the usual chi-square test. 1.0 if no row prefers any place. Dependent votes, such as several on one
    item, belong in one row.
    """
    from scipy.special import chdtrc

    count = votes.shape[1]
    centred = votes - votes.mean(axis=1, keepdims=True)
    spread = float((centred**2).sum()) / (count - 1)
    if spread <= 1e-12 * len(votes):
        return 1.0
    return float(chdtrc(count - 1, float((centred.sum(axis=0) ** 2).sum()) / spread))
