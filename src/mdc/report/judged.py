"""A judge's choices that Table 3 was handed: how often each system is chosen, and whether the letter mattered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mdc.plan.jobs.shown_captions import CaptionTableJob, ShownContest
from mdc.plan.records import UserError, sha256_file
from mdc.report.estimates import Estimator
from mdc.report.given import Given, path_of, record_of
from mdc.report.items import mean_items
from mdc.report.statistics.interval import Interval
from mdc.report.statistics.places import places_p

_VOTES = "votes"


@dataclass(frozen=True)
class Judged:
    """One contest on one dataset, all seeds. ``share``: of each system, how often it is chosen, in per cent of the ``images``
    that got an answer with every seed. ``answers``: how they ended; ``letters``: how often each letter was chosen, all seeds;
    equal captions at several letters share a vote here too.

    ``letter_p``: the probability of letters at least as uneven if they did not matter. Letters are drawn anew for each image
    and seed, so captions cannot explain it. An image is one observation, however many seeds captioned it: a judge that
    answers alike for all of them would else look the surer the more seeds there are.
    """

    contest: ShownContest
    share: dict[str, Interval]
    images: int
    answers: Counter[str]
    letters: dict[str, float]
    letter_p: float


def judged(job: CaptionTableJob, given: Given, estimator: Estimator) -> list[Judged]:
    """Every contest; UserError if a record is missing, stale, or not that of its choices."""
    return [_contest(job, given, estimator, contest) for contest in job.contests]


def _contest(job: CaptionTableJob, given: Given, estimator: Estimator, contest: ShownContest) -> Judged:
    answers: Counter[str] = Counter()
    by_image: dict[str, NDArray[np.float64]] = {}
    seeds = []
    for name in contest.records:
        record, path = record_of(job, given, name), path_of(job, given, name)
        rows = [row for row in _rows(path, record) if row["contest"] == contest.name]
        answers.update(row["status"] for row in rows)
        for row in rows:
            if row["votes"]:
                by_image[row["image"]] = by_image.get(row["image"], 0.0) + np.array(row["votes"])
        seeds.append(
            {row["image"]: dict(zip(row["systems"], row["votes"], strict=True)) for row in rows if row["votes"]}
        )
    images = [image for image in seeds[0] if all(image in seed for seed in seeds)]
    if not images:
        raise UserError(f"{contest.label}: no image got an answer with every seed; let the judge choose again")
    share = {}
    for system in contest.systems:
        group = [
            {_VOTES: mean_items(tuple(images), np.array([seed[image][system] for image in images]))} for seed in seeds
        ]
        share[system] = estimator.level(group, [_VOTES])
    placed = np.stack(list(by_image.values()))
    letters = dict(zip(_alphabet(len(contest.systems)), placed.sum(axis=0).tolist(), strict=True))
    return Judged(contest, share, len(images), answers, letters, places_p(placed))


def _rows(path: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.parquet as parquet

    file = path.parent / "judged.parquet"
    if record.get("kind") != "judged" or sha256_file(file) != record.get("outputs", {}).get(file.name):
        raise UserError(f"{file}: not the choices that {path} names; let the judge choose again")
    try:
        return list(parquet.ParquetFile(file).read().to_pylist())
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(
            f"{file}: no choices can be read from it ({str(error)[:200]}); let the judge choose again"
        ) from None


def _alphabet(count: int) -> list[str]:
    return [chr(ord("A") + place) for place in range(count)]
