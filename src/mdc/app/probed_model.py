"""Find the encoder to probe by name: of timm or open_clip, a folder, an entry of the scale, or a run.

UserError for an unknown one, with what is allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mdc.app.find_run import run_folder
from mdc.models.encoders.tower import Tower, shape_of
from mdc.models.runs import read_run
from mdc.plan.config.kinds.backbones import FrozenEncoderBackbone
from mdc.plan.config.kinds.encoders import Encoder, MadeEncoder, OpenClipTower, TimmTower, shown_label
from mdc.plan.config.kinds.known import ENCODERS
from mdc.plan.config.params import Params
from mdc.plan.config.problems import first_problem
from mdc.plan.jobs import encoder_jobs
from mdc.plan.jobs.ids import Frozen
from mdc.plan.jobs.model import EncoderJob, PretrainJob
from mdc.plan.jobs.plan import Plan
from mdc.plan.jobs.read import as_job
from mdc.plan.records import UserError

#: libraries by whose names a model is named, as ``timm:NAME``
LIBRARIES = ("timm", "open_clip")
ENCODER_NAME = "asked"  # its name in the plan
_LITE0 = "efficientnet_lite0"


@dataclass(frozen=True)
class Probed:
    """Inputs of probe jobs: the ``values`` of the encoder (see ``Plan.probe_job``); its ``importing`` job, or for a run of ours
    its ``folder``. ``label``: in tables."""

    label: str
    values: dict[str, Any]
    image_size: int
    importing: EncoderJob | None = None
    folder: Path | None = None


def probed(name: str, params: Params, image_size: int | None, attentive: bool, params_file: str) -> Probed:
    """The encoder ``name`` for images of ``image_size`` pixels (None: its native size). ``attentive``: with a feature as wide as
    its tokens. ``params``: of the scale, whose encoders are known by name."""
    entry = _entry(name, params.encoders, image_size)
    if entry is None:
        try:
            folder = run_folder(name, params_file, params.scale)
        except UserError as error:
            others = "timm:NAME (torchvision's nets as timm:resnet50.tv_in1k), open_clip:NAME/PRETRAINED"
            raise UserError(f"{error}; other encoders: {others}") from None
        return _run(name, folder, image_size)
    entry = _measured(name, entry, params, attentive)
    plan = _with(params, entry)
    return Probed(
        shown_label(entry) or name,
        plan.frozen_values(Frozen(ENCODER_NAME)),
        entry.image_size,
        encoder_jobs.encoder(plan, ENCODER_NAME),
    )


def _entry(name: str, encoders: Mapping[str, Encoder], image_size: int | None) -> Encoder | None:
    """Its entry of ``encoders``, before its tokens are counted; None of a run."""
    kind, _, model = name.partition(":")
    folder = Path(name)
    if name in encoders:
        entry = encoders[name]
        if isinstance(entry, MadeEncoder):
            raise UserError(f"{name}: an encoder of kind {entry.kind}, which this scale trains; name a run")
        return entry if image_size is None else entry.model_copy(update={"image_size": image_size})
    if kind in LIBRARIES:
        values = _of_library(kind, model)
    elif name == _LITE0:
        values = {"kind": _LITE0}
    elif not folder.is_dir() or (folder / "run.json").is_file() or (folder / "mdc").is_dir():
        return None
    elif (folder / "open_clip_config.json").is_file():
        values = {"kind": "open_clip", "model": f"local-dir:{name}"}
    elif (folder / "config.json").is_file():
        values = {"kind": "timm", "model": f"local-dir:{name}"}
    else:
        raise UserError(f"{name}: holds no run.json, open_clip_config.json or config.json of timm")
    values["image_size"] = image_size or _native_size(values)
    try:
        return ENCODERS[values["kind"]].model_validate({"label": "", "tokens": 1, "width": 1, **values})
    except ValidationError as error:
        raise UserError(f"{name}: {first_problem(error, values)}") from None


def _of_library(kind: str, model: str) -> dict[str, Any]:
    """``NAME``, ``NAME/WEIGHTS``, ``local-dir:FOLDER`` or ``hf-hub:OWNER/NAME`` as values of an entry."""
    located = model.startswith(("local-dir:", "hf-hub:"))
    name, _, weights = (model, "", "") if located else model.partition("/")
    values: dict[str, Any] = {"kind": kind, "model": name}
    if weights:
        values["weights"] = str(Path(weights).resolve()) if Path(weights).is_file() else weights
    return values


def _native_size(values: Mapping[str, Any]) -> int:
    return 224 if values["kind"] == _LITE0 else int(ENCODERS[values["kind"]].load().native_size(values["model"]))


def _with(params: Params, entry: Encoder) -> Plan:
    """The plan of the scale with one encoder more."""
    return Plan(params.model_copy(update={"encoders": {**params.encoders, ENCODER_NAME: entry}}))


def _measured(name: str, entry: Encoder, params: Params, attentive: bool) -> Encoder:
    """``entry`` with the number and width of its tokens."""
    size = entry.image_size
    tower: Tower = entry.load().tower(encoder_jobs.encoder(_with(params, entry), ENCODER_NAME)).eval()
    feature, count, width = shape_of(tower, size, name, "; choose with --image-size")
    if attentive and count < 2:
        raise UserError(f"{name}: gives no patch tokens of {size} × {size} pixels, which an attentive probe attends to")
    pooled = attentive and feature != width and isinstance(entry, OpenClipTower | TimmTower)
    return entry.model_copy(update={"tokens": count, "width": width, **({"pooled": True} if pooled else {})})


def _run(name: str, folder: Path, image_size: int | None) -> Probed:
    """The encoder of a run of ours, after its last step."""
    path = folder / "run.json"
    if not path.is_file():  # exported for open_clip
        raise UserError(f"{name}: holds no run.json; of a model exported for open_clip name the folder")
    _, manifest = read_run(path)
    job: PretrainJob = as_job(manifest["config"], "pretrain", str(path))
    backbone = job.backbone
    if isinstance(backbone, FrozenEncoderBackbone):
        raise UserError(
            f"{name}: uses the frozen encoder {backbone.frozen.job} and has none of its own to probe; name that encoder"
        )
    if image_size not in (None, backbone.image_size):
        raise UserError(f"--image-size {image_size}: {name} was trained on images of {backbone.image_size} pixels")
    values = {
        "behind": [f"runs/{ENCODER_NAME}"],
        "modules": [],
        "backbone_name": job.backbone_name,
        "backbone": backbone,
        "seed": job.seed,
        "pooling": job.method.usual_pooling,
        "run": f"runs/{ENCODER_NAME}",
        "run_config_sha256": manifest["config_sha256"],
    }
    return Probed(job.job.removeprefix("runs/"), values, backbone.image_size, folder=folder)
