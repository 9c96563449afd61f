"""Made-up probe records, and the items behind them, for tables and figures of probes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdc.report.items import ProbeItems

#: (corpus or None for an untrained encoder, method, probe, seed) -> the share of items that it gets right
Skill = Callable[[str | None, str, str, int], float]


class ProbingWorld:
    """One backbone on ``corpora`` {key: methods}, every encoder with ``n`` items a probe.

    ``skill`` says how good each encoder is. All see the same items, some of which are easy for all. ``pairs`` and
    ``epochs``: {corpus: pairs}, and how often they are seen.
    """

    def __init__(
        self,
        corpora: Mapping[str, Sequence[str]],
        skill: Skill,
        pairs: Mapping[str, int],
        probes: Sequence[str] = ("shape",),
        seeds: Sequence[int] = (0,),
        n: int = 200,
        epochs: int = 2,
        **spec: Any,
    ) -> None:
        self.rng = np.random.default_rng(5)
        self.scale = str(spec.get("scale", "mini"))
        self.skill, self.probes, self.n = skill, probes, n
        self.easy = {probe: self.rng.random(n) for probe in probes}
        self.records: list[dict[str, Any]] = []
        self._items: dict[str, dict[str, ProbeItems]] = {}
        self.expected: dict[str, str] = {}
        for seed in seeds:
            self._add("untrained/B/patch_mean", None, "untrained", seed, None)
            for corpus, methods in corpora.items():
                told = {"pairs": pairs[corpus], "steps": pairs[corpus] * epochs // 8}
                for method in methods:
                    self._add(f"{corpus}/B/{method}", corpus, method, seed, {**told, "samples_seen": told["steps"] * 8})
        methods = dict.fromkeys(method for listed in corpora.values() for method in listed)
        self.spec: dict[str, Any] = {
            "scale": "mini",
            "scale_label": "mini (made up)",
            "corpora": [{"key": key, "label": key.title(), "methods": list(m)} for key, m in corpora.items()],
            "backbones": [{"key": "B", "label": "ViT-T/12"}],
            "methods": {key: {"label": key.upper(), "pooling": "patch_mean", "grey": False} for key in methods},
            "probes": [{"key": key, "label": key.title()} for key in probes],
            "contrasts": [],
            "seeds": list(seeds),
            "bootstrap": 200,
            "expected": self.expected,
            **spec,
        }

    def _add(self, name: str, corpus: str | None, method: str, seed: int, training: dict[str, int] | None) -> None:
        id_ = f"{name}/s{seed}"
        ids = tuple(f"item{i}" for i in range(self.n))
        self._items[id_], probes = {}, {}
        for probe in self.probes:
            share = self.skill(corpus, method, probe, seed)
            right = (self.easy[probe] + 0.1 * self.rng.normal(size=self.n) < share).astype(float)
            self._items[id_][probe] = ProbeItems(ids, value=right)
            probes[probe] = {"metric": "top1", "value": 100 * float(right.mean()), "n": self.n, "chance": 12.5}
        self.expected[id_] = hashlib.sha256(id_.encode()).hexdigest()
        record = {"kind": "probe", "scale": self.scale, "encoder": {"id": id_}}
        record |= {"config_sha256": self.expected[id_]}
        self.records.append({**record, "training": training, "probes": probes})

    def items(self, record: Mapping[str, Any]) -> dict[str, ProbeItems]:
        return self._items[record["encoder"]["id"]]

    def record(self, id_: str) -> dict[str, Any]:
        return next(record for record in self.records if record["encoder"]["id"] == id_)

    def write(self, out: Path) -> list[Path]:
        """The records and their items as ``mdc probe`` leaves them; the records' files."""
        import json

        import pyarrow
        import pyarrow.parquet as parquet

        from mdc.records import sha256_file

        files = []
        for record in self.records:
            folder = out / "probe" / record["encoder"]["id"]
            folder.mkdir(parents=True)
            rows = [
                {"probe": probe, "item": id_, "value": value}
                for probe, items in self.items(record).items()
                for id_, value in zip(items.ids, np.asarray(items.value).tolist(), strict=True)
            ]
            parquet.write_table(pyarrow.Table.from_pylist(rows), folder / "items.parquet")
            items = {"file": "items.parquet", "sha256": sha256_file(folder / "items.parquet")}
            id_ = f"probe/{record['encoder']['id']}"
            (folder / "probe.json").write_text(json.dumps({**record, "id": id_, "items": items}))
            files.append(folder / "probe.json")
        return files
