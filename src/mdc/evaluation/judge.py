"""The job ``mdc judge-captions``: which of several captions depicts each image best (paper, section 4.2).

Writes ``judged.parquet``, a row per contest and image: the letters of the systems, the chosen letter, and each system's vote;
and last ``judged.json`` with counts of statuses and of chosen letters.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.judges.endpoint import Answer, Endpoint, Question, question, votes
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.evaluation.system_captions import read_systems
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import JudgeJob
from mdc.plan.outputs import recorded
from mdc.plan.records import UserError, read_json, sha256_json, write_json

_COLUMNS: Columns = {
    **{"contest": "word", "image": "string", "systems": ["string"], "status": "word", "letter": "string"},
    **{"waits": "int32", "votes": ["float64"]},
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
            statuses = Counter(row["status"] for row in rows)
            counts = ", ".join(f"{n} {status}" for status, n in statuses.items())
            first = next((f"; the first said: {row['said']}" for row in rows if row.get("said")), "")
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
        rows.append(_row(contest, images.keys[n], entry, "chosen", entry.letters[best[0]], 0, shares))
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
    """Ask about each image and contest, several at a time; answers are kept, so a killed job resumes."""
    from mdc.plan.progress import progress

    endpoint, losses = Endpoint(config), _Losses(call.job.job)

    def answered(entry: tuple[str, int, Question]) -> Row:
        contest, n, posed = entry
        key, data, _ = images.reader.read(n)
        identity: dict[str, Any] = {"image": sha256(data).hexdigest(), "text": posed.text, "model": config.model}
        identity |= {"instruction": config.instruction, "max_tokens": config.max_tokens, "answer": config.answer}
        name = sha256_json(identity)
        place = call.cache / name[:2] / f"{name}.json"
        answer = _stored_answer(place)
        if answer is None:
            losses.before()
            reply = endpoint.ask(posed, data)
            losses.after(reply)
            answer = vars(reply)
            if reply.status in _KEPT:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_json(place, answer)
        letter = answer["letter"]
        shares = [votes(posed, letter)[system] for system in posed.systems] if letter else None
        row = _row(contest, key, posed, answer["status"], letter, answer["waits"], shares)
        return row | {"limits": answer.get("limits", 0), "said": answer["text"]}

    with ThreadPoolExecutor(config.parallel) as pool:
        futures = [pool.submit(answered, entry) for entry in questions]
        try:
            rows = [done.result() for done in progress(futures, desc=call.job.job, unit="answer", mininterval=1)]
            losses.few(rows, config.most_lost)
            return rows
        finally:
            for future in futures:  # after an error, cancel the rest
                future.cancel()


class _Losses:
    """Questions without an answer: the job ``name`` ends when too many in a row, or too many in all, get none."""

    def __init__(self, name: str) -> None:
        self.name, self._lock, self._in_a_row, self._answers = name, Lock(), 0, False
        self._down: UserError | None = None

    def before(self) -> None:
        """Raise the UserError of `after` again, so that other threads stop asking."""
        with self._lock:
            if self._down is not None:
                raise self._down

    def after(self, answer: Answer) -> None:
        """UserError after ``_DOWN`` losses in a row. Rejected questions count only until the endpoint has answered one."""
        with self._lock:
            none = answer.status in _LOST or (answer.status == "rejected" and not self._answers)
            self._in_a_row = self._in_a_row + 1 if none else 0
            self._answers |= answer.status == "chosen"
            if self._in_a_row >= _DOWN:
                message = f" ({answer.text})" if answer.text else ""
                self._down = UserError(
                    f"{self.name}: {_DOWN} questions in a row got no answer, the last one {answer.status}{message}; "
                    "answers so far are kept; rerun when the endpoint responds"
                )
                raise self._down

    def few(self, rows: Sequence[Row], limit: float) -> None:
        """UserError if more than a share of ``limit`` of all questions got none."""
        lost = Counter(row["status"] for row in rows if row["status"] in _LOST)
        if lost.total() > limit * len(rows):
            counts = ", ".join(f"{count} {status}" for status, count in lost.items())
            raise UserError(
                f"{self.name}: {lost.total()} of {len(rows)} questions got no answer ({counts}), and most_lost allows "
                f"{limit:.0%}; answers so far are kept; rerun to ask for the rest"
            )


def _stored_answer(place: Path) -> dict[str, Any] | None:
    try:
        answer = read_json(place) if place.is_file() else None
    except UserError:
        return None
    return answer if answer is not None and answer.get("status") in _KEPT else None


def _row(
    contest: str, image: str, entry: Question, status: str, letter: str | None, waits: int, shares: list[float] | None
) -> Row:
    row = {"contest": contest, "image": image, "systems": list(entry.systems), "status": status, "letter": letter}
    return row | {"waits": waits, "votes": shares}


def _summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    letters = Counter(row["letter"] for row in rows if row["letter"])
    return {
        "answers": dict(sorted(Counter(row["status"] for row in rows).items())),
        "waits": sum(row["waits"] for row in rows),
        "limits": sum(row.get("limits", 0) for row in rows),
        "letters": dict(sorted(letters.items())),
    }
