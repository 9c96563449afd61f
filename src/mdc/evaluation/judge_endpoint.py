"""A vision-language model behind an endpoint with OpenAI's protocol. OpenAI's client retries, waits and reads Retry-After."""

import base64
import hashlib
import json
import os
import re
import string
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from mdc.data.formats.images import as_shown
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.records import UserError

#: the paper's prompt, word for word; the letter-labelled captions are appended to it
PROMPT = "Which caption best depicts the image and is also coherent (no duplicate words or awkward phrasing)?"
#: HTTP statuses that concern one question alone: too large, or of the wrong form
_REJECTED = (400, 413, 422)
#: HTTP statuses that may pass, besides server errors: a time-out, a lock, too early, a rate limit
_PASSING = (408, 409, 425, 429)


@dataclass(frozen=True)
class Question:
    """``systems`` in the order of their letters, and their ``captions``."""

    systems: tuple[str, ...]
    captions: tuple[str, ...]

    @property
    def letters(self) -> str:
        return string.ascii_uppercase[: len(self.systems)]

    @property
    def text(self) -> str:
        """The prompt and the captions, a line each."""
        lines = (f"{letter}. {caption}" for letter, caption in zip(self.letters, self.captions, strict=True))
        return "\n".join([PROMPT, *lines])


@dataclass(frozen=True)
class Answer:
    """``status``: chosen (with a ``letter``), malformed (without one), refused by the model, rejected by the server, timed out or
    failed. ``text``: its start, for an audit."""

    status: str
    letter: str | None
    text: str


def question(
    image: str, systems: Sequence[str], captions: Sequence[str], seed: int, training_seed: int = 0
) -> Question:
    """The captions in a random order for each image, which depends only on its key, the systems and the two seeds.

    Orders differ between ``training_seed``s, so a system gets several letters on one image.
    """
    named = f"{seed} {training_seed} judge {' '.join(systems)} {image}"
    digest = hashlib.blake2b(named.encode(), digest_size=16).digest()
    order = np.random.Generator(np.random.Philox(key=int.from_bytes(digest))).permutation(len(systems)).tolist()
    return Question(tuple(systems[n] for n in order), tuple(captions[n] for n in order))


def votes(question: Question, letter: str) -> dict[str, float]:
    """Each system's share of the vote; identical captions share it."""
    winner = question.captions[question.letters.index(letter)]
    same = [system for system, caption in zip(question.systems, question.captions, strict=True) if caption == winner]
    return {system: 1 / len(same) if system in same else 0.0 for system in question.systems}


def chosen_letter(answer: str, letters: str) -> str | None:
    """The letter of a JSON object {"caption": letter}, or a letter that stands alone; None for anything else."""
    with suppress(ValueError, RecursionError):
        choice = json.loads(answer)
        if not isinstance(choice, str):
            letter = choice.get("caption") if isinstance(choice, dict) else None
            return letter if letter in list(letters) else None
    alone = re.fullmatch(rf"[\W_]*([{letters}])[\W_]*", answer.upper())
    return alone[1] if alone else None


class Endpoint:
    """The key is read from the environment, and never shown or stored, also if the endpoint echoes it."""

    def __init__(self, config: ByEndpoint) -> None:
        import openai

        self.config, self._openai = config, openai
        self._key = os.environ.get(config.key_variable, "").strip()
        if not self._key.isascii():
            raise UserError(f"{config.key_variable} holds no key: a key has letters, digits and signs of ASCII alone")
        http = _InTime(timeout=config.timeout)  # follows no redirect, which could carry the key elsewhere
        how: Any = {"base_url": config.base_url, "timeout": config.timeout, "max_retries": config.retries}
        self._client = openai.OpenAI(api_key=self._key or "none", http_client=http, **how)

    def ask(self, question: Question, image: bytes) -> Answer:
        """The model's answer about an encoded image. UserError where no image would get one: the endpoint refuses the key, does
        not know the model, or does not speak the protocol."""
        openai = self._openai
        try:
            choice = self._client.chat.completions.create(**self.request(question, image)).choices[0]
            if choice.message.refusal or choice.finish_reason == "content_filter":
                return Answer("refused", None, self._short(choice.message.refusal))
            letter = chosen_letter(choice.message.content or "", question.letters)
            return Answer("chosen" if letter else "malformed", letter, self._short(choice.message.content))
        except openai.APIConnectionError as error:
            status = "timed out" if isinstance(error, openai.APITimeoutError) else "failed"
            return Answer(status, None, self._short(f"{self.config.base_url}: {error.__cause__ or error}"))
        except openai.APIStatusError as error:
            said = self._short(f"status {error.status_code}: {error.message}")
            if error.status_code in _REJECTED:
                return Answer("rejected", None, said)
            if error.status_code in _PASSING or error.status_code >= 500:
                return Answer("failed", None, said)
            raise UserError(
                f"the judge at {self.config.base_url} answers no question ({said}); check the address, the model "
                f"{self.config.model} and the key in {self.config.key_variable}"
            ) from None
        except (openai.OpenAIError, AttributeError, LookupError, TypeError, ValueError) as error:  # not the protocol
            return Answer("malformed", None, self._short(error))

    def request(self, question: Question, image: bytes) -> dict[str, Any]:
        """All that decides the answer: the model, the shown image, the text, and the form of the answer."""
        shown, kind = as_shown(image)
        url = f"data:image/{kind};base64,{base64.b64encode(shown).decode()}"
        parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question.text}]
        system = [{"role": "system", "content": self.config.instruction}] if self.config.instruction else []
        request: dict[str, Any] = {
            "model": self.config.model,
            "messages": [*system, {"role": "user", "content": parts}],
        }
        request |= {"max_tokens": self.config.max_tokens, "temperature": 0.0, "seed": 0}
        if self.config.answer == "text":
            return request
        letter = {"caption": {"type": "string", "enum": list(question.letters)}}
        schema = {"type": "object", "properties": letter, "required": ["caption"], "additionalProperties": False}
        named = {"name": "choice", "strict": True, "schema": schema}
        return request | {"response_format": {"type": "json_schema", "json_schema": named}}

    def _short(self, text: Any) -> str:
        """The start of a text in one line, without the key, plain or in base64, which is removed before cutting."""
        text = str(text or "")
        coded = [base64.b64encode(some.encode()).decode().rstrip("=") for some in (f"Bearer {self._key}", self._key)]
        for secret in (*coded, quote(self._key, safe=""), self._key) if self._key else ():
            text = text.replace(secret, "[key]")
        return " ".join(text.split())[:200]


class _InTime(httpx.Client):
    """The whole answer comes within the time-out, which httpx alone grants to each part of it."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        until = time.monotonic() + (self.timeout.read or 0)
        response, content = super().send(request, **options | {"stream": True}), b""
        with closing(response):
            for part in response.iter_raw():
                content += part
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("the answer is not whole in time", request=request)
        return httpx.Response(response.status_code, headers=response.headers, content=content, request=request)
