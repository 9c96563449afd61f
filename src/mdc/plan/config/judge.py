"""The judge of captions: which of several captions depicts an image best, asked of a vision-language model or of CLIP."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from mdc.plan.config.references import Ref
from mdc.plan.config.types import Name, NonNegative, Positive, Strict, each_once


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is no address, as http://127.0.0.1:8000/v1")
    if parts.username or parts.password:
        raise ValueError("an address holds no user and no password; a key belongs into the environment (key_variable)")
    return text


class ByClipScore(Strict):
    """Without a language model: the caption with the highest CLIPScore. It is no stand-in for the paper's judge."""

    kind: Literal["clip_score"]


class ByEndpoint(Strict):
    """Any endpoint that speaks OpenAI's protocol, as vLLM does that serves the paper's Qwen2.5-VL-72B.

    ``key_variable`` names the environment variable that holds the key; it may be unset, for an endpoint that asks for none. The
    key is written nowhere. ``timeout`` in seconds; ``retries`` of a request that timed out or was refused for a while;
    ``longest_wait``: seconds that it may ask to wait. ``parallel``: requests at a time. ``instruction``: what the model is told
    besides the paper's prompt. ``answer``: json asks for an object with one letter (`response_format` with a JSON schema, which
    OpenAI, vLLM, SGLang and llama.cpp's server take); text asks for none, for an endpoint that rejects it. ``most_lost``: the
    share of questions that may end without an answer, because the endpoint timed out or failed; with more the job fails, keeps
    what was answered, and asks for the others when it is called again.
    """

    kind: Literal["endpoint"]
    base_url: Annotated[str, AfterValidator(_address)]
    model: Annotated[str, Field(min_length=1)]
    key_variable: Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")] = "OPENAI_API_KEY"
    instruction: str = "Answer with the letter of one caption and nothing else."
    max_tokens: Positive = 16
    answer: Literal["json", "text"] = "json"
    timeout: Annotated[float, Field(gt=0)] = 60.0
    retries: NonNegative = 5
    longest_wait: Annotated[float, Field(gt=0)] = 120.0
    parallel: Annotated[int, Field(gt=0, le=256)] = 4
    most_lost: Annotated[float, Field(ge=0, lt=1)] = 0.02


#: of the table around it, or a model of others there
AnySystem = Annotated[Name, Ref("systems|coca", "system")]


class Contest(Strict):
    """Captions by these ``systems`` against each other; ``label`` is the column that shows it."""

    label: str
    systems: Annotated[list[AnySystem], Field(min_length=2, max_length=26), AfterValidator(each_once)]


class Judge(Strict):
    """``contests``: the published one first. ``seed`` draws which letter stands for which caption, anew for each image."""

    by: Annotated[ByClipScore | ByEndpoint, Field(discriminator="kind")]
    contests: Annotated[dict[Name, Contest], Field(min_length=1)]
    seed: NonNegative = 0
