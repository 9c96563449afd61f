"""A trained run as predictors load it: its manifest, checked against its checkpoint."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdc.models.build import build_for
from mdc.models.encoders.tower import fill, read_tower
from mdc.models.text import Vocabulary
from mdc.models.weights import BEST, CHECKPOINT, load_weights
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.jobs.call import Call
from mdc.plan.jobs.folder import ScaleFolder
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.jobs.read import as_job
from mdc.plan.outputs import checked
from mdc.plan.records import UserError, read_json

#: which weights of a run → their file: the last ones, or those with the least held-out loss
WEIGHTS = {"last": CHECKPOINT, "best": BEST}
#: keys of a run's manifest that tables show; ``pairs`` counts the real pairs of images and captions
_TRAINING = ("pairs", "steps", "samples_seen")


def weights_of(folder: Path) -> str:
    """``best`` for a finetuned run, else ``last``."""
    config = read_json(folder / "run.json").get("config")
    return "best" if isinstance(config, dict) and config.get("start") else "last"


def read_run(run: str | Path, name: str = CHECKPOINT) -> tuple[Path, dict[str, Any]]:
    """The weights ``name`` and the manifest of a run, from its folder or its ``run.json``; the weights are checked by hash."""
    path = Path(run)
    path = path / "run.json" if path.is_dir() else path
    manifest = read_json(path)
    try:
        expected = manifest["outputs"][name]
    except (KeyError, TypeError):
        raise UserError(f"{path}: not a run manifest (its outputs name no {name})") from None
    return checked(path.parent / name, expected, path), manifest


def expected_run(
    call: Call, job: str, config_sha256: str | None, name: str = CHECKPOINT
) -> tuple[Path, dict[str, Any], dict[str, int]]:
    """``read_run`` of an input of ``call``, and the facts of its training that tables show. UserError if the run has another
    configuration."""
    path = call.input(job)
    checkpoint, manifest = read_run(path, name)
    if not manifest.get("config_sha256") or manifest["config_sha256"] != config_sha256:
        raise UserError(f"{path}: made with another configuration than {call.job.job} expects; retrain the run")
    if missing := [key for key in _TRAINING if key not in manifest]:
        raise UserError(f"{path}: lacks {', '.join(missing)}; retrain the run")
    return checkpoint, manifest, {key: manifest[key] for key in _TRAINING}


@dataclass(frozen=True)
class RunModel:
    """Inputs of a predictor: a run's ``checkpoint``, its job and vocabulary, and the manifest of its frozen encoder, if any
    (``tower``)."""

    checkpoint: Path
    job: PretrainJob
    vocabulary: Vocabulary
    tower: Path | None = None

    @property
    def context_length(self) -> int:
        """Tokens of a caption, SOT and EOT counted."""
        return self.job.protocol.data.context_length

    def load(self) -> Any:
        """The model with its weights, which can be shown images; UserError if the weights do not fit."""
        job = self.job
        model = build_for(job, self.vocabulary.size)
        fill(model, load_weights(self.checkpoint), self.checkpoint)
        if isinstance(job.backbone, FrozenEncoderBackbone):
            if self.tower is None:
                raise UserError(
                    f"{self.checkpoint}: needs the frozen encoder {job.backbone.frozen.job}, which is missing"
                )
            model.encoder.use_pretrained_tower(read_tower(self.tower, job.backbone.frozen))
        return model


def open_run(folder: Path, weights: str = "last") -> tuple[RunModel, dict[str, Any]]:
    """The run in a scale's ``folder`` with its ``weights``, and its manifest; its inputs lie in the same scale.

    UserError if a file is missing or differs from its manifest.
    """
    checkpoint, manifest = read_run(folder, WEIGHTS[weights])
    job: PretrainJob = as_job(manifest.get("config", {}), "pretrain", str(folder / "run.json"))
    scale = ScaleFolder(scale_of(folder, manifest))
    vocabulary = Vocabulary.read(scale.manifest(f"data/vocabularies/{job.vocabulary}", "vocabulary"))
    frozen = job.backbone.frozen.job if isinstance(job.backbone, FrozenEncoderBackbone) else None
    tower = scale.manifest(frozen, "import-encoder") if frozen is not None else None
    return RunModel(checkpoint, job, vocabulary, tower), manifest


def scale_of(folder: Path, manifest: dict[str, Any]) -> Path:
    """The folder of the scale that a run's ``folder`` lies in."""
    return folder.resolve().parents[len(Path(manifest["id"]).parts) - 1]
