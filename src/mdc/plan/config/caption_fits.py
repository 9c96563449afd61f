"""Checks of captioning across sections: each system against its method, finetuning and vocabulary."""

from mdc.plan.config.caption import DECODING_OF, Diffusing, Unmasking, longest
from mdc.plan.config.caption_table import (
    CaptionedImages,
    CaptionExamplesOf,
    CaptionTable,
    CaptionView,
    GuidanceFigure,
    RobustnessFigure,
    RunClip,
)
from mdc.plan.config.distortion import STRENGTHS
from mdc.plan.config.params import Params
from mdc.plan.config.pretrain import Method
from mdc.plan.config.scale import Scale
from mdc.plan.config.systems import CaptionSystem, distorted
from mdc.plan.config.tables import ShownInPart
from mdc.plan.config.types import check_reference, check_unique_labels
from mdc.plan.parts import family_of


def check_captioning(params: Params) -> None:
    """ValueError, which begins with the key, for the first problem."""
    context_length = params.protocol.data.context_length
    for name, tuned in params.finetune.items():
        if tuned.canvas is not None and tuned.canvas > context_length - 1:
            raise ValueError(
                f"finetune.{name}.canvas = {tuned.canvas}: at most {context_length - 1} tokens fit the context"
            )
    for place, table in params.captioned().items():
        _table(params, table, place)
    table3 = params.tables.the(CaptionTable)
    for key, system in table3.entries.items() if table3 is not None else ():
        if system.first_seed:
            raise ValueError(f"tables.table3.systems.{key}.first_seed: Table 3 shows every seed; leave this key out")
    shown: set[str] = set()
    for place, table in params.captioned().items():
        for name in table.datasets:
            if name in shown:
                raise ValueError(f"{place}.datasets.{name}: another has a dataset of this name; give it another")
        shown |= table.datasets.keys()
    for name, view in params.tables.of_captions().items():
        _view(params, view, f"tables.{name}")


def _table(params: Params, table: CaptionTable, where: str) -> None:
    check_unique_labels(f"{where}.datasets", {key: dataset.label for key, dataset in table.datasets.items()})
    check_unique_labels(
        f"{where}.systems",
        {key: f"{system_config.label} · {system_config.length}" for key, system_config in table.systems.items()},
    )
    for key, dataset in table.datasets.items():
        _dataset(params, dataset, f"{where}.datasets.{key}")
        for system, system_config in table.systems_of(key).items():
            _system(params, dataset, system_config, f"{where}.systems.{system}")
    for place, clip in (("clip_score", table.clip_score), ("guide", table.guide)):
        if isinstance(clip, RunClip):
            _clip(params, clip, f"{where}.{place}")
    if isinstance(table.clip_score, RunClip) and table.guide is not None:
        seeds = params.training.seeds
        scored, guide = ((clip.method, clip.on(table), clip.of(seeds)) for clip in (table.clip_score, table.guide))
        if scored == guide:
            raise ValueError(
                f"{where}.guide: is the run that CLIPScore is by, which would reward what it has chosen itself; give one of them "
                "another method, backbone or seed"
            )


def _view(scale: Scale, view: ShownInPart, where: str) -> None:
    """Check that one section has the datasets and systems of a table or figure, for all its seeds."""
    named, datasets = ("datasets", view.datasets) if isinstance(view, CaptionView) else ("dataset", [view.dataset])
    sections = {key: (name, table) for name, table in scale.shown_in_part().items() for key in table.datasets}
    check_reference(f"{where}.{named}", datasets[0], sections, "dataset (of mc_diffusion or claims)")
    section, table = sections[datasets[0]]
    first = isinstance(view, CaptionExamplesOf)
    if isinstance(view, CaptionView):
        systems, first = table.members(view.systems), view.first_seed
        if view.select_on is not None:
            check_reference(f"{where}.select_on", view.select_on, table.datasets, f"dataset ({section}.datasets)")
        for pair in view.over:
            for dataset, system in ((dataset, side) for dataset in datasets for side in pair):
                _captions(table, dataset, system, f"{where}.over", section)
    elif isinstance(view, GuidanceFigure):
        systems = []
        for name, curve in view.curves.items():
            members = table.members(curve.systems)
            if len(members) < 2:
                raise ValueError(f"{where}.curves.{name}.systems: {curve.systems[0]} alone makes no curve")
            systems += members
        for key in systems:
            check_reference(f"{where}.curves", key, table.systems, f"system ({section}.systems)")
            if not isinstance(table.systems[key].decode, Diffusing):
                raise ValueError(
                    f"{where}.curves: {key} has no scale of guidance; only systems that write by diffuse have"
                )
    elif isinstance(view, RobustnessFigure):
        systems = _distorted_systems(table, view, where, section)
    else:
        systems = table.members(view.systems)
    for name in datasets:
        check_reference(f"{where}.datasets", name, table.datasets, f"dataset ({section}.datasets)")
    for key in systems:
        check_reference(f"{where}.systems", key, table.systems, f"system ({section}.systems)")
        if not any(key in table.systems_of(name) for name in datasets):
            _captions(table, datasets[0], key, f"{where}.systems", section)
        if table.systems[key].first_seed and not first:
            raise ValueError(f"{where}.systems: {key} is of the first seed alone, and this shows all")
    if isinstance(view, CaptionView):
        shown = table.view(view).sides
        for place, pairs in (("contrasts", view.contrasts), ("primary", view.primary)):
            for side in (side for pair in pairs for side in pair):
                dataset, _, system = side.partition("/")
                _captions(table, dataset, system, f"{where}.{place}", section)
                check_reference(f"{where}.{place}", side, shown, "dataset/system of this table")


def _captions(table: CaptionTable, dataset: str, system: str, where: str, section: str) -> None:
    """ValueError if a system does not caption a dataset; unknown names are reported elsewhere."""
    if dataset in table.datasets and system in table.systems and system not in table.systems_of(dataset):
        raise ValueError(
            f"{where}: {system} does not caption {dataset}; name it under {section}.datasets.{dataset}.systems"
        )


def _distorted_systems(table: CaptionTable, view: RobustnessFigure, where: str, section: str) -> list[str]:
    """The systems of a robustness figure, undistorted and at every strength."""
    for side in (side for pair in view.primary for side in pair):
        check_reference(f"{where}.primary", side, view.systems, "system of this figure (systems)")
    systems = []
    for key in view.systems:
        check_reference(f"{where}.systems", key, table.systems, f"system ({section}.systems)")
        for kind in view.kinds:
            wanted = [distorted(key, kind, strength) for strength in range(1, STRENGTHS + 1)]
            if not all(name in table.systems for name in wanted):
                raise ValueError(
                    f"{where}.kinds: {key} is not shown images with {kind}; give {section}.systems.{key} "
                    f"distorted: [{kind}]"
                )
            systems += wanted
    return [*view.systems, *systems]


def _dataset(scale: Scale, dataset: CaptionedImages, where: str) -> None:
    vocabulary = scale.vocabulary_of(dataset.pretrained)
    for key, name in dataset.tuned.items():
        if name is None:
            continue
        corpus = scale.finetune[name].corpus
        if scale.vocabulary_of(corpus) != vocabulary:
            raise ValueError(
                f"{where}.tuned.{key}: {corpus} has the vocabulary {scale.vocabulary_of(corpus)}, and {dataset.pretrained}, on "
                f"which the runs are pretrained, has {vocabulary}; a run keeps its vocabulary, so give both the same"
            )
        listed = scale.data.vocabularies[vocabulary]
        if listed != "full" and corpus not in listed:
            raise ValueError(
                f"{where}.tuned.{key}: the vocabulary {vocabulary} does not cover {corpus}; add it to its list"
            )


def _system(params: Params, dataset: CaptionedImages, system: CaptionSystem, where: str) -> None:
    method, decode = params.methods[system.method], system.decode
    family = family_of(method.objective)
    if family not in DECODING_OF:
        raise ValueError(f"{where}.method = {system.method}: the objective {method.objective} writes no captions")
    if decode.kind != DECODING_OF[family]:
        raise ValueError(f"{where}.decode.kind = {decode.kind}: {system.method} writes by {DECODING_OF[family]}")
    if isinstance(decode, Diffusing):
        return _diffuses(method, system, decode, where)
    ends = isinstance(decode, Unmasking) and decode.ends
    room = params.protocol.data.context_length - (1 if ends else 2)
    if longest(decode) > room:
        raise ValueError(f"{where}.decode: {longest(decode)} BPE tokens; at most {room} fit the context")
    name = dataset.tuned_as(system)
    canvas = params.finetune[name].canvas if name is not None else None
    if canvas is not None and family != "masked":
        raise ValueError(f"{where}.tuned = {system.tuned}: it has a canvas, which {system.method} cannot learn")
    if ends and canvas is None:
        raise ValueError(f"{where}.decode.ends: needs a finetuning with a canvas, on which a model learns where to end")


def _diffuses(method: Method, system: CaptionSystem, decode: Diffusing, where: str) -> None:
    assert method.diffusion_steps is not None
    if decode.steps is not None and decode.steps > method.diffusion_steps:
        raise ValueError(f"{where}.decode.steps = {decode.steps}: {system.method} has {method.diffusion_steps} at most")
    none, printed = (1, "1") if decode.orientation == "cfg" else (0, "0 as_printed")
    if decode.guidance != none and method.guidance is None:
        raise ValueError(
            f"{where}.decode.guidance = {decode.guidance}: {system.method} is not trained for it; only {printed} is possible"
        )
    if system.tuned is not None:
        raise ValueError(f"{where}.tuned = {system.tuned}: {system.method} is not finetuned; leave this key out")


def _clip(params: Params, clip: RunClip, where: str) -> None:
    objective = params.methods[clip.method].objective
    if objective != "contrastive":
        raise ValueError(f"{where}.method = {clip.method}: its objective is {objective}, not CLIP's")
    if clip.seed is not None and clip.seed not in params.training.seeds:
        seeds = ", ".join(map(str, params.training.seeds))
        raise ValueError(f"{where}.seed = {clip.seed}: not one of the scale's (pretrain.seeds: {seeds})")
