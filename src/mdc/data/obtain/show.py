"""``mdc data list`` and ``mdc data check NAME``: the registry in readable form."""

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from mdc.data.formats.folders import files_below
from mdc.data.formats.sizes import size
from mdc.data.obtain.checks import Finding, checks_of, require, run_checks
from mdc.data.obtain.hub import mirror_of
from mdc.data.obtain.job import chosen_parts, own_copy, way
from mdc.plan.data_folder import data_folder
from mdc.plan.records import UserError
from mdc.plan.registry.datasets import REGISTRY, find
from mdc.plan.registry.entry import RegistryEntry

Datasets = Mapping[str, Mapping[str, Any]]


def main_list(args: argparse.Namespace) -> None:
    """Print every dataset. ``args``: datasets (name → {path, from, …} of a scale, may be empty), json."""
    rows = listing(args.datasets, data_folder())
    if getattr(args, "json", False):
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    heads = ("name", "used for", "items", "size", "from", "there", "licence")
    table = [tuple(str(row["shown"][head]) for head in heads) for row in rows]
    print("\n".join(aligned([heads, *table])))
    places = [(row["name"], row["place"]) for row in rows if row["place"]]
    if places:
        print("\nThis scale's datasets lie at:")
        print("\n".join(f"  {line}" for line in aligned(places)))
    else:
        print("\nThis scale names no dataset of these.")


def listing(datasets: Datasets, data_dir: Path) -> list[dict[str, Any]]:
    """One row per dataset, the registry's first, then the scale's own; ``shown`` has the texts of the columns."""
    rows = []
    for name in [*REGISTRY, *(name for name in datasets if name not in REGISTRY)]:
        entry, dataset = REGISTRY.get(name), datasets.get(name)
        chosen = way({"name": name, "dataset": dataset}) if dataset and not _embedded(entry) else None
        place = data_dir / dataset["path"] if dataset and chosen else None
        presence = _presence(entry, dataset, place, chosen) if dataset and place and chosen else ""
        if _embedded(entry):
            presence = "yes"
        rows.append(
            {
                "name": name,
                "label": entry.label if entry else name,
                "used_for": list(entry.used_for) if entry else [],
                "items": dict(entry.items) if entry else {},
                "bytes": entry.size_bytes if entry else None,
                "licence": entry.licence if entry else None,
                "licence_note": entry.licence_note if entry else None,
                "citation": entry.citation if entry else None,
                "url": entry.url if entry else None,
                "ways": list(entry.ways) if entry else [],
                "from": chosen,
                "place": str(place) if place else None,
                "there": presence or None,
                "shown": {
                    "name": name,
                    "used for": ", ".join(entry.used_for) if entry else "your own",
                    "items": _items(entry),
                    "size": (size(entry.size_bytes) if entry else "") or "–",
                    "from": _from(entry, chosen),
                    "there": presence or "–",
                    "licence": entry.licence if entry else "",
                },
            }
        )
    return rows


def main_check(args: argparse.Namespace) -> None:
    """Print each check of ``args.name`` with its finding; UserError that names the first that fails.

    ``args``: name, datasets (as for the list), json.
    """
    entry = REGISTRY.get(args.name)
    if entry is None:
        if args.name not in args.datasets:
            find(args.name)
        raise UserError(f"dataset {args.name}: it is your own, and nothing is known of its files")
    if _embedded(entry):
        print(f"{entry.label}: nothing to check; {entry.note}")
        return
    dataset = args.datasets.get(entry.name) or {"path": entry.name}
    chosen = way({"name": entry.name, "dataset": dataset})
    folder = data_folder() / dataset["path"]
    as_json = getattr(args, "json", False)
    if not as_json:
        print("\n".join(_about(entry, folder, chosen)))
    if not folder.is_dir():
        own_copy(entry, folder)
        raise UserError(f"{folder}: no such folder; obtain {entry.name} first, or set MDC_DATA")
    parts = chosen_parts(entry, dataset)
    findings = [] if _own(dataset, chosen) else run_checks(entry, folder, chosen, parts)
    if as_json:
        results = [
            {"check": f.check.title, "found": f.found, "expected": f.check.expected, "good": f.good} for f in findings
        ]
        print(json.dumps(results, indent=1, ensure_ascii=False))
    else:
        lines = [("good" if f.good else "BAD", f.check.title, _result(f)) for f in findings]
        print("\n".join(f"  {line}" for line in aligned(lines)) or "  nothing is checked of a list of your own")
    require(entry.name, folder, findings)


def _own(dataset: Mapping[str, Any], chosen: str) -> bool:
    """Whether its files are not the registry's."""
    return bool({"urls": (dataset.get("list") or {}).get("path"), "mirror": dataset.get("mirror")}.get(chosen))


def _from(entry: RegistryEntry | None, chosen: str | None) -> str:
    """The origin that the scale chose, or all possible ones."""
    ways = (chosen,) if chosen else entry.ways if entry else ()
    own = entry is not None and entry.origin == "own copy"
    return " | ".join("own copy" if own and origin == "files" else origin for origin in ways) or "embedded"


def _result(finding: Finding) -> str:
    if finding.good:
        return f"{finding.found:,}" if isinstance(finding.found, int) else str(finding.found)
    return f"found {finding.shown}, expected {finding.expected}"


def _about(entry: RegistryEntry, folder: Path, chosen: str) -> list[str]:
    facts = [
        ("place", f"{folder} (from: {chosen})"),
        ("source", entry.url),
        ("citation", f"{entry.citation}: {entry.reference}"),
        ("licence", entry.licence),
        ("", entry.licence_note),
        ("note", entry.note),
    ]
    lines = [entry.label]
    for head, text in facts:
        if text:
            wrapped = textwrap.wrap(text, 96, break_long_words=False, break_on_hyphens=False)
            lines += [f"  {head if number == 0 else '':9}{line}" for number, line in enumerate(wrapped)]
    return lines


def _embedded(entry: RegistryEntry | None) -> bool:
    return entry is not None and entry.origin == "embedded"


def _presence(entry: RegistryEntry | None, dataset: Mapping[str, Any], place: Path, chosen: str) -> str:
    """Without running the checks: whether the files that they read exist."""
    own = _own(dataset, chosen)
    checks = checks_of(entry, chosen, chosen_parts(entry, dataset)) if entry and not own else []
    patterns = [check.path for check in checks]
    if chosen == "urls":
        patterns.append("shards/*.tar")
    exists = [next(iter(place.glob(pattern)), None) is not None for pattern in patterns]
    if chosen == "mirror" and own:
        wanted, root = mirror_of({"name": place.name, "dataset": dataset}, entry).patterns, place / "mirror"
        names = (path.relative_to(root).as_posix() for path in files_below(root)) if root.is_dir() else iter(())
        exists.append(any(fnmatch(name, pattern) for name in names for pattern in wanted))
    return "yes" if exists and all(exists) else "partly" if any(exists) else "no"


def _items(entry: RegistryEntry | None) -> str:
    if entry is None or not entry.items:
        return ""
    if len(entry.items) > 3:
        return f"{sum(entry.items.values()):,} in {len(entry.items)} tasks"
    return ", ".join(f"{split} {count:,}" for split, count in entry.items.items())


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """``rows`` as left-aligned columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
