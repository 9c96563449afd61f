"""The names of encoders. An id is a path: ``runs/<id>`` and ``probe/<id>`` are its jobs, and ``probe/<id>/<head>`` for a head
that is not linear."""

from dataclasses import dataclass, replace

from mdc.plan.config.pretrain import snapshot_name


@dataclass(frozen=True, order=True)
class Run:
    """A pretraining run, or its finetuning (a key of the scale's finetune). ``system``: the name that all its seeds share, a row
    of a table. ``lr``: a rate that a selection tries; 0: as its recipe has it."""

    corpus: str
    backbone: str
    method: str
    seed: int
    finetune: str = ""
    lr: float = 0.0

    @property
    def pretrained(self) -> "Run":
        """The run that a finetuned one starts from; any other itself."""
        return replace(self, finetune="")

    @property
    def system(self) -> str:
        tried = f"lr-{self.lr:g}" if self.lr else ""
        return "/".join(filter(None, (self.corpus, self.backbone, self.method, tried, self._tuned)))

    @property
    def id(self) -> str:
        return "/".join(filter(None, (self.pretrained.system, f"s{self.seed}", self._tuned)))

    @property
    def _tuned(self) -> str:
        return f"ft-{self.finetune}" if self.finetune else ""


@dataclass(frozen=True, order=True)
class Snapshot:
    """A run's weights after a share of its steps, one of its recipe's ``snapshots``."""

    run: Run
    share: float

    @property
    def backbone(self) -> str:
        return self.run.backbone

    @property
    def system(self) -> str:
        return f"{self.run.system}/{snapshot_name(self.share)}"

    @property
    def id(self) -> str:
        return f"{self.run.id}/{snapshot_name(self.share)}"


@dataclass(frozen=True, order=True)
class Untrained:
    """The control of every run with this backbone, pooling and seed: its own initial weights."""

    backbone: str
    pooling: str
    seed: int

    @property
    def system(self) -> str:
        return f"untrained/{self.backbone}/{self.pooling}"

    @property
    def id(self) -> str:
        return f"{self.system}/s{self.seed}"


@dataclass(frozen=True, order=True)
class Frozen:
    """A frozen encoder, a key of the scale's encoders."""

    name: str

    @property
    def system(self) -> str:
        return f"frozen/{self.name}"

    @property
    def id(self) -> str:
        return self.system


def probe_of(encoder: str, head: str) -> str:
    """The job that probes the encoder of this id by a head."""
    return f"probe/{encoder}" if head == "linear" else f"probe/{encoder}/{head}"
