"""Read a job from its configuration, which the workflow writes (see :mod:`mdc.plan.jobs.folder`).

A file that was edited, truncated or written by another version gives a UserError of one line.
"""

import json
import warnings
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from mdc.plan import parts
from mdc.plan.artefacts import declared
from mdc.plan.config.problems import first_problem, short
from mdc.plan.jobs.job import Job
from mdc.plan.records import UserError, read_json
from mdc.plan.verbs import VERBS

#: verb → keys of its jobs that earlier versions wrote and no evaluation reads: a record with them is read without them
GONE: dict[str, tuple[str, ...]] = {
    "pretrain": ("method.masks", "method.masking", "backbone.words"),
    "import-encoder": ("run", "run_config_sha256", "backbone", "contrastive", "tokenizer"),
}


@cache
def _classes() -> dict[str, type[Job]]:
    """Verb → the class of its jobs, which names it. Imported here, since a table or figure needs none of them."""
    modules = dict.fromkeys(verb.jobs for verb in VERBS.values())
    found = [kind for module in modules for kind in vars(import_module(module)).values()]
    jobs = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Job)]
    return {verb: kind for kind in jobs for verb in get_args(kind.model_fields["verb"].annotation)}


def _class(config: dict[str, Any], verb: str, where: str) -> type[Job]:
    """The class of a job; UserError for a table or figure that there is not."""
    if verb == "make":
        name, kind = config.get("artefact", ""), config.get("kind")
        try:
            declared(name, kind)
        except (KeyError, TypeError):
            problem = f"artefact = {short(name)}" if kind is None else f"kind = {short(kind)}"
            raise UserError(f"{where}: {problem}: there is no such table or figure") from None
        return import_module("mdc.plan.jobs.shown").ArtefactJob
    return _classes()[verb]


def read_job(path: str | Path, verb: str) -> Any:
    """The typed job of ``verb`` in a file; UserError, naming the file and its first problem, if it holds none."""
    config = read_json(path)
    if config.get("verb") != verb:
        raise UserError(f"{path}: not a configuration of `mdc {verb}`; `mdc config JOB` prints one")
    return _typed(config, verb, str(path))


def as_job(config: dict[str, Any], verb: str, where: str) -> Any:
    """``config`` of a record as the typed job of ``verb``, with a warning for each of its keys that are ``GONE``; UserError that
    begins with ``where`` if it is none."""
    method = config.get("method")
    objective = str(method.get("objective")) if isinstance(method, dict) else ""
    folder = parts.METHODS.get(objective)
    of_objective = import_module(f"{folder}.method").METHOD.gone if folder else ()
    for path in (*GONE.get(verb, ()), *of_objective):
        config = _without(config, path, f"{where}: {path}")
    return _typed(config, verb, where)


def _without(values: Any, path: str, where: str) -> Any:
    """``values`` without the key at the end of the dotted ``path``."""
    key, _, rest = path.partition(".")
    if not isinstance(values, dict) or key not in values:
        return values
    if rest:
        return {**values, key: _without(values[key], rest, where)}
    warnings.warn(f"{where} = {short(values[key])}: ignored, for this version has no such key", stacklevel=2)
    return {name: value for name, value in values.items() if name != key}


def _typed(config: dict[str, Any], verb: str, where: str) -> Any:
    try:
        # as JSON, where a list is accepted for a tuple, which a strict class otherwise refuses
        job = _class(config, verb, where).model_validate_json(json.dumps(config))
        if verb == "make" and (artefact := declared(config["artefact"], config.get("kind"))).values:
            artefact.load("values").model_validate_json(json.dumps(config.get("more", {})))
        return job
    except ValidationError as error:
        raise UserError(f"{where}: {first_problem(error, config)}; `mdc config JOB` prints a good one") from None
