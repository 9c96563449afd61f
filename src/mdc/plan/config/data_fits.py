"""Whether sources can be read: what each takes from the dataset that it names."""

from __future__ import annotations

from typing import Any

from mdc.plan.config.data import Data, origin_of
from mdc.plan.config.params import Params
from mdc.plan.config.sources import PairsCorpus


def check_sources(params: Params) -> None:
    """ValueError, which begins with the key, for the first source that its dataset does not fit."""
    for section in ("corpora", "probes", "choices", "texts"):
        for name, entry in getattr(params.data, section).items():
            if getattr(entry.source, "dataset", None) is not None:
                _source(params.data, entry.source, f"data.{section}.{name}.source")


def _source(data: Data, source: Any, where: str) -> None:
    if source.path is not None:
        raise ValueError(f"{where}: path is set in datasets.{source.dataset}; give dataset or path, not both")
    if isinstance(source, PairsCorpus):
        if source.origin is not None:
            raise ValueError(f"{where}: from is set in datasets.{source.dataset}; leave it out here")
        dataset = data.datasets[source.dataset]
        origin = origin_of(source.dataset, dataset)
        if origin == "files":
            raise ValueError(f"{where}: {source.dataset} has no list of pairs; give its source another kind")
        if source.pairs is not None and (dataset.subset is None or origin != "urls"):
            raise ValueError(f"{where}.pairs: datasets.{source.dataset} draws no subset of a list of URLs")
        if source.pairs is not None and dataset.subset is not None and source.pairs > dataset.subset.pairs:
            most = dataset.subset.pairs
            raise ValueError(f"{where}.pairs = {source.pairs}: datasets.{source.dataset} draws {most}")
