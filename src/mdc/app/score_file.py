"""``mdc score FILE``: scores of all captions of a table, written as a table.

An interrupted call resumes (:mod:`mdc.app.resumable`). An image is read and encoded once for all its captions.
"""

import argparse
import csv
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from mdc.app.answers import Score, left_out
from mdc.app.export.features import Pixels, pixels_of
from mdc.app.export.pictures import Files, Piece, Rows, pieces_of
from mdc.app.model import load_from_args
from mdc.app.resumable import computed, fill, kept, parts_beside, processes_of
from mdc.app.scores import Scores
from mdc.data.formats.captions import caption_name
from mdc.data.formats.samples import texts_of
from mdc.data.formats.table_rows import kind_of
from mdc.data.sources.corpora.caption_table import image_name
from mdc.data.sources.named_table import RIGHT, TAKEN, WRONG, NamedTable
from mdc.plan.records import UserError, atomic_path, sha256_file, sha256_json, write_text
from mdc.report.statistics.estimate import estimate
from mdc.report.statistics.replicates import Items, resampled

_IMAGES = 8  # per part
_RESAMPLES = 2000  # of images, for the interval of a share of rows
_NO_WORD = "no word that the run's vocabulary has"

Row = dict[str, Any]
#: row, column and text of a caption
CaptionCell = tuple[int, str, str]
#: an image's key → its captions
Captions = Mapping[str, Sequence[CaptionCell]]


@dataclass(frozen=True)
class Part:
    """Some images and their captions, which are scored and kept together."""

    images: Piece
    captions: Captions

    def __len__(self) -> int:
        return sum(map(len, self.captions.values()))


@dataclass(frozen=True)
class Scorer:
    """``size``: pixels per side of the model's input; ``columns``: of the output."""

    scores: Scores
    size: int
    columns: Sequence[str]

    def decoded(self, part: Part) -> tuple[Pixels, Captions]:
        """The input of ``scored``."""
        return pixels_of(part.images, self.size), part.captions

    def scored(self, decoded: tuple[Pixels, Captions]) -> list[Row]:
        """A row for each caption."""
        pixels, captions = decoded
        rows = [self.row(key, caption, reason) for key, reason in pixels.bad for caption in captions.get(key, ())]
        by_image: dict[bytes, list[tuple[str, CaptionCell]]] = {}  # by image: equal ones are encoded once
        first: dict[bytes, int] = {}
        for number, (key, image) in enumerate(zip(pixels.keys, pixels.images, strict=True)):
            for caption in captions.get(key, ()):
                if problem := self._problem(caption[-1]):
                    rows.append(self.row(key, caption, problem))
                else:
                    content = image.numpy().tobytes()
                    first.setdefault(content, number)
                    by_image.setdefault(content, []).append((key, caption))
        if by_image:
            texts = [[caption[-1] for _, caption in group] for group in by_image.values()]
            scores = self.scores.of(pixels.images[list(first.values())], texts)
            pairs = zip(chain(*by_image.values()), chain(*scores), strict=True)
            rows += [self.row(*pair, _NO_WORD if score.score != score.score else "", score) for pair, score in pairs]
        return rows

    def _problem(self, caption: str) -> str:
        try:
            self.scores.tokens(caption)
        except UserError as error:
            return str(error)
        return ""

    def row(self, image: str, caption: CaptionCell, problem: str, score: Score | None = None) -> Row:
        """A row of the output. ``image`` as in the table; ``problem``: why there is no score, or ""."""
        values = score.plain() if score is not None else {"tokens": []}
        values["tokens"] = [{"token": token, "value": value} for token, value in values["tokens"]]
        number, column, text = caption
        values |= {"row": number, "image": image, "column": column, "caption": text, "problem": problem or None}
        return {name: values.get(name) for name in self.columns}


def main(args: argparse.Namespace) -> None:
    """``args``: image (the table), out, run, estimator, weights, samples, seed, mismatched, tokens, processes, params, scale.

    UserError at the end if a row has no score.
    """
    path, out = Path(args.image), Path(args.out or "")
    if kind_of(path) is None:
        raise UserError(f"{path}: no CAPTION follows it; allowed: an image and captions, or a table ({TAKEN})")
    if out.suffix not in _WRITERS:
        problem = f" {args.out}" if args.out else " is missing"
        raise UserError(f"--out{problem}: needed: a file to write, whose name ends in {', '.join(_WRITERS)}")
    if out.exists():
        raise UserError(f"--out {out}: already exists; choose another file, or delete it")
    processes = processes_of(args.processes)
    model = load_from_args(args)
    drawing = {"samples": args.samples, "seed": args.seed, "mismatched": args.mismatched}
    scores = model.scores(args.estimator, **drawing)
    columns = ["row", "image", "column", "caption", "score", "error", "estimator", *["tokens"] * args.tokens]
    columns += [*["mismatched", "mismatched_error"] * args.mismatched, "unknown", "problem"]
    scorer = Scorer(scores, model.job.backbone.image_size, columns)
    parts, rows, right = _parts(path, scorer)
    request = {
        "table": sha256_file(path),
        "images": sha256_json([_seal(file) for part in parts for file in part.images.files()]),
        "checkpoint": sha256_file(model.run.checkpoint),
        "config": model.job.sha256,
        "options": {**drawing, "estimator": scores.estimator, "columns": columns},
    }
    args.interrupted = partial(kept, out, ".json")
    with parts_beside(out, request, ".json", "is scoring this table") as folder:
        compute = partial(
            computed, decode=scorer.decoded, compute=scorer.scored, device=model.device, processes=processes
        )
        files = fill(folder, ".json", parts, compute, _keep, desc="scores", unit="caption")
        rows += [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
        rows.sort(key=lambda row: row["row"])
        with atomic_path(out) as temporary:
            _write_rows(temporary, rows, columns)
    print(f"{out}: {len(rows)} rows, {scores.estimator} of {model.name} ({model.weights} weights)")
    if right is not None:
        print(_won(rows, right))
    _complain(out, rows)


def _keep(path: Path, rows: list[Row]) -> None:
    write_text(path, json.dumps(rows))


def _won(rows: Sequence[Row], right: str) -> str:
    """How often the caption of the column ``right`` has the highest score of its row, a tie among k as 1/k; rows without all
    scores, or with tokens that a score leaves out, do not count. Rows of one image are resampled together."""
    by: dict[int, list[Row]] = {}
    for row in rows:
        by.setdefault(row["row"], []).append(row)
    won, images, unknown = dict[str, float](), [], 0
    for number, group in by.items():
        scores = [row["score"] for row in group]
        if [row["column"] for row in group].count(right) == 1 and len(group) > 1 and None not in scores:
            if any(row.get("unknown") for row in group):  # fewer tokens mostly score higher
                unknown += 1
                continue
            highest = [row["column"] for row in group if row["score"] == max(scores)]
            won[str(number)] = (right in highest) / len(highest)
            images.append(group[0]["image"])
    apart = f"; {unknown} more rows do not count, for the vocabulary lacks words of theirs" if unknown else ""
    if not won:
        return f"no row has a right caption and a wrong one with scores{apart}"
    values = np.array(list(won.values()))
    text = f"the right caption ({right}) scores highest in {values.sum():.4g} of {len(won)} rows: {100 * values.mean():.1f} %"
    if len(set(images)) < 2:
        return f"{text}, all of one image{apart}"
    items = Items(tuple(won), values, tuple(images), kind="answers")
    accuracy = estimate(resampled({right: [items]}, _RESAMPLES)[right].times(100))
    if accuracy.low is None or accuracy.high is None:
        return f"{text}{apart}"
    return f"{text}, 95 % interval {accuracy.low:.1f} to {accuracy.high:.1f}{apart}"


def _complain(out: Path, rows: Sequence[Row]) -> None:
    """Print problems by image and unknown tokens to stderr; UserError if rows have no score."""
    if warning := left_out(token for row in rows for token in row["unknown"] or ()):
        print(f"mdc score: {warning}", file=sys.stderr)
    bad: dict[tuple[str, str], dict[int, None]] = {}
    for row in rows:
        if row["problem"]:
            bad.setdefault((row["image"], row["problem"]), {})[row["row"]] = None
    for (image, problem), numbers in bad.items():
        listed = ", ".join(map(str, list(numbers)[:8])) + ", …" * (len(numbers) > 8)
        print(f"row {listed}: {f'{image}: ' * bool(image)}{problem}", file=sys.stderr)
    if bad:
        count = sum(bool(row["problem"]) for row in rows)
        raise UserError(
            f"{count} of {len(rows)} rows have no score; each is named above and in the column problem of {out}"
        )


# --- the table --------------------------------------------------------------------------------------------------------


def _parts(path: Path, scorer: Scorer) -> tuple[list[Part], list[Row], str | None]:
    """The table's images with their captions, in the order of their first rows; rows of the output for those without an image
    or a caption; and the column of right captions, if others hold wrong ones."""
    table = NamedTable(path)
    image, right, wrong = table.image_column(), None, table.called(WRONG)
    if wrong:
        captions = [right := table.columns("the right captions", RIGHT)[0], *wrong]
    else:
        captions = table.columns("captions", caption_name)
    stored = table.holds_bytes(image)
    by_image: dict[str, list[CaptionCell]] = {}
    bad = []
    for number, row, complaint in table.rows(captions if stored else [image, *captions]):
        name = str(number) if stored else _text(image_name(str(row.get(image) or "").strip() or "."))
        texts = [(column, _text(text)) for column in captions for text in texts_of(row.get(column)) if text.strip()]
        if problem := complaint or ("row names no image" if name == "." else "" if texts else "no caption"):
            bad.append(scorer.row("" if name == "." else name, (number, "", ""), problem))
        else:
            by_image.setdefault(name, []).extend((number, *text) for text in texts)
    if not by_image:
        reason = f"; row {bad[0]['row']}: {bad[0]['problem']}" if bad else ""
        raise UserError(f"{path}: no row has an image and a caption{reason}")
    if not stored:
        names = iter(by_image)
        groups = iter(lambda: tuple(islice(names, _IMAGES)), ())
        return [Part(Files(path.parent, part), {name: by_image[name] for name in part}) for part in groups], bad, right
    parts = []
    for rows in (piece for piece in pieces_of(path, image, None) if isinstance(piece, Rows)):
        for start in range(0, len(rows), _IMAGES):
            piece = replace(rows, key=None, first=rows.first + start, count=min(_IMAGES, len(rows) - start))
            keys = [str(rows.before + piece.first + n) for n in range(len(piece))]
            parts.append(Part(piece, {key: by_image[key] for key in keys if key in by_image}))
    return parts, bad, right


def _text(text: str) -> str:
    """Without lone surrogates, which JSON allows and UTF-8 does not."""
    return text.encode("utf-8", "replace").decode()


def _seal(path: Path) -> list[Any]:
    """Path, size and modification time of an image."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return [str(path)]
    return [str(path), status.st_size, status.st_mtime_ns]


# --- the file ----------------------------------------------------------------------------------------------------------


def _write_rows(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    """As csv, JSON lines or parquet, by the path's name. In a csv, ``tokens`` and ``unknown`` are JSON, nothing where empty."""
    _WRITERS[path.suffix](path, rows, columns)


def _csv(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            lists = {name: row[name] for name in ("tokens", "unknown") if name in row}
            coded = {name: json.dumps(listed, ensure_ascii=False) if listed else "" for name, listed in lists.items()}
            writer.writerow(row | coded)


def _jsonl(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _parquet(path: Path, rows: Sequence[Row], columns: Sequence[str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: dict[str, Any] = dict.fromkeys(("score", "error", "mismatched", "mismatched_error"), pa.float64())
    kinds |= {"row": pa.int64(), "unknown": pa.list_(pa.string())}
    kinds["tokens"] = pa.list_(pa.struct([("token", pa.string()), ("value", pa.float64())]))
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in columns])
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)


_WRITERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet}
