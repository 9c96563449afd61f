"""A vision-language model behind an endpoint with OpenAI's protocol; kinds of failure are distinguished and counted."""

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

        from mdc.evaluation.judges.deadline import InTime

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
        kind = image_format(image).lower()
        data = f"data:image/{kind};base64,{base64.b64encode(image).decode()}"
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
        letter = chosen_letter(text, question.letters)
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
