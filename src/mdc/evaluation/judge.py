"""The job ``mdc judge-captions``: which of several captions depicts each image best (paper, section 4.2).

Writes ``judged.parquet``, a row per contest and image: the letters of the systems, the chosen letter, the start of the answer for
an audit, and each system's vote; and last ``judged.json`` with counts of statuses and of chosen letters.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.judge_endpoint import Answer, Endpoint, Question, question, votes
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.evaluation.system_captions import read_systems
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import JudgeJob
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError, read_json, sha256_json, write_json

_COLUMNS: Columns = {
    **{"contest": "word", "image": "string", "systems": ["string"], "status": "word", "letter": "string"},
    **{"answer": "string", "votes": ["float64"]},
}
#: statuses of answers that are kept. An answer without a letter is counted, but requested again when the job is rerun, as are
#: time-outs: endpoints are not deterministic, and the parser of answers may have changed
_KEPT = ("chosen", "refused")
#: statuses without an answer, and how many of them in a row mean that the endpoint is down
_LOST, _DOWN = ("timed out", "failed"), 16


def main(call: Call) -> None:
    """``call.job``: a :class:`mdc.plan.jobs.model.JudgeJob`."""
    job: JudgeJob = call.job
    images = Captioned.open(call.input(f"data/corpora/{job.corpus}"), job.split, job.images)
    captions = {name: system.captions for name, system in read_systems(call, job.captions, images).items()}
    questions = [
        (contest, n, question(key, systems, [captions[system][key] for system in systems], job.order_seed, job.seed))
        for contest, systems in job.contests.items()
        for n, key in enumerate(images.keys)
    ]
    if isinstance(job.by, ByEndpoint):
        rows = _by_endpoint(call, job.by, images, questions)
    else:
        rows = _by_clip_score(call, job, images, questions)
    for contest in job.contests:
        if not any(row["letter"] for row in rows if row["contest"] == contest):
            counts = _counts(Counter(row["status"] for row in rows))
            first = next((f"; the first said: {row['answer']}" for row in rows if row["answer"]), "")
            raise UserError(f"{job.job}: the judge chose no caption in any answer ({counts}){first}")
    contests = {contest: _summary([row for row in rows if row["contest"] == contest]) for contest in job.contests}
    metadata = {"contests": contests, "images": len(images)}
    write_results(call, "judged", {"judged.parquet": (rows, _COLUMNS)}, metadata)


def _by_clip_score(
    call: Call, job: JudgeJob, images: Captioned, questions: Sequence[tuple[str, int, Question]]
) -> list[Row]:
    """The caption with the highest CLIPScore. Equal scores share the vote; the letter is that of the system that the contest
    names first. Letters are drawn independently of it, so no letter is favoured."""
    scores = _clip_scores(call, job)
    rows = []
    for contest, n, entry in questions:
        values = [scores[system][images.keys[n]] for system in entry.systems]
        best = [place for place, score in enumerate(values) if score == max(values)]
        best.sort(key=lambda place: job.contests[contest].index(entry.systems[place]))
        shares = [1 / len(best) if place in best else 0.0 for place in range(len(values))]
        rows.append(_row(contest, images.keys[n], entry, Answer("chosen", entry.letters[best[0]], ""), shares))
    return rows


def _clip_scores(call: Call, job: JudgeJob) -> dict[str, dict[str, float]]:
    import pyarrow.parquet as parquet

    scores: dict[str, dict[str, float]] = {}
    for name, expected in job.metrics.items():
        file, _ = recorded(call.input(name), "metrics.parquet", expected, job.job)
        for row in parquet.ParquetFile(file).read(columns=["system", "image", "CLIPScore"]).to_pylist():
            scores.setdefault(row["system"], {})[row["image"]] = row["CLIPScore"]
    return scores


def _by_endpoint(
    call: Call, config: ByEndpoint, images: Captioned, questions: Sequence[tuple[str, int, Question]]
) -> list[Row]:
    """Ask about each image and contest, several at a time; answers are kept, so a killed job resumes. UserError if more than a
    share of ``most_lost`` of the questions, or ``_DOWN`` in a row, got no answer."""
    from mdc.plan.progress import progress

    endpoint = Endpoint(config)

    def answered(entry: tuple[str, int, Question]) -> tuple[Row, bool]:
        contest, n, posed = entry
        key, data, _ = images.reader.read(n)
        name = sha256_json(endpoint.request(posed, data))
        place = call.cache / name[:2] / f"{name}.json"
        stored = _stored_answer(place)
        answer = stored or endpoint.ask(posed, data)
        if stored is None and answer.status in _KEPT:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_json(place, vars(answer))
        shares = list(votes(posed, answer.letter).values()) if answer.letter else None
        return _row(contest, key, posed, answer, shares), stored is None

    rows: list[Row] = []
    in_a_row, again = 0, "answers so far are kept; rerun to ask for the rest"
    with ThreadPoolExecutor(config.parallel) as pool:
        try:
            answers = pool.map(answered, questions)
            for row, asked in progress(answers, total=len(questions), desc=call.job.job, unit="answer", mininterval=1):
                # rejected questions count only until the endpoint has answered one
                rejected = row["status"] == "rejected" and not any(row["letter"] for row in rows)
                if asked:
                    in_a_row = in_a_row + 1 if rejected or row["status"] in _LOST else 0
                rows.append(row)
                if in_a_row >= _DOWN:
                    last = f"the last one {row['status']}: {row['answer']}"
                    raise UserError(f"{call.job.job}: {_DOWN} questions in a row got no answer ({last}); {again}")
        finally:
            pool.shutdown(cancel_futures=True)
    lost = Counter(row["status"] for row in rows if row["status"] in _LOST)
    if lost.total() > config.most_lost * len(rows):
        counts = f"{lost.total()} of {len(rows)} questions got no answer ({_counts(lost)})"
        raise UserError(f"{call.job.job}: {counts}, and most_lost allows {config.most_lost:.0%}; {again}")
    return rows


def _stored_answer(place: Path) -> Answer | None:
    try:
        return Answer(**read_json(place)) if place.is_file() else None
    except (UserError, TypeError):  # damaged, or of another version
        return None


def _counts(statuses: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in statuses.items())


def _row(contest: str, image: str, entry: Question, answer: Answer, shares: list[float] | None) -> Row:
    row = {"contest": contest, "image": image, "systems": list(entry.systems), "status": answer.status}
    return row | {"letter": answer.letter, "answer": answer.text, "votes": shares}


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    answers, letters = Counter(row["status"] for row in rows), Counter(row["letter"] for row in rows if row["letter"])
    return {"answers": dict(sorted(answers.items())), "letters": dict(sorted(letters.items()))}
