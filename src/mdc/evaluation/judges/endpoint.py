"""A vision-language model behind an endpoint that speaks OpenAI's protocol; what can go wrong is told apart and counted."""

from __future__ import annotations

import base64
import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from mdc.data.formats.images import image_format
from mdc.evaluation.judges.choice import answer_format, chosen_letter
from mdc.evaluation.judges.question import Question
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.records import UserError


@dataclass(frozen=True)
class Answer:
    """``status``: chosen (with a ``letter``), malformed (without one), refused by the model, rejected by the server, timed out or
    failed. ``text``: what was said, shortened. ``waits``: how often it was to wait, ``limits`` of them for a rate limit."""

    status: str
    letter: str | None
    text: str
    waits: int
    limits: int = 0


#: statuses of a server that mean this question alone: it is too large, or not as the server wants it
_REJECTED = (400, 413, 422)
#: statuses that another try may change, besides errors of the server: a time-out, a lock, too early, a rate limit
_PASSING = (408, 409, 425, 429)


class Endpoint:
    """``sleep`` is that of :mod:`time`. The key is read from the environment, and neither shown nor kept, also if the endpoint
    says it back."""

    def __init__(self, how: ByEndpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        import openai

        from mdc.evaluation.judges.deadline import InTime

        self.how, self._sleep, self._openai = how, sleep, openai
        key = os.environ.get(how.key_variable, "").strip()
        if not key.isascii():
            raise UserError(f"{how.key_variable} holds no key: a key has letters, digits and signs of ASCII alone")
        self._secrets = _spellings(key)
        # our own retries count, and obey Retry-After within bounds; a redirect could carry the key elsewhere
        self._client = openai.OpenAI(
            base_url=how.base_url,
            api_key=key or "none",
            timeout=how.timeout,
            max_retries=0,
            http_client=InTime(how.timeout),
        )

    def ask(self, asked: Question, image: bytes) -> Answer:
        """What the model says of an encoded image.

        UserError if the endpoint cannot be reached, refuses the key, does not know the model, or is another server than it
        should be: no image would get an answer then. Everything else is an Answer.
        """
        limits = 0
        for attempt in range(self.how.retries + 1):
            try:
                return replace(self._answer(self._said(asked, image), asked, attempt), limits=limits)
            except self._openai.APITimeoutError:
                last, pause = "timed out", _backoff(attempt)
            except self._openai.APIConnectionError as error:
                if attempt == self.how.retries:
                    why = self._short(str(error))
                    raise UserError(f"the judge at {self.how.base_url} cannot be reached ({why})") from None
                last, pause = "failed", _backoff(attempt)
            except (self._openai.AuthenticationError, self._openai.PermissionDeniedError) as error:
                raise UserError(
                    f"the judge at {self.how.base_url} refuses the key of {self.how.key_variable} (status {error.status_code})"
                ) from None
            except self._openai.NotFoundError:
                raise UserError(f"the judge at {self.how.base_url} knows no model {self.how.model}") from None
            except self._openai.APIStatusError as error:
                said = self._short(f"status {error.status_code}: {error.message}")
                if error.status_code in _REJECTED:
                    return Answer("rejected", None, said, attempt, limits)
                if error.status_code not in _PASSING and error.status_code < 500:
                    raise UserError(
                        f"the judge at {self.how.base_url} answers no question ({said}); is this the address of an endpoint "
                        "that speaks OpenAI's protocol?"
                    ) from None
                limits += error.status_code == 429
                last, pause = "timed out" if error.status_code == 408 else "failed", self._wanted(error, attempt)
            except (self._openai.OpenAIError, ValueError, TypeError) as error:  # what it says is not of the protocol
                return Answer("malformed", None, self._short(str(error)), attempt, limits)
            if attempt < self.how.retries:
                self._sleep(pause)
        return Answer(last, None, "", self.how.retries, limits)

    def _said(self, asked: Question, image: bytes) -> Any:
        kind = image_format(image).lower()
        data = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
        parts: list[Any] = [{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": asked.text}]
        told: list[Any] = [{"role": "system", "content": self.how.instruction}] if self.how.instruction else []
        structured: Any = {"response_format": answer_format(asked.letters)} if self.how.answer == "json" else {}
        return self._client.chat.completions.create(
            model=self.how.model,
            messages=[*told, {"role": "user", "content": parts}],
            max_tokens=self.how.max_tokens,
            temperature=0.0,
            seed=0,
            **structured,
        )

    def _answer(self, said: Any, asked: Question, waits: int) -> Answer:
        choices = getattr(said, "choices", None)
        first: Any = choices[0] if isinstance(choices, list) and choices else None
        message: Any = getattr(first, "message", None)
        if not hasattr(message, "content"):
            return Answer("malformed", None, self._short(str(said)), waits)
        if getattr(message, "refusal", None) or getattr(first, "finish_reason", None) == "content_filter":
            return Answer("refused", None, self._short(str(getattr(message, "refusal", None) or "")), waits)
        text = message.content if isinstance(message.content, str) else ""
        letter = chosen_letter(text, asked.letters)
        return Answer("chosen" if letter else "malformed", letter, self._short(text), waits)

    def _short(self, text: str) -> str:
        """The beginning of what was said, in one line and without the key; what is cut off is cut after it is gone."""
        for secret in self._secrets:
            text = text.replace(secret, "[key]")
        return " ".join(text.split())[:200]

    def _wanted(self, error: Any, attempt: int) -> float:
        """Seconds that the endpoint asks to wait, as a number or until a date (RFC 9110, section 10.2.3), within bounds."""
        said = error.response.headers.get("retry-after", "")
        asked = math.nan
        with suppress(ValueError):
            asked = float(said)
        if math.isnan(asked):
            with suppress(ValueError, OverflowError):
                asked = parsedate_to_datetime(said).timestamp() - time.time()
        if math.isnan(asked):
            asked = _backoff(attempt)
        return min(max(asked, 0.0), self.how.longest_wait)


def _backoff(attempt: int) -> float:
    return float(min(2.0**attempt, 30.0))


def _spellings(key: str) -> list[str]:
    """A key as an answer may say it back: as it is, or as JSON, an address or base64 spell it; the longest first."""
    if not key:
        return []
    plain = key.encode()
    coded = {base64.b64encode(some).decode().rstrip("=") for some in (plain, b"Bearer " + plain)}
    return sorted({key, json.dumps(key)[1:-1], quote(key, safe=""), repr(key)[1:-1], *coded}, key=len, reverse=True)
