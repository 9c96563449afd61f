"""No value in a module that no fingerprint covers decides a result, unless the job's configuration holds it.

Code that is covered gets values from modules that are left out in two ways: in its job, and by import. So a job must be its
configuration and nothing besides, and what is imported must be the plain classes that jobs are made of, or stand in
``TAKEN`` with the reason why an edit of it cannot pass unseen. The edits themselves are made below.
"""

import ast
import dataclasses
import importlib
import json
import os
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from read_table import read_table
from scale_files import ROOT, SCALES
from scale_plans import plan_of

import mdc.plan.fingerprint as fp
from mdc.extensions.blog.kinds import LEVELS, Objects, ResNet
from mdc.methods.contrastive.method import Contrastive
from mdc.methods.masked.method import Masked, MaskedMethod
from mdc.plan import parts
from mdc.plan.artefacts import ARTEFACTS
from mdc.plan.config.decoding import Decoding
from mdc.plan.config.kinds.backbones import visual_contexts
from mdc.plan.config.kinds.heads import LINEAR, Attentive
from mdc.plan.config.kinds.known import BACKBONES, CHOICES, CORPORA, DISTORTIONS, ENCODERS, HEADS, PROBES
from mdc.plan.config.kinds.sources import CaptionList
from mdc.plan.config.method import Method
from mdc.plan.config.read import load
from mdc.plan.jobs.job import Job
from mdc.plan.jobs.plan import Plan
from mdc.plan.registry.datasets import REGISTRY
from mdc.plan.verbs import VERBS


def besides(value: Any, told: Any, where: str) -> Iterator[str]:
    """What a job holds that its configuration ``told`` does not say: a value that follows from the class, not from the file.

    None, False and what is empty may be left out: a value is then not asked for."""
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            key, held = field.alias or name, getattr(value, name)
            if key in told:
                yield from besides(held, told[key], f"{where}.{key}")
            elif held not in (None, False, "", [], {}):
                yield f"{where}.{key}"
    elif isinstance(value, Mapping) and isinstance(told, Mapping) and value.keys() == told.keys():
        for key in value:
            yield from besides(value[key], told[key], f"{where}.{key}")
    elif isinstance(value, list | tuple) and isinstance(told, list) and len(value) == len(told):
        for number, one in enumerate(value):
            yield from besides(one, told[number], f"{where}[{number}]")
    elif value != told:
        yield where


@pytest.mark.parametrize("scale", SCALES)
def test_a_job_is_its_configuration(scale: str) -> None:
    jobs = plan_of(scale).jobs
    found = {one for job in jobs.values() for one in besides(job, job.config(), type(job).__name__)}
    assert jobs and found == set()
    one = next(iter(jobs.values()))
    told = {key: value for key, value in one.config().items() if key != "fingerprint"}
    assert list(besides(one, told, "job")) == ["job.fingerprint"], "what it does not tell is found"


def classes() -> set[type[BaseModel]]:
    """Every class that a job can hold."""
    found: set[type[BaseModel]] = set()

    def walk(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in found:
            found.add(annotation)
            for field in annotation.model_fields.values():
                walk(field.annotation)
        for part in typing.get_args(annotation):
            walk(part)

    for job in _subclasses(Job):
        walk(job)
    # a class that several methods are below
    return found | {one for kind in found for one in kind.__mro__ if issubclass(one, Method) and one is not Method}


def _subclasses(cls: type) -> Iterator[type]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def computed(cls: type[BaseModel]) -> set[str]:
    """The names of a class of ours that are no fields: properties, methods and values that no configuration holds."""
    own = [one for one in cls.__mro__ if one.__module__.startswith("mdc.")]
    return (
        {name for one in own for name in vars(one) if not name.startswith("_")}
        - set(cls.model_fields)
        - {"model_config"}
    )


def covered() -> list[str]:
    """Every module that some job's fingerprint covers."""
    loaded = [*parts.ABILITIES.values(), CaptionList.module, LINEAR]
    loaded += [one.module for kind in (ENCODERS, CORPORA, PROBES, CHOICES, HEADS) for one in kind.values()]
    loaded += [module for one in _subclasses(Method) for module in one.abilities.values()]  # type: ignore[attr-defined]
    loaded += [one.module for one in (*VERBS.values(), *ARTEFACTS.values())]
    loaded += [one.module for one in (*BACKBONES, *visual_contexts().values(), *DISTORTIONS.values())]
    return fp.closure(*sorted(set(loaded)))


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The text of each of them."""
    found = {}
    for module in covered():
        path = fp.module_file(module)
        assert path is not None
        found[module] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def test_no_code_reads_what_is_declared(trees: dict[str, ast.Module]) -> None:
    """No fingerprint covers it."""
    names = [node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.Name)]
    declared, read = ({node.id for node in names if isinstance(node.ctx, kind)} for kind in (ast.Store, ast.Load))
    assert {"SHOWN", "DATA_FILES"} <= declared - read


#: a job's own: the whole configuration, its hash, and a copy with other fields; the module of a method's ability or of a kind,
#: which the job's fingerprint covers; and what only refuses
OF_JOBS = {"config", "sha256", "complete", "but", "load", "module", "estimators", "decoding", "refusal", "in_words"}


#: what plans a table or figure within its module: the class of its parameters, and the function of its rows
PLANNING = {"Block", "rows", *(artefact.config for artefact in ARTEFACTS.values())}


def _computing(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module but for what plans a table's job: its parameters and its rows, whose values the job holds."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in PLANNING):
            yield from (node, *_computing(node))


def test_code_reads_nothing_of_a_job_but_its_fields(trees: dict[str, ast.Module]) -> None:
    """By the names of attributes, whatever they are read of."""
    nodes = (node for tree in trees.values() for node in _computing(tree))
    asked = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    told = set.union(*map(computed, (Job, Method, Decoding, HEADS["attentive"])))
    assert told >= OF_JOBS and "config" in asked and len(classes()) > 50
    assert {f"{cls.__name__}.{name}" for cls in classes() for name in computed(cls) & asked - OF_JOBS} == set()


def taken(tree: ast.Module) -> Iterator[str]:
    """What a module imports from modules that are left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                if fp.left_out(name if fp.module_file(name) else node.module):
                    yield name
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if fp.left_out(alias.name))


def plain(name: str) -> bool:
    """Whether it is a class that jobs are made of, or a type: these say what may be asked, not what is done."""
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute)
    if isinstance(found, type):
        return issubclass(found, BaseModel) and found in classes()
    return typing.get_origin(found) is not None


#: what else is imported → why an edit of it reruns what it decides, or decides nothing
TAKEN = {f"mdc.plan.{name}" for names in read_table(__file__, "taken").values() for name in names}


def test_nothing_else_is_imported(trees: dict[str, ast.Module]) -> None:
    found = {name for tree in trees.values() for name in taken(tree)}
    assert {name for name in found if name not in TAKEN and not plain(name)} == set()
    assert found >= TAKEN, "TAKEN holds what nobody takes any more"
    assert not plain("mdc.extensions.blog.kinds.LEVELS")


def changed(before: Plan) -> set[str]:
    """The jobs of a plan that have another configuration after an edit."""
    after = Plan(load(ROOT / "params.yaml", before.params.scale)).jobs
    assert before.jobs.keys() == after.keys()
    return {name for name, job in before.jobs.items() if job.sha256 != after[name].sha256}


def test_an_edit_reruns_what_it_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another module of an objective and of a table; other estimators; another checksum in the registry."""
    entry = REGISTRY["sugarcrepe"]
    with monkeypatch.context() as patch:
        patch.setattr(Masked, "abilities", {**Masked.abilities, "train": Contrastive.abilities["train"]})
        found = changed(plan_of("mini"))
    assert "runs/alt/ViT-T-12/mdc/s0" in found and "runs/alt/ViT-T-12/clip/s0" not in found
    with monkeypatch.context() as patch:
        before = plan_of("mini")
        other = dataclasses.replace(ARTEFACTS["table4"], module=ARTEFACTS["table1"].module)
        patch.setitem(before.scale.tables.artefacts, "table4", other)
        assert {name for name, job in Plan(before.params).jobs.items() if job != before.jobs[name]} == {"table4"}
    with monkeypatch.context() as patch:
        given = vars(MaskedMethod)["estimators"].fget
        patch.setattr(MaskedMethod, "estimators", property(lambda method: given(method)[::-1]))
        assert {name.partition("/")[0] for name in changed(plan_of("mini"))} >= {"scores", "retrieval", "table2"}
    with monkeypatch.context() as patch:
        patch.setattr(ResNet, "module", Attentive.module)
        found = changed(plan_of("mini"))
    of_network = {name for name in plan_of("mini").jobs if "/ResNet-8/" in name}
    assert {name.partition("/")[0] for name in of_network} >= {"runs", "captions", "probe"} and found >= of_network
    with monkeypatch.context() as patch:
        patch.setattr(Objects, "module", Attentive.module)
        assert "runs/dense/ViT-T-12-objects/mdc/s0" in changed(plan_of("mini"))
    files = (dataclasses.replace(entry.files[0], sha256="0" * 64), *entry.files[1:])
    monkeypatch.setitem(REGISTRY, "sugarcrepe", dataclasses.replace(entry, files=files))
    assert "data/obtained/sugarcrepe" in changed(plan_of("paper"))


def test_another_level_of_a_distortion_writes_its_captions_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before, levels = plan_of("flickr8k-long"), LEVELS["noise"]
    policies = {name: str(job.config().get("policies")) for name, job in before.jobs.items()}
    noisy = {name for name, told in policies.items() if "'kind': 'noise', 'strength': 1," in told}
    monkeypatch.setitem(LEVELS, "noise", (levels[0] / 2, *levels[1:]))
    found = changed(before)
    assert noisy and {name for name in found if name.startswith("captions/")} == noisy
    assert "figure_robustness" in found


#: a module, a line of it, the edited one, of which runs that decides the result, and a scale that may have both
EDITS: list[tuple[str, str, str, Callable[[dict[str, Any]], bool], str]] = [
    (
        "extensions/blog/kinds.py",
        '"width": width, "layers"',
        '"width": 2 * width, "layers"',
        lambda backbone: "blocks" in backbone,
        "mini",
    ),
    (
        "plan/config/kinds/backbones.py",
        'json_schema_extra=_listed)] = "patches"',
        'json_schema_extra=_listed)] = "mean"',
        lambda backbone: backbone.get("visual_context") == "patches",
        "flickr8k",
    ),
]


@pytest.mark.parametrize(("module", "text", "edited", "decides", "scale"), EDITS, ids=[edit[2] for edit in EDITS])
def test_an_edited_class_trains_anew(
    tmp_path: Path, module: str, text: str, edited: str, decides: Callable[[dict[str, Any]], bool], scale: str
) -> None:
    """What follows from other values, and what holds where nothing is said: in a copy of the package."""
    shutil.copytree(fp.ROOT, tmp_path / "mdc")  # with what is compiled
    path = tmp_path / "mdc" / module
    before = path.read_text(encoding="utf-8")
    assert before.count(text) == 1
    path.write_text(before.replace(text, edited), encoding="utf-8")
    script = (
        "import json; from mdc.plan.config.read import load; from mdc.plan.jobs.plan import Plan; "
        f"plan = Plan(load({str(ROOT / 'params.yaml')!r}, {scale!r})); "
        "print(json.dumps({name: job.sha256 for name, job in plan.jobs.items()}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    after = json.loads(done.stdout)
    jobs = {name: job for name, job in plan_of(scale).jobs.items() if name.startswith("runs/")}
    wanted = {name for name, job in jobs.items() if decides(job.config()["backbone"])}
    assert wanted and wanted <= {name for name, job in jobs.items() if job.sha256 != after[name]}
