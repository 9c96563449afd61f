"""Which letter an answer chooses: the one that a structured answer holds, and of free text only what is plain."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

_KEY = "caption"
_NOUN = r"(?:caption|option|answer|choice|letter)"
#: with one of these an answer is also about what it does not choose, and more than its letter would have to be understood
_DENIED = re.compile(
    r"\b(?:not|no|none|never|neither|nor|cannot|worst|worse|wrong|incorrect|bad|awkward|repeats|duplicates|lacks|has|rather|than)\b"
    r"|n['’]t\b|second.best|\?",
    re.IGNORECASE,
)
#: how one letter, for {}, is chosen: alone on its line, as the label of the answer, or at the end of what announces a choice
_CHOSEN = (
    rf"(?m)(?i:^\W*(?:(?:the|my|final|best|is|{_NOUN})\b\W*)*)(?<!\w)({{}})\W*$",
    rf"\A\W*(?:(?i:{_NOUN})\W+)?({{}})(?:[*_\"'`]*[.):,](?!\w)|\s+[-–—]\s|\s+because\b)",
    r"(?m)(?i:\b(?:best|accurate|coherent|answer|correct|choose|pick|go with)\b[^.,;\n]*)(?<!\w)({})\W*$",
)


def answer_format(letters: str) -> dict[str, Any]:
    """OpenAI's `response_format` by which an answer is a JSON object with one of ``letters`` and nothing else."""
    one = {"type": "string", "enum": list(letters)}
    schema = {"type": "object", "properties": {_KEY: one}, "required": [_KEY], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "choice", "strict": True, "schema": schema}}


def chosen_letter(answer: str, letters: str) -> str | None:
    """The letter of ``letters`` that an answer chooses; None if it chooses none, or more than one, or not plainly.

    An answer is a JSON object as `answer_format` asks for it, or free text, of an endpoint that takes no format. Free text
    counts if it names one letter alone, denies nothing, and says "B", "B. A dog", "the best caption is **B**" or the like.
    """
    text = answer.strip()[:4000]
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        letter = found.get(_KEY) if isinstance(found, dict) else None
        return letter if letter in list(letters) else None
    if len(text) == 1 and text.upper() in letters:
        return text.upper()
    # "A" and "I" are words too: no letters before another word
    a_letter = r"(?:(?<![AI])|(?!\s[a-z])|(?=\s(?:because|and|or)\b))"
    named = set(re.findall(rf"(?<!\w)(?<!\w['’])[{letters}]{a_letter}(?!\w|['’]\w)", text))
    if len(named) != 1 or _DENIED.search(text):
        return None
    (letter,) = named
    return letter if any(re.search(one.format(letter), text) for one in _CHOSEN) else None
