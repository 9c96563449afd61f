"""The judge of captions: a vision-language model or a CLIP chooses the best of several captions of an image."""

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
    """Without a language model: the caption that the CLIP under ``clip_score`` scores highest. The paper's judge is another."""

    kind: Literal["clip_score"]


class ByEndpoint(Strict):
    """Any endpoint with OpenAI's protocol, such as vLLM serving the paper's Qwen2.5-VL-72B.

    ``key_variable``: the environment variable that holds the key, unset for an endpoint without one; the key is never written.
    ``timeout``: in seconds. ``retries``: of a request that timed out, failed or was refused temporarily. ``parallel``: concurrent
    requests. ``instruction``: text added to the paper's prompt. ``answer``: json requests an object with one letter
    (`response_format` with a JSON schema); text is for an endpoint that rejects it. ``most_lost``: the share of questions that
    may stay unanswered after failures; above it the job fails, keeps its answers, and asks only the others when it is rerun.
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
    parallel: Annotated[int, Field(gt=0, le=256)] = 4
    most_lost: Annotated[float, Field(ge=0, lt=1)] = 0.02


#: a system of the surrounding table, or an external model there
AnySystem = Annotated[Name, Ref("systems|coca", "system")]


class Contest(Strict):
    """Captions by these ``systems`` against each other; ``label`` is the column that shows it."""

    label: str
    systems: Annotated[list[AnySystem], Field(min_length=2, max_length=26), AfterValidator(each_once)]


class Judge(Strict):
    """``contests``: the published one first. ``seed``: of the random assignment of letters to captions, for each image."""

    by: Annotated[ByClipScore | ByEndpoint, Field(discriminator="kind")]
    contests: Annotated[dict[Name, Contest], Field(min_length=1)]
    seed: NonNegative = 0
