"""The numbers of csv files of linear probes against the probe records that they were made from.

A value, its gain and its differences follow from the records alone; their intervals are a bootstrap over test items and
are compared by making the table anew (``mdc verify --rebuild``).
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mdc.provenance.place import Broken
from mdc.report.lines import AVERAGE, POOLINGS, side

Record = Mapping[str, Any]
#: what the records give for (dataset, backbone, method, column); more than one where two rows bear the same labels
Values = dict[tuple[str, str, str, str], list[float]]
_TIDY = 2e-4  # tidy files have four decimals, and values come from float32 items
#: what tells a comparison from the others of its file
_COMPARED = ("dataset", "backbone", "method", "against", "against_dataset", "benchmark")
_SHOWN = 0.05 + _TIDY  # table1.csv has one decimal


def rows(path: Path, needed: Sequence[str] = ()) -> list[dict[str, str]]:
    """The lines of a csv file by heading. Raises Broken if it cannot be read or lacks a ``needed`` column."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            lines = list(csv.DictReader(stream))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise Broken(f"{path}: cannot be read ({error})") from None
    for column in needed:
        if any(line.get(column) is None for line in lines):
            raise Broken(f"{path}: no column {column}")
    return lines


def encoder_rows(spec: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of a table by what they are made from: encoder ids, one a seed. Untrained controls stand last."""
    trained: list[tuple[str, ...]] = []
    controls: dict[tuple[str, ...], None] = {}
    for backbone in spec["backbones"]:
        for corpus in spec["corpora"]:
            for method in corpus["methods"]:
                trained.append(_ids(f"{corpus['key']}/{backbone['key']}/{method}", spec))
                controls[_ids(f"untrained/{backbone['key']}/{spec['methods'][method]['pooling']}", spec)] = None
    return [*trained, *controls]


def _ids(name: str, spec: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}/s{seed}" for seed in spec["seeds"])


def control(ids: Sequence[str], spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The untrained encoders that a row's gain is over."""
    _, backbone, method, _ = ids[0].split("/")
    return _ids(f"untrained/{backbone}/{spec['methods'][method]['pooling']}", spec)


def labels(ids: Sequence[str], spec: Mapping[str, Any]) -> tuple[str, str, str]:
    """Dataset, backbone and method as table1.csv shows them."""
    corpus, backbone, last, _ = ids[0].split("/")
    shown = {b["key"]: b["label"] for b in spec["backbones"]}[backbone]
    if corpus == "untrained":
        return "none", shown, f"untrained, {POOLINGS.get(last, last)}"
    return {c["key"]: c["label"] for c in spec["corpora"]}[corpus], shown, spec["methods"][last]["label"]


def benchmarks(spec: Mapping[str, Any]) -> dict[str, list[str]]:
    """Column of the table → the probes whose mean it shows."""
    keys = [probe["key"] for probe in spec["probes"]]
    single = {probe["label"]: [probe["key"]] for probe in spec["probes"]}
    averaged = spec["table"] == "table1" or (spec["table"].startswith("table") and len(keys) > 1)
    return {**single, AVERAGE: keys} if averaged else single


def tidy_file(table: str) -> str:
    """The file of a table or figure that has one row a number."""
    return f"{table}.csv" if table.startswith("figure") else f"{table}_long.csv"


def value(ids: Sequence[str], probes: Sequence[str], records: Mapping[str, Record]) -> float:
    """Per cent: the mean over seeds and benchmarks of what the records say."""
    parts = [records[id_]["probes"][probe]["value"] for id_ in ids for probe in probes]
    return float(sum(parts) / len(parts))


def check(
    folder: Path, spec: Mapping[str, Any], records: Mapping[str, Record], columns: Sequence[str] | None = None
) -> Iterator[None]:
    """Every number of the csv files whose encoders are all in ``records`` (by id) and column in ``columns``.

    Yields once a number. Raises Broken at the first that is not what the records give.
    """
    wanted = {c: probes for c, probes in benchmarks(spec).items() if columns is None or c in columns}
    known = [ids for ids in encoder_rows(spec) if set(ids) <= set(records)]
    values: Values = {}
    for ids in known:
        for column, probes in wanted.items():
            values.setdefault((*labels(ids, spec), column), []).append(value(ids, probes, records))
    table = spec["table"]
    yield from _tidy(folder / tidy_file(table), spec, records, known, wanted)
    if table == "table1":
        yield from _shown(folder / f"{table}.csv", values)
    elif table.startswith("table"):
        yield from _by_method(folder / f"{table}.csv", spec, values)
    if table == "figure5":
        yield from _trends(folder / f"{table}_trend.csv", spec, records, values)
        return
    yield from _contrasts(folder / f"{table}_contrasts.csv", spec, known, values)


def _tidy(
    path: Path,
    spec: Mapping[str, Any],
    records: Mapping[str, Record],
    known: Sequence[tuple[str, ...]],
    wanted: Mapping[str, Sequence[str]],
) -> Iterator[None]:
    lines = rows(path)
    for ids in known:
        for column, probes in wanted.items():
            found = [line for line in lines if line["run"] == " ".join(ids) and line["benchmark"] == column]
            where = f"{path}: {column} of {' '.join(ids)}"
            if len(found) != 1:
                raise Broken(f"{where} stands there {len(found)} times, must once")
            line = found[0]
            dataset, backbone, method = labels(ids, spec)
            shown = "untrained" if ids[0].startswith("untrained/") else method
            if (line["dataset"], line["backbone"], line["method"]) != (dataset, backbone, shown):
                raise Broken(f"{where} is called {line['dataset']}, {line['backbone']}, {line['method']}")
            mine = value(ids, probes, records)
            _equal(f"{where}: value", line["value"], mine, _TIDY)
            _equal(f"{where}: n", line["n"], sum(records[ids[0]]["probes"][p]["n"] for p in probes), 0)
            chance = [records[ids[0]]["probes"][p]["chance"] for p in probes]
            _equal(f"{where}: chance", line["chance"], sum(chance) / len(chance), _TIDY)
            training = records[ids[0]].get("training") or {}
            for key in ("pairs", "steps", *(["samples_seen"] if spec["table"] == "figure5" else [])):
                if line[key] != str(training.get(key, "")):
                    raise Broken(f"{where}: {key} is {line[key] or 'empty'}, the probe record says {training.get(key)}")
            if spec["table"] == "figure4":
                _mask_ratios(where, line, ids, spec)
            if shown != "untrained" and set(control(ids, spec)) <= set(records):
                _equal(f"{where}: gain", line["gain"], mine - value(control(ids, spec), probes, records), _TIDY)
            yield


def _mask_ratios(where: str, line: Mapping[str, str], ids: Sequence[str], spec: Mapping[str, Any]) -> None:
    """The ends of t's range in per cent; none of an untrained encoder, or of a method that masks nothing."""
    method = spec["methods"].get(ids[0].split("/")[2], {}) if ids[0][:9] != "untrained" else {}
    for key, share in zip(("mask_ratio_low", "mask_ratio_high"), method.get("t_range") or (None, None), strict=True):
        if share is None and line[key]:
            raise Broken(f"{where}: {key} is {line[key]}, it has none")
        if share is not None:
            _equal(f"{where}: {key}", line[key], 100 * share, _TIDY)


def _shown(path: Path, values: Values) -> Iterator[None]:
    lines: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for line in rows(path):
        lines.setdefault((line["dataset"], line["backbone"], line["method"]), []).append(line)
    for (dataset, backbone, method, column), expected in values.items():
        where = f"{path}: {column} of {dataset}, {backbone}, {method}"
        found = lines.get((dataset, backbone, method), [])
        if len(found) != len(expected):
            raise Broken(f"{where} stands there {len(found)} times, must {len(expected)}")
        for line in found:
            _equal(where, line[column], _nearest(line[column], expected), _SHOWN)
            yield


def _by_method(path: Path, spec: Mapping[str, Any], values: Values) -> Iterator[None]:
    """A table with a row a method and the benchmarks of each corpus side by side; a control stands under every corpus."""
    lines = {line["method"]: line for line in rows(path)}
    corpora = [corpus["label"] for corpus in spec["corpora"]]
    alone = len(benchmarks(spec)) == 1
    for (dataset, _, method, column), expected in values.items():
        for corpus in corpora if dataset == "none" else [dataset]:
            name = corpus if alone else f"{corpus}, {column}"
            where = f"{path}: {name} of {method}"
            if name not in lines.get(method, {}):
                raise Broken(f"{where} does not stand there")
            _equal(where, lines[method][name], _nearest(lines[method][name], expected), _SHOWN)
            yield


def _contrasts(path: Path, spec: Mapping[str, Any], known: Sequence[tuple[str, ...]], values: Values) -> Iterator[None]:
    controls = {labels(ids, spec): labels(control(ids, spec), spec) for ids in known if ids[0][:9] != "untrained"}
    lines = rows(path, (*_COMPARED, "difference"))
    _all_there(path, lines, spec, known, list(dict.fromkeys(column for *_, column in values)))
    for line in lines:
        mine, column = (line["dataset"], line["backbone"], line["method"]), line["benchmark"]
        if mine not in controls:
            continue
        alone = line["against"] == "untrained"
        other = controls[mine] if alone else (line["against_dataset"], mine[1], line["against"])
        differences = [a - b for a in values.get((*mine, column), []) for b in values.get((*other, column), [])]
        if differences:
            where = f"{path}: {column} of {', '.join(mine)} against {_other(line['against'], line['against_dataset'])}"
            _equal(where, line["difference"], _nearest(line["difference"], differences), _TIDY)
            yield


def _all_there(
    path: Path,
    lines: Sequence[Mapping[str, str]],
    spec: Mapping[str, Any],
    known: Sequence[tuple[str, ...]],
    columns: Sequence[str],
) -> None:
    """Raises Broken if a comparison of known encoders is missing or doubled, or, with all known, one too many stands there."""
    expected: Counter[tuple[str, ...]] = Counter()
    for ids in known:
        corpus, backbone, method, _ = ids[0].split("/")
        if corpus == "untrained":
            continue
        others = {}  # by the runs held against: a pair may be named twice
        for pair in spec["contrasts"]:
            (of, first), (other, second) = map(side, pair)
            held_against = _ids(f"{other or corpus}/{backbone}/{second}", spec)
            if first == method and of in ("", corpus) and held_against in known:
                dataset, _, label = labels(held_against, spec)
                others[held_against] = (label, dataset)
        against = [*others.values(), *([("untrained", "none")] if control(ids, spec) in known else [])]
        expected.update((*labels(ids, spec), *other, column) for other in against for column in columns)
    written = Counter(tuple(line[key] for key in _COMPARED) for line in lines)
    too_many = written - expected if len(known) == len(encoder_rows(spec)) else Counter()
    for what in [*(expected - written), *(too_many if set(columns) == set(benchmarks(spec)) else ())]:
        *mine, name, dataset, column = what
        where = f"{path}: {column} of {', '.join(mine)} against {_other(name, dataset)}"
        raise Broken(f"{where} stands there {written[what]} times, must {expected[what]} times")


def _trends(path: Path, spec: Mapping[str, Any], records: Mapping[str, Record], values: Values) -> Iterator[None]:
    """Lines of least squares through a method's values over the binary logarithm of the pairs, one value a corpus."""
    (backbone,) = spec["backbones"]
    expected: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for key in dict.fromkeys(key for corpus in spec["corpora"] for key in corpus["methods"]):
        label = spec["methods"][key]["label"]
        for column in benchmarks(spec):
            points = []
            for corpus in (corpus for corpus in spec["corpora"] if key in corpus["methods"]):
                id_ = f"{corpus['key']}/{backbone['key']}/{key}/s{spec['seeds'][0]}"
                found = values.get((corpus["label"], backbone["label"], label, column))
                if found and id_ in records:
                    points.append((records[id_]["training"]["pairs"], found[0]))
            if len(points) > 1:
                expected[label, column] = points
    written = rows(path)
    lines = {(line["method"], line["benchmark"]): line for line in written}
    if len(lines) < len(written):
        raise Broken(f"{path}: a trend stands there twice")
    for method, column in [*lines, *expected]:
        where = f"{path}: {column} of {method}"
        if (method, column) not in expected:
            raise Broken(f"{where} is no trend of this figure")
        if (method, column) not in lines:
            raise Broken(f"{where}: no line of it")
    for (method, column), points in expected.items():
        line, where = lines[method, column], f"{path}: {column} of {method}"
        if line["pairs"] != " ".join(str(pairs) for pairs, _ in points):
            raise Broken(f"{where}: pairs are {line['pairs'] or 'empty'}, the probe records say others")
        logs = [math.log2(pairs) for pairs, _ in points]
        x, y = sum(logs) / len(points), sum(value for _, value in points) / len(points)
        slope = sum((a - x) * (b - y) for a, (_, b) in zip(logs, points, strict=True)) / sum((a - x) ** 2 for a in logs)
        _equal(f"{where}: slope", line["slope"], slope, _TIDY)
        _equal(f"{where}: intercept", line["intercept"], y - slope * x, _TIDY * (1 + x))
        if len(points) > 2:
            off = sum((b - y - slope * (a - x)) ** 2 for a, (_, b) in zip(logs, points, strict=True))
            # a root magnifies rounding where the points lie on the line
            _equal(f"{where}: residual_sd", line["residual_sd"], math.sqrt(off / (len(points) - 2)), 2 * _TIDY)
        elif line["residual_sd"]:
            raise Broken(f"{where}: residual_sd is {line['residual_sd']}, two points have none")
        yield


def _other(label: str, dataset: str) -> str:
    return label if dataset == "none" else f"{label} of {dataset}"


def _nearest(text: str, candidates: Sequence[float]) -> float:
    return min(candidates, key=lambda candidate: _far(text, candidate))


def _far(text: str, expected: float) -> float:
    try:
        return abs(float(text) - expected)
    except ValueError:
        return float("inf")


def _equal(where: str, text: str, expected: float, tolerance: float) -> None:
    # not "> tolerance": a NaN must not pass
    if not _far(text, expected) <= tolerance + 1e-9:
        shown = f"{expected:.4f}" if isinstance(expected, float) else str(expected)
        raise Broken(f"{where} is {text or 'empty'}, the probe records give {shown}")
