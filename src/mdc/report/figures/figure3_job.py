"""The job ``mdc caption-lengths``: Figure 3 of a scale's corpora, and the numbers behind it.

Writes last ``figure3.json``, which names by sha256 what it made and the manifests that it was made from. Everything
is computed from the histograms in those manifests; no caption is read again.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mdc.records import UserError, read_json, sha256_file, write_made, write_text
from mdc.report.figures.figure3 import ENDS, Lengths, draw

_TEXTS_SPLIT = "all"  # a list of captions has no other


def main(args: argparse.Namespace) -> None:
    """Run the job. ``args``: config, indexes (index.json of each corpus and list of captions), out."""
    config = read_json(args.config)
    out, context = Path(args.out), int(config["context_length"])
    given = _by_name(args.indexes)
    corpora, inputs = [], {}
    for kind, wanted in (("corpus", config["corpora"]), ("texts", config["texts"])):
        folder = "corpora" if kind == "corpus" else "texts"
        for entry in wanted:
            path, index = _of(given, kind, entry["key"])
            split = config["split"] if kind == "corpus" else _TEXTS_SPLIT
            pieces = histogram(index, split, path)
            corpora.append(Lengths.of_histogram(entry["key"], entry["label"], pieces))
            inputs[f"data/{folder}/{entry['key']}/{path.name}"] = sha256_file(path)
    if not corpora:
        raise UserError(f"{args.config}: figure 3 needs a corpus or a list of captions; it names none")
    tables = {out / "figure3.csv": long_rows(corpora), out / "figure3_summary.csv": summary_rows(corpora, context)}
    for table, rows in tables.items():
        write_text(table, _csv(rows))
    figures = [out / f"figure3.{ending}" for ending in ("png", "svg", "pdf")]
    draw(corpora, context, figures, f"Caption lengths after tokenisation, scale {config['scale_label']}")
    write_made(out / "figure3.json", config, inputs, [*tables, *figures])


def _by_name(paths: Iterable[str | Path]) -> dict[tuple[str, str], tuple[Path, dict[str, Any]]]:
    found: dict[tuple[str, str], tuple[Path, dict[str, Any]]] = {}
    for path in map(Path, paths):
        index = read_json(path)
        if index.get("kind") not in ("corpus", "texts") or not isinstance(index.get("name"), str):
            raise UserError(f"{path}: describes neither a corpus nor a list of captions")
        name = str(index["kind"]), index["name"]
        if name in found:
            raise UserError(f"{path}: the {name[0]} {name[1]!r} stands twice, also in {found[name][0]}")
        found[name] = path, index
    return found


def _of(given: dict[tuple[str, str], tuple[Path, dict[str, Any]]], kind: str, key: str) -> tuple[Path, dict[str, Any]]:
    try:
        return given[kind, key]
    except KeyError:
        there = ", ".join(name for _, name in given) or "none"
        raise UserError(f"figure 3: no index of the {kind} {key!r} was given; given: {there}") from None


def histogram(index: dict[str, Any], split: str, path: Path) -> dict[int, int]:
    """{CLIP pieces: captions} of a split of an index; UserError if it holds none that is good."""
    try:
        listed = index["captions"]["per_split"][split]["histogram"]
        found = {int(pieces): count for pieces, count in listed.items()}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"{path}: has no caption lengths of split {split!r}; make the set again") from None
    if not all(pieces >= 0 and type(count) is int and count >= 0 for pieces, count in found.items()):
        raise UserError(f"{path}: a caption length or a count of split {split!r} is no whole number from 0")
    return found


def long_rows(corpora: Sequence[Lengths]) -> list[list[Any]]:
    """One row a corpus and length: pieces, tokens (with SOT and EOT), captions, and their share."""
    rows: list[list[Any]] = [["corpus", "label", "pieces", "tokens", "captions", "share"]]
    for one in corpora:
        each = zip(one.tokens.tolist(), one.captions.tolist(), one.shares.tolist(), strict=True)
        rows += [[one.key, one.label, tokens - ENDS, tokens, count, repr(share)] for tokens, count, share in each]
    return rows


def summary_rows(corpora: Sequence[Lengths], context_length: int) -> list[list[Any]]:
    """One row a corpus: what the legend says, unrounded."""
    head = ["corpus", "label", "captions", "mean", "median", "max", "context_length", "truncated_share", "unit"]
    rows: list[list[Any]] = [head]
    for one in corpora:
        numbers = [one.count, repr(one.mean), repr(one.median), int(one.tokens[-1])]
        cut = repr(one.truncated(context_length))
        rows.append([one.key, one.label, *numbers, context_length, cut, "tokens a caption, SOT and EOT counted"])
    return rows


def _csv(rows: Iterable[Sequence[Any]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue()
