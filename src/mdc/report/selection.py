"""The probe records that a table asks for: every encoder and seed, made as expected, with the items that they tell of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mdc.records import UserError
from mdc.report.estimates import Estimator
from mdc.report.items import ProbeItems
from mdc.report.lines import Encoder

Record = Mapping[str, Any]
ItemsOf = Callable[[Record], Mapping[str, ProbeItems]]


def select(
    title: str,
    records: Iterable[Record],
    encoders: Sequence[Encoder],
    scale: str,
    expected: Mapping[str, str],
    probes: Iterable[str],
) -> dict[str, Record]:
    """The record of every encoder and seed, by id; UserError if one is missing, doubled, stale or incomplete.

    Ids may carry a leading ``runs/``. Records of other encoders are passed over.
    """
    by_id: dict[str, Record] = {}
    for record in records:
        id_ = str(record["encoder"]["id"]).removeprefix("runs/")
        if id_ in by_id:
            raise UserError(f"{title}: two probe records for {id_}")
        by_id[id_] = record
    wanted = {id_.removeprefix("runs/"): sha256 for id_, sha256 in expected.items()}
    found = {}
    for id_ in (id_ for encoder in encoders for id_ in encoder.ids()):
        if id_ not in by_id:
            raise UserError(f"{title}: no probe record for {id_}; probe this encoder first")
        if id_ not in wanted:
            raise UserError(f"{title}: the specification expects no record for {id_}, though its table needs it")
        record = by_id[id_]
        if record.get("kind") != "probe" or record.get("scale") != scale:
            made = f"kind {record.get('kind')}, scale {record.get('scale')}"
            raise UserError(f"{title}: the record of {id_} is of {made}; needed: kind probe, scale {scale}")
        if record["config_sha256"] != wanted[id_]:
            raise UserError(
                f"{title}: the probe record of {id_} is stale: made with configuration {record['config_sha256'][:12]}, "
                f"expected {wanted[id_][:12]}; probe this encoder again"
            )
        missing = [name for name in probes if name not in record["probes"]]
        if missing:
            raise UserError(f"{title}: the probe record of {id_} lacks {', '.join(missing)}")
        found[id_] = record
    return found


def check_items(
    title: str, id_: str, record: Record, items: Mapping[str, ProbeItems], probes: Iterable[str], estimator: Estimator
) -> None:
    """A record's values must be those of its items: two files that belong to different runs are caught here."""
    for name in probes:
        if name not in items:
            raise UserError(f"{title}: the items of {id_} lack {name}")
        told, found = record["probes"][name], 100 * estimator.value(items[name])
        if told["n"] != items[name].n or abs(told["value"] - found) > 1e-3:
            raise UserError(
                f"{title}: {id_} on {name}: the record says {told['value']:.3f} over {told['n']} items, its items give "
                f"{found:.3f} over {items[name].n}; probe this encoder again"
            )
