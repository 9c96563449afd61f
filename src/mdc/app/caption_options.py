"""A run's decoding policy from the user's options (docs/captioning.md)."""

from typing import Any, TypedDict

from pydantic import ValidationError

from mdc.models.text import Vocabulary, clip_pieces
from mdc.plan.config.decoding import Decoding
from mdc.plan.config.methods import DECODINGS
from mdc.plan.config.problems import first_problem
from mdc.plan.jobs.model import PretrainJob
from mdc.plan.records import UserError, did_you_mean

#: a missing token in a template
GAP = "?"


class Options(TypedDict, total=False):
    """``length``: BPE tokens of the caption. Of a masked method ``tokens_per_step``, ``threshold`` and ``temperature``; of an
    autoregressive one ``beam``; of a diffusion ``policy``, ``steps`` and ``guidance``. ``seed``: of the sampling. None: the
    method's default."""

    policy: str | None
    length: int | None
    tokens_per_step: int | None
    threshold: float | None
    temperature: float | None
    beam: int | None
    steps: int | None
    guidance: float | None
    seed: int


def way_of(job: PretrainJob, options: Options, filling: bool = False) -> Decoding:
    """The decoding policy of ``job``; by default the paper's: MDC the likeliest of three lengths, ARC a beam of 6,
    MC-Diffusion 25 strides without guidance. ``filling``: a template is filled in.

    UserError for an option that the run's method does not have, or a value that it cannot have.
    """
    try:
        return _way_of(job, {key: value for key, value in options.items() if value is not None}, filling)
    except ValidationError as error:
        key, _, problem = first_problem(error).partition(" ")
        raise UserError(f"{'beam' if key == 'num_beams' else key} {problem}") from None


def _way_of(job: PretrainJob, options: dict[str, Any], filling: bool) -> Decoding:
    writes, seed = job.method.decoding, options.pop("seed", 0)
    if writes is None:
        raise UserError(f"{job.job}: a method with the objective {job.method.objective} writes no captions")
    way = DECODINGS[writes][0]
    if filling and writes != "unmask":
        raise UserError(f"{job.method_name} writes by {way.in_words} and cannot fill words in; masked methods can")
    policy = options.pop("policy", way.cli_policies[0])
    if policy not in way.cli_policies:
        raise UserError(f"policy {policy}: {job.method_name} writes by {' or '.join(way.cli_policies)}")
    if unknown := next((option for option in options if option not in way.cli_options), None):
        hint = did_you_mean(unknown, way.cli_options)
        raise UserError(f"{unknown}: {job.method_name} writes by {way.in_words}, which does not have it{hint}")
    length = options.get("length")
    if filling and length is not None:
        raise UserError("length: a caption that is filled in has the length of its text; leave it out")
    room = job.protocol.data.context_length - 2
    if length is not None and not 1 <= length <= room:
        raise UserError(f"length {length}: must be 1 to {room} BPE tokens, which fit the context")
    canvas = job.start.canvas if job.start is not None else None
    more = {"policy": policy} if len(way.cli_policies) > 1 else {}
    return way.usual(job.method, room, canvas, {"seed": seed, **more, **options})


def template(text: str, vocabulary: Vocabulary) -> list[int]:
    """The pieces of a caption with gaps, each a mask: "a ? dog" has one. Pieces that the vocabulary does not have are left out
    (see ``unknown_in``). UserError for a text without a gap."""
    tokens: list[int] = []
    for part in _parts(text):
        if part == GAP:
            tokens.append(vocabulary.mask_id)
        else:
            tokens += vocabulary.encode_pieces(vocabulary.known(clip_pieces(part)), 10**6)[1:-1]
    if vocabulary.mask_id not in tokens:
        raise UserError(f'{text!r}: has no gap; write ? for each BPE token that is missing, as in "a ? dog on a ?"')
    return tokens


def unknown_in(text: str, vocabulary: Vocabulary) -> list[str]:
    """The pieces of a caption with gaps that the vocabulary does not have, as text."""
    return [piece for part in _parts(text) if part != GAP for piece in vocabulary.unknown(part)]


def _parts(text: str) -> list[str]:
    """Words and gaps; a gap may have a comma or a point at its end."""
    return text.replace(GAP, f" {GAP} ").split()
