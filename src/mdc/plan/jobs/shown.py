"""The typed job of `mdc make`, the same for every table and figure, and its rows and columns."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from mdc.plan.config.params import ProtocolStatistics
from mdc.plan.config.types import Order, Strict
from mdc.plan.jobs.job import Job


class Labelled(Strict):
    """``listed``: of a corpus that is the beginning of a list, so many rows of it; its label is then followed by the number of
    pairs that it had (:func:`mdc.report.make.make`)."""

    key: str
    label: str
    listed: int | None = None


class ShownColumn(Labelled):
    """A column of results. ``metric``: columns with different ones have no common mean. ``more``: what only its table needs."""

    metric: str = ""
    more: dict[str, Any] = Field(default_factory=dict)


class System(Strict):
    """One row of any table or figure: its runs, their records, and its control. A run may be in several rows.

    ``key``: unique (``corpus/backbone/method`` for a method of ours). ``runs``: the measured runs, one for each seed;
    ``records``: the jobs that measured them, in the same order; ``estimator``: how. ``control``: the key of the system that its
    gain is over. ``corpus``, ``backbone``, ``method``: keys with the labels of its row; without a corpus the row also shows its
    pooling, and applies to every corpus of a table with a column per corpus. ``role``: ``grey`` is shown and not ranked,
    ``reference`` in italics, too, as is a ``control``: untrained weights, a mismatched image, a baseline. ``note``: a sentence
    about it below its table. ``weights``: a run's last or best; None if that is no choice, as for an external model. ``lr``:
    the peak learning rate of its runs, or that it was selected for this method; None without a training. ``more``: what only its
    table needs.
    """

    key: str
    corpus: Labelled | None
    backbone: Labelled
    method: Labelled
    runs: Annotated[list[str], Field(min_length=1)]
    records: Annotated[list[str], Field(min_length=1)]
    pooling: str = ""
    estimator: str = ""
    control: str | None = None
    role: Literal["ranked", "grey", "reference", "control"] = "ranked"
    note: str = ""
    weights: Literal["last", "best"] | None = None
    lr: float | Literal["selected"] | None = None
    more: dict[str, Any] = Field(default_factory=dict)


class Beside(Strict):
    """Rows and columns of another table that a table shows next to its own; ``more``: as of that table's job."""

    systems: list[System]
    columns: list[ShownColumn]
    more: dict[str, Any]


class Seen(Strict):
    """The job that looks for the images of a ``test`` set among those that ``systems`` (their keys) were trained on, a corpus
    called ``training``. ``records``: the jobs whose items of the set ``name`` are those that are tested. ``columns``: the keys of
    those that the set decides; empty: all."""

    job: str
    training: str
    test: str
    name: str
    records: list[str]
    columns: list[str]
    systems: list[str]


class Statistics(ProtocolStatistics):
    """How an artefact's claims are tested. ``order``: see :func:`mdc.report.statistics.claims.decide`."""

    order: Order = "holm"


if TYPE_CHECKING:  # who reads them has a table or figure with intervals
    MaybeStatistics = Statistics
else:
    MaybeStatistics = Statistics | None


class ArtefactJob(Job):
    """A table or figure: systems by columns, or a part of that. The systems and the contrasts are in the order shown.

    ``files``: its files besides its record. ``expected``: input job → the hash of its current configuration. ``kind``, ``title``:
    of one that the scale has under its own name. ``unknown``: the labels of external models, of which it is not known whether
    they were trained on test images (``seen``).

    ``styles``: of one with figures, (key, colour, marker) of the methods in the order of legends.

    ``contrasts``: pairs of systems' keys, the first minus the second, shown with their intervals. ``primary``: those that are
    claimed, with a verdict on the column ``primary_metric`` ("average" or a column's key), and on each of ``also_claimed``, all
    in one family. ``reported_separately``: the keys of columns that the average leaves out. ``notes``: sentences about columns
    below the table. ``more``: what only this table or figure needs, as JSON values.
    """

    verb: Literal["make"]
    artefact: str
    kind: str | None = None
    title: str | None = None
    files: list[str] = Field(default_factory=list)
    scale_label: str
    expected: dict[str, str]
    seen: list[Seen] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)
    systems: list[System] = Field(default_factory=list)
    columns: list[ShownColumn] = Field(default_factory=list)
    contrasts: list[list[str]] = Field(default_factory=list)
    primary: list[list[str]] = Field(default_factory=list)
    primary_metric: str = ""
    also_claimed: list[str] = Field(default_factory=list)
    reported_separately: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    seeds: list[int] = Field(default_factory=list)
    beside: Beside | None = None
    styles: list[Annotated[tuple[str, str, str], Field(strict=False)]] = Field(default_factory=list)
    statistics: MaybeStatistics = None  # type: ignore[assignment]
    more: dict[str, Any] = Field(default_factory=dict)


def plain(value: Any) -> Any:
    """``value``, which may hold parameters, as JSON values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value
