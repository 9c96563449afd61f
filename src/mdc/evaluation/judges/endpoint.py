"""A vision-language model behind an endpoint with OpenAI's protocol; kinds of failure are distinguished and counted."""

import base64
import hashlib
import json
import math
import os
import re
import string
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np

from mdc.data.formats.images import as_shown
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.records import UserError


class InTime(httpx.Client):
    """``seconds``: from the start of a request to its complete answer; then httpx.ReadTimeout. The deadline is checked whenever a
    part arrives; until then httpx's own time-out of as many seconds applies."""

    def __init__(self, seconds: float) -> None:
        super().__init__(timeout=seconds, follow_redirects=False)
        self._seconds = seconds

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        until = time.monotonic() + self._seconds
        response = super().send(request, stream=True, **options)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _Until(response.stream, until, request)
        if not stream:
            try:
                response.read()
            finally:
                response.close()
        return response


class _Until(httpx.SyncByteStream):
    def __init__(self, parts: httpx.SyncByteStream, until: float, request: httpx.Request) -> None:
        self._parts, self._until, self._request = parts, until, request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._parts:
            if time.monotonic() > self._until:
                raise httpx.ReadTimeout("the answer is not whole in time", request=self._request)
            yield part

    def close(self) -> None:
        self._parts.close()


_KEY = "caption"
_NOUN = r"(?:caption|option|answer|choice|letter)"
#: with one of these words an answer may be about a rejected option, so its letter alone is not enough
_DENIED = re.compile(
    r"\b(?:not|no|none|never|neither|nor|cannot|worst|worse|wrong|incorrect|bad|awkward|repeats|duplicates|lacks|has|rather|than)\b"
    r"|n['’]t\b|second.best|\?",
    re.IGNORECASE,
)
#: how a letter {} is chosen: alone on its line, as the label of the answer, or at the end of an announcement
_CHOSEN = (
    rf"(?m)(?i:^\W*(?:(?:the|my|final|best|is|{_NOUN})\b\W*)*)(?<!\w)({{}})\W*$",
    rf"\A\W*(?:(?i:{_NOUN})\W+)?({{}})(?:[*_\"'`]*[.):,](?!\w)|\s+[-–—]\s|\s+because\b)",
    r"(?m)(?i:\b(?:best|accurate|coherent|answer|correct|choose|pick|go with)\b[^.,;\n]*)(?<!\w)({})\W*$",
)


def answer_format(letters: str) -> dict[str, Any]:
    """OpenAI's `response_format` by which an answer is a JSON object with one of ``letters`` and nothing else."""
    letter = {"type": "string", "enum": list(letters)}
    schema = {"type": "object", "properties": {_KEY: letter}, "required": [_KEY], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "choice", "strict": True, "schema": schema}}


def chosen_letter(answer: str, letters: str, captions: Sequence[str] = ()) -> str | None:
    """The letter of ``letters`` that an answer chooses; None if it chooses none or several, or is ambiguous.

    An answer is a JSON object in `answer_format`, or free text. Free text counts if it names exactly one letter, denies nothing,
    and says "B", "B. A dog", "the best caption is **B**" or the like. A caption that is repeated after its letter is ignored.
    """
    text = answer.strip()[:4000]
    with suppress(ValueError, RecursionError):
        choice = json.loads(text)
        if not isinstance(choice, str):
            letter = choice.get(_KEY) if isinstance(choice, dict) else None
            return letter if letter in list(letters) else None
        text = choice.strip()
    for letter, caption in zip(letters, captions, strict=False):
        text = re.sub(rf"(?<!\w)({letter}\W{{1,4}}){re.escape(caption.strip())}", r"\1", text)
    if len(text) == 1 and text.upper() in letters:
        return text.upper()
    # "A" and "I" before another word are words, not letters
    a_letter = r"(?:(?<![AI])|(?!\s[a-z])|(?=\s(?:because|and|or)\b))"
    named = set(re.findall(rf"(?<!\w)(?<!\w['’])[{letters}]{a_letter}(?!\w|['’]\w)", text))
    if len(named) != 1 or _DENIED.search(text):
        return None
    (letter,) = named
    return letter if any(re.search(pattern.format(letter), text) for pattern in _CHOSEN) else None


#: the paper's prompt, word for word; the letter-labelled captions are appended to it
PROMPT = "Which caption best depicts the image and is also coherent (no duplicate words or awkward phrasing)?"


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


@dataclass(frozen=True)
class Answer:
    """``status``: chosen (with a ``letter``), malformed (without one), refused by the model, rejected by the server, timed out or
    failed. ``text``: the shortened answer. ``waits``: retries, ``limits`` of them for a rate limit."""

    status: str
    letter: str | None
    text: str
    waits: int
    limits: int = 0


#: HTTP statuses that concern this question alone: too large, or of the wrong form
_REJECTED = (400, 413, 422)
#: HTTP statuses worth a retry, besides server errors: a time-out, a lock, too early, a rate limit
_PASSING = (408, 409, 425, 429)


class Endpoint:
    """The key is read from the environment, and never shown or stored, also if the endpoint echoes it."""

    def __init__(self, config: ByEndpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        import openai

        self.config, self._sleep, self._openai = config, sleep, openai
        key = os.environ.get(config.key_variable, "").strip()
        if not key.isascii():
            raise UserError(f"{config.key_variable} holds no key: a key has letters, digits and signs of ASCII alone")
        self._secrets = _spellings(key)
        # our own retries count, and obey Retry-After within bounds; a redirect could carry the key elsewhere
        self._client = openai.OpenAI(
            base_url=config.base_url,
            api_key=key or "none",
            timeout=config.timeout,
            max_retries=0,
            http_client=InTime(config.timeout),
        )

    def ask(self, question: Question, image: bytes) -> Answer:
        """The model's answer about an encoded image.

        UserError where no image would get an answer: the endpoint cannot be reached, refuses the key, does not know the model,
        or does not speak the protocol. Everything else is an Answer.
        """
        limits = 0
        for attempt in range(self.config.retries + 1):
            try:
                return replace(self._answer(self._request(question, image), question, attempt), limits=limits)
            except self._openai.APITimeoutError:
                last, pause = "timed out", _backoff(attempt)
            except self._openai.APIConnectionError as error:
                if attempt == self.config.retries:
                    reason = self._short(str(error))
                    raise UserError(f"the judge at {self.config.base_url} cannot be reached ({reason})") from None
                last, pause = "failed", _backoff(attempt)
            except (self._openai.AuthenticationError, self._openai.PermissionDeniedError) as error:
                raise UserError(
                    f"the judge at {self.config.base_url} refuses the key of {self.config.key_variable} "
                    f"(status {error.status_code})"
                ) from None
            except self._openai.NotFoundError:
                raise UserError(f"the judge at {self.config.base_url} knows no model {self.config.model}") from None
            except self._openai.APIStatusError as error:
                message = self._short(f"status {error.status_code}: {error.message}")
                if error.status_code in _REJECTED:
                    return Answer("rejected", None, message, attempt, limits)
                if error.status_code not in _PASSING and error.status_code < 500:
                    raise UserError(
                        f"the judge at {self.config.base_url} answers no question ({message}); is this the address of an "
                        "endpoint that speaks OpenAI's protocol?"
                    ) from None
                limits += error.status_code == 429
                last, pause = "timed out" if error.status_code == 408 else "failed", self._retry_after(error, attempt)
            except (self._openai.OpenAIError, ValueError, TypeError) as error:  # not the protocol
                return Answer("malformed", None, self._short(str(error)), attempt, limits)
            if attempt < self.config.retries:
                self._sleep(pause)
        return Answer(last, None, "", self.config.retries, limits)

    def _request(self, question: Question, image: bytes) -> Any:
        shown, kind = as_shown(image)
        data = f"data:image/{kind};base64,{base64.b64encode(shown).decode()}"
        parts: list[Any] = [{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": question.text}]
        system: list[Any] = [{"role": "system", "content": self.config.instruction}] if self.config.instruction else []
        structured: Any = {"response_format": answer_format(question.letters)} if self.config.answer == "json" else {}
        return self._client.chat.completions.create(
            model=self.config.model,
            messages=[*system, {"role": "user", "content": parts}],
            max_tokens=self.config.max_tokens,
            temperature=0.0,
            seed=0,
            **structured,
        )

    def _answer(self, reply: Any, question: Question, waits: int) -> Answer:
        choices = getattr(reply, "choices", None)
        first: Any = choices[0] if isinstance(choices, list) and choices else None
        message: Any = getattr(first, "message", None)
        if not hasattr(message, "content"):
            return Answer("malformed", None, self._short(str(reply)), waits)
        if getattr(message, "refusal", None) or getattr(first, "finish_reason", None) == "content_filter":
            return Answer("refused", None, self._short(str(getattr(message, "refusal", None) or "")), waits)
        text = message.content if isinstance(message.content, str) else ""
        letter = chosen_letter(text, question.letters, question.captions)
        return Answer("chosen" if letter else "malformed", letter, self._short(text), waits)

    def _short(self, text: str) -> str:
        """The start of an answer in one line, without the key, which is removed before cutting."""
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return " ".join(text.split())[:200]

    def _retry_after(self, error: Any, attempt: int) -> float:
        """Seconds to wait by the Retry-After header, a number or a date (RFC 9110, section 10.2.3), within bounds."""
        header = error.response.headers.get("retry-after", "")
        seconds = math.nan
        with suppress(ValueError):
            seconds = float(header)
        if math.isnan(seconds):
            with suppress(ValueError, OverflowError):
                seconds = parsedate_to_datetime(header).timestamp() - time.time()
        if math.isnan(seconds):
            seconds = _backoff(attempt)
        return min(max(seconds, 0.0), self.config.longest_wait)


def _backoff(attempt: int) -> float:
    return float(min(2.0**attempt, 30.0))


def _spellings(key: str) -> list[str]:
    """Encodings of a key that an answer may echo: plain, JSON, URL, repr or base64; the longest first."""
    if not key:
        return []
    plain = key.encode()
    coded = {base64.b64encode(some).decode().rstrip("=") for some in (plain, b"Bearer " + plain)}
    return sorted({key, json.dumps(key)[1:-1], quote(key, safe=""), repr(key)[1:-1], *coded}, key=len, reverse=True)
