"""The job ``mdc judge-captions``: which of several captions depicts each image best (paper, section 4.2).

Writes ``judged.parquet``, a row a contest and image: which letter stood for which system, which one was chosen, and what each
system gets; and last ``judged.json`` with how the answers ended and how often each letter was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any

from mdc.evaluation.captioned import Captioned
from mdc.evaluation.judges.endpoint import Answer, Endpoint
from mdc.evaluation.judges.question import Question, question, votes
from mdc.evaluation.row_files import Columns, Row, write_results
from mdc.evaluation.written import recorded, written
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.model import JudgeJob
from mdc.plan.records import UserError, read_json, sha256_json, write_json

_COLUMNS: Columns = {
    **{"contest": "word", "image": "string", "systems": ["string"], "status": "word", "letter": "string"},
    **{"waits": "int32", "votes": ["float64"]},
}
#: answers that are kept. One that names no letter is counted but asked for again when the job starts again, as what timed out is:
#: few endpoints answer alike twice, though they are asked to, and what reads their answers may have learnt more since
_KEPT = ("chosen", "refused")
#: no answers at all, and how many in a row without any mean that the endpoint is down, or takes no question
_LOST, _DOWN = ("timed out", "failed"), 16


def main(call: Call) -> None:
    """``call.job``: a :class:`mdc.plan.jobs.model.JudgeJob`."""
    job: JudgeJob = call.job
    images = Captioned.open(call.input(f"data/corpora/{job.corpus}"), job.split, job.images)
    captions = {name: one.captions for name, one in written(call, job.captions, images).items()}
    asked = [
        (contest, n, question(key, systems, [captions[system][key] for system in systems], job.order_seed, job.seed))
        for contest, systems in job.contests.items()
        for n, key in enumerate(images.keys)
    ]
    if isinstance(job.by, ByEndpoint):
        rows = _by_endpoint(call, job.by, images, asked)
    else:
        rows = _by_clip_score(call, job, images, asked)
    for contest in job.contests:
        if not any(row["letter"] for row in rows if row["contest"] == contest):
            said = Counter(row["status"] for row in rows)
            first = next((f"; the first said: {row['said']}" for row in rows if row.get("said")), "")
            raise UserError(
                f"{job.job}: the judge chose no caption in any answer ({', '.join(f'{n} {s}' for s, n in said.items())}){first}"
            )
    told = {contest: _told([row for row in rows if row["contest"] == contest]) for contest in job.contests}
    more = {"contests": told, "images": len(images)}
    write_results(call, "judged", {"judged.parquet": (rows, _COLUMNS)}, more)


def _by_clip_score(
    call: Call, job: JudgeJob, images: Captioned, asked: Sequence[tuple[str, int, Question]]
) -> list[Row]:
    """The caption with the highest CLIPScore; equal scores share the vote, and the letter is that of the system among them
    that the contest names first: letters are drawn without regard to that, so no letter is favoured."""
    scores = _clip_scores(call, job)
    rows = []
    for contest, n, one in asked:
        found = [scores[system][images.keys[n]] for system in one.systems]
        best = [place for place, score in enumerate(found) if score == max(found)]
        best.sort(key=lambda place: job.contests[contest].index(one.systems[place]))
        shares = [1 / len(best) if place in best else 0.0 for place in range(len(found))]
        rows.append(_row(contest, images.keys[n], one, "chosen", one.letters[best[0]], 0, shares))
    return rows


def _clip_scores(call: Call, job: JudgeJob) -> dict[str, dict[str, float]]:
    import pyarrow.parquet as parquet

    found: dict[str, dict[str, float]] = {}
    for name, expected in job.metrics.items():
        file, _ = recorded(call.input(name), "metrics.parquet", expected, job.job, "measure")
        for row in parquet.ParquetFile(file).read(columns=["system", "image", "CLIPScore"]).to_pylist():
            found.setdefault(row["system"], {})[row["image"]] = row["CLIPScore"]
    return found


def _by_endpoint(
    call: Call, how: ByEndpoint, images: Captioned, asked: Sequence[tuple[str, int, Question]]
) -> list[Row]:
    """Ask for each image and contest, several at a time; what was answered is kept, so a killed job resumes."""
    from mdc.plan.progress import progress

    endpoint, losses = Endpoint(how), _Losses(call.job.job)

    def one(entry: tuple[str, int, Question]) -> Row:
        contest, n, asked_one = entry
        key, data, _ = images.reader.read(n)
        known: dict[str, Any] = {"image": sha256(data).hexdigest(), "text": asked_one.text, "model": how.model}
        known |= {"instruction": how.instruction, "max_tokens": how.max_tokens, "answer": how.answer}
        name = sha256_json(known)
        place = call.cache / name[:2] / f"{name}.json"
        answer = _kept(place)
        if answer is None:
            losses.before()
            said = endpoint.ask(asked_one, data)
            losses.after(said)
            answer = vars(said)
            if said.status in _KEPT:
                place.parent.mkdir(parents=True, exist_ok=True)
                write_json(place, answer)
        letter = answer["letter"]
        shares = [votes(asked_one, letter)[system] for system in asked_one.systems] if letter else None
        row = _row(contest, key, asked_one, answer["status"], letter, answer["waits"], shares)
        return row | {"limits": answer.get("limits", 0), "said": answer["text"]}

    with ThreadPoolExecutor(how.parallel) as pool:
        waiting = [pool.submit(one, entry) for entry in asked]
        try:
            rows = [done.result() for done in progress(waiting, desc=call.job.job, unit="answer", mininterval=1)]
            losses.few(rows, how.most_lost)
            return rows
        finally:
            for left in waiting:  # after the first that cannot be, the others are not asked
                left.cancel()


class _Losses:
    """Questions that get no answer: the job ``name`` ends when none gets one any more, and when too many got none."""

    def __init__(self, name: str) -> None:
        self.name, self._lock, self._in_a_row, self._answers = name, Lock(), 0, False
        self._down: UserError | None = None

    def before(self) -> None:
        """The UserError of `after`, once it was raised: a thread that has not asked yet does not ask any more."""
        with self._lock:
            if self._down is not None:
                raise self._down

    def after(self, answer: Answer) -> None:
        """UserError after so many in a row that the endpoint must be down; the others are not asked then. One that has answered
        may reject as many questions as it likes."""
        with self._lock:
            none = answer.status in _LOST or (answer.status == "rejected" and not self._answers)
            self._in_a_row = self._in_a_row + 1 if none else 0
            self._answers |= answer.status == "chosen"
            if self._in_a_row >= _DOWN:
                said = f" ({answer.text})" if answer.text else ""
                self._down = UserError(
                    f"{self.name}: {_DOWN} questions in a row got no answer, the last one {answer.status}{said}; "
                    "answers so far are kept; rerun when the endpoint responds"
                )
                raise self._down

    def few(self, rows: Sequence[Row], most: float) -> None:
        """UserError if more than a share of ``most`` of all questions got none."""
        lost = Counter(row["status"] for row in rows if row["status"] in _LOST)
        if lost.total() > most * len(rows):
            how = ", ".join(f"{count} {status}" for status, count in lost.items())
            raise UserError(
                f"{self.name}: {lost.total()} of {len(rows)} questions got no answer ({how}), and most_lost allows "
                f"{most:.0%}; answers so far are kept; rerun to ask for the rest"
            )


def _kept(place: Path) -> dict[str, Any] | None:
    try:
        found = read_json(place) if place.is_file() else None
    except UserError:
        return None
    return found if found is not None and found.get("status") in _KEPT else None


def _row(
    contest: str, image: str, one: Question, status: str, letter: str | None, waits: int, shares: list[float] | None
) -> Row:
    told = {"contest": contest, "image": image, "systems": list(one.systems), "status": status, "letter": letter}
    return told | {"waits": waits, "votes": shares}


def _told(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    letters = Counter(row["letter"] for row in rows if row["letter"])
    return {
        "answers": dict(sorted(Counter(row["status"] for row in rows).items())),
        "waits": sum(row["waits"] for row in rows),
        "limits": sum(row.get("limits", 0) for row in rows),
        "letters": dict(sorted(letters.items())),
    }
