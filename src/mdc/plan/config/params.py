"""All parameters of one scale: the protocol, methods, and the scale with its tables."""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from mdc.plan.artefacts import ARTEFACTS, Artefact
from mdc.plan.config.kinds.backbones import FrozenBackbone
from mdc.plan.config.kinds.encoders import RunTower
from mdc.plan.config.methods import AnyMethod
from mdc.plan.config.problems import first_problem
from mdc.plan.config.references import unresolved
from mdc.plan.config.scale import Scale
from mdc.plan.config.tables import is_free_name, with_usual
from mdc.plan.config.types import Name, Range, Share, Strict, Unique, check_reference, equal_labels


class ProtocolData(Strict):
    context_length: Annotated[int, Field(ge=3)]


class ProtocolPretrain(Strict):
    optimizer: Literal["AdamW"]
    lr_schedule: Literal["cosine"]
    least_t: Annotated[float, Field(gt=0, lt=1)]
    t_draw: Literal["stratified", "independent"]
    adam_eps: Annotated[float, Field(gt=0)]
    final_lr: Annotated[float, Field(ge=0)]
    temperature: Annotated[float, Field(gt=0)]
    max_logit_scale: Annotated[float, Field(gt=1)]
    clip_text_attention: Literal["causal", "bidirectional"]
    mask_duplicates_over: Share
    crop_scale: Range[Share]
    crop_ratio: Range[Annotated[float, Field(gt=0)]]

    @model_validator(mode="after")
    def _ranges(self) -> Self:
        for key in ("crop_scale", "crop_ratio"):
            low, high = getattr(self, key)
            if low > high or low <= 0:
                raise ValueError(f"{key} [{low}, {high}] must be [low, high] with 0 < low <= high")
        return self


class ProtocolProbe(Strict):
    normalise: bool
    weight_decay: Annotated[float, Field(ge=0)]


class ProtocolStatistics(Strict):
    """Intervals and verdicts of all tables and figures (docs/statistics.md). ``margins``: by metric, the equivalence margin in
    points; caption metrics have their own margins, all others none."""

    level: Annotated[float, Field(gt=0.5, lt=1)]
    margins: dict[str, Annotated[float, Field(gt=0)]]
    power: Annotated[float, Field(gt=0.5, lt=1)]
    bootstrap: Annotated[int, Field(lt=2**31)]

    @model_validator(mode="after")
    def _enough_draws(self) -> Self:
        """Six corrected primary contrasts must be able to be significant: the least p of a bootstrap is 2 / (draws + 1)."""
        least = math.ceil(2 * 6 / (1 - self.level))
        if self.bootstrap < least:
            raise ValueError(
                f"bootstrap = {self.bootstrap}: too few to hold any of six claims; {least} or more are needed"
            )
        return self


class Protocol(Strict):
    data: ProtocolData
    pretrain: ProtocolPretrain
    probe: ProtocolProbe
    statistics: ProtocolStatistics


class Params(Scale):
    """All parameters of one scale: the parameter file, and the scale's own file on top of the shared blocks.

    ``scale``: its name. ``artefacts``: every table and figure of any scale, in the order shown. DVC has a stage for each.
    """

    scale: Name
    artefacts: Unique[Name] = Field(default_factory=list)
    protocol: Protocol
    methods: dict[Name, AnyMethod]

    @model_validator(mode="before")
    @classmethod
    def _tables(cls, values: Any) -> Any:
        """Sort the tables by ``artefacts``. The default backbone of a table is the scale's first, the default probe its
        primary."""
        try:
            place = {name: number for number, name in enumerate(values["artefacts"])}
            tables = dict(sorted(values["tables"].items(), key=lambda item: place.get(item[0], len(place))))
        except (AttributeError, KeyError, TypeError):
            return values  # invalid; the class of the invalid value reports it
        usual = {}
        with suppress(AttributeError, KeyError, StopIteration, TypeError):
            usual["backbones"] = [next(iter(values["pretrain"]["backbones"]))]
        with suppress(KeyError, TypeError):
            usual["probes"] = [values["data"]["primary_probe"]]
        complete = {**values, "tables": with_usual(tables, usual)}
        if isinstance(values.get("captions"), dict) and "backbones" in usual:
            complete["captions"] = {"backbone": usual["backbones"][0], **values["captions"]}
        return complete

    @property
    def declared(self) -> dict[str, Artefact]:
        """Every table and figure, with the scale's own."""
        return ARTEFACTS | self.tables.artefacts

    @model_validator(mode="after")
    def _listed(self) -> Self:
        """Check the names of artefacts; a free name may be another scale's own."""
        for name in self.artefacts:
            if not is_free_name(name):
                check_reference("artefacts", name, self.declared, "table or figure")
        return self

    def misfits(self) -> Iterator[str]:
        """What sections that are valid alone ask of each other and do not get: a line each, which begins with the key."""
        yield from self._of_encoders()
        yield from self._of_overrides()
        for name, block in self.tables.items():
            yield from block.misfits(self, f"tables.{name}")
        if self.captions is not None and self.tables.needing("captions"):
            yield from self.captions.misfits(self)

    def _of_overrides(self) -> Iterator[str]:
        """Overrides of keys of methods: each method that one names must have the key and take the value."""
        for number, override in enumerate(self.pretrain.overrides if self.pretrain else ()):
            where = f"pretrain.overrides[{number}].set"
            for key, value in override.method.items():
                for name in override.when.method or [name for name, one in self.methods.items() if key in one.by_run]:
                    method = self.methods[name]
                    if key not in method.by_run:
                        said = f"{name} has no such key (objective {method.objective}); name others in when.method"
                        yield f"{where}.{key}: {said}"
                        continue
                    whole = {**method.model_dump(by_alias=True, context="complete"), key: value}
                    try:
                        yield from unresolved(type(method).model_validate(whole), where, (self,))
                    except ValidationError as error:
                        yield f"{where}.{first_problem(error, whole)}"

    def _of_encoders(self) -> Iterator[str]:
        yield from equal_labels("encoders", {key: entry.label for key, entry in self.encoders.items()})
        backbones = self.pretrain.backbones if self.pretrain else {}
        for name, entry in self.encoders.items():
            if isinstance(entry, RunTower) and isinstance(backbones[entry.backbone], FrozenBackbone):
                yield f"encoders.{name}.backbone = {entry.backbone}: has no encoder of its own; name one that is trained"
        if self.encode is None and any(isinstance(backbone, FrozenBackbone) for backbone in backbones.values()):
            yield "encode: this key is missing; needed by backbones on a frozen encoder"
