"""The verb ``mdc verify``: walk the chain from the tables down and name the first link that does not hold."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mdc.config import load
from mdc.jobs import TABLES, VERBS
from mdc.provenance.chain import LOGS, Check, LogChain, MadeChain, TableChain, published_scale, walk
from mdc.provenance.place import LENGTHS, LICENCES, RECIPES, TABLE, Broken, Place
from mdc.records import sha256_file, versions, write_json


def main(args: argparse.Namespace) -> None:
    """``args``: params (file), scale (name or None), rebuild. Raises Broken at the first link that does not hold."""
    params = load(args.params, args.scale)
    place = Place(params, elsewhere=args.scale is not None and params.scale != load(args.params).scale)
    print(f"{place.folder}:")
    for name in TABLES:
        if name != TABLE and not _is_made(place, name):
            continue
        table = TableChain(place, table=name)
        _walk(place, name, table.links())
        if args.rebuild:
            _rebuild(place, name, table.made, records=list(table.made["inputs"]))
    for name in LOGS:
        if _is_made(place, name):
            logs = LogChain(place, name)
            _walk(place, name, logs.links())
            if args.rebuild:
                # in this order: the csv lists them so
                _rebuild(place, name, logs.made, runs=[f"runs/{id_}/run.json" for id_ in logs.made["config"]["runs"]])
    if _is_made(place, LENGTHS):
        lengths = MadeChain(place, LENGTHS)
        _walk(place, LENGTHS, lengths.links())
        if args.rebuild:
            _rebuild(place, LENGTHS, lengths.made, indexes=_indexes(lengths.made["config"]))
    for name in (LICENCES, RECIPES):
        if _is_made(place, name):
            chain = MadeChain(place, name)
            _walk(place, name, chain.links())
            if args.rebuild:
                _rebuild(place, name, chain.made)


def _is_made(place: Place, table: str) -> bool:
    record = place.record(table)
    there = record.is_file() or any(record.parent.glob("*.csv") if table == RECIPES else [record.with_suffix(".csv")])
    if not there:
        print(f"  {table}: not made")
    return there


def _indexes(config: dict[str, Any]) -> list[str]:
    """Figure 3's inputs in the order in which its files list them."""
    shown = [("corpora", c["key"]) for c in config["corpora"]] + [("texts", t["key"]) for t in config["texts"]]
    return [f"data/{section}/{key}/index.json" for section, key in shown]


def _walk(place: Place, table: str, links: Sequence[tuple[str, Check]]) -> None:
    from tqdm import tqdm

    for title, items in walk(links, place.snakemake(table)):
        # disable=None: a bar for a person, nothing in a log
        count = sum(1 for _ in tqdm(items, desc=title, unit="", leave=False, disable=None))
        if count:
            print(f"  {count} {title}: good", flush=True)
        elif "copies" in title:
            of = published_scale(place, table)
            print(f"  no {title}" + (f" (those there are of scale {of})" if of else ""))
        else:
            print(f"  no {title}")


def _rebuild(place: Place, table: str, made: dict[str, Any], **inputs: list[str]) -> None:
    """Make a table anew from ``inputs`` (files of the scale, by the job's option), elsewhere, and compare every byte.

    Figures are compared where the libraries are those that drew them: another version may draw another line.
    """
    verb = made["config"]["verb"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        write_json(out / "config.json", made["config"])
        files = {option: [str(place.folder / name) for name in names] for option, names in inputs.items()}
        job = argparse.Namespace(config=str(out / "config.json"), out=str(out), **files)
        importlib.import_module(VERBS[verb]).main(job)
        same = made["versions"] == versions()
        names = [name for name in made["outputs"] if same or Path(name).suffix not in (".png", ".svg", ".pdf")]
        for name in names:
            if sha256_file(out / name) != made["outputs"][name]:
                mend = place.again(table, place.record(table))
                raise Broken(f"{place.folder / name}: made anew from the same records it differs; to mend: {mend}")
    skipped = len(made["outputs"]) - len(names)
    note = f" ({skipped} figures not compared: drawn by other library versions)" if skipped else ""
    print(f"  {len(names)} files of {table} made anew, byte for byte: good{note}")
