"""Parsing of a judge's answer: the letter of a structured answer, or of free text if it is unambiguous."""

import json
import re
from contextlib import suppress
from typing import Any

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


def chosen_letter(answer: str, letters: str) -> str | None:
    """The letter of ``letters`` that an answer chooses; None if it chooses none or several, or is ambiguous.

    An answer is a JSON object in `answer_format`, or free text. Free text counts if it names exactly one letter, denies nothing,
    and says "B", "B. A dog", "the best caption is **B**" or the like.
    """
    text = answer.strip()[:4000]
    with suppress(ValueError, RecursionError):
        choice = json.loads(text)
        letter = choice.get(_KEY) if isinstance(choice, dict) else None
        return letter if letter in list(letters) else None
    if len(text) == 1 and text.upper() in letters:
        return text.upper()
    # "A" and "I" before another word are words, not letters
    a_letter = r"(?:(?<![AI])|(?!\s[a-z])|(?=\s(?:because|and|or)\b))"
    named = set(re.findall(rf"(?<!\w)(?<!\w['’])[{letters}]{a_letter}(?!\w|['’]\w)", text))
    if len(named) != 1 or _DENIED.search(text):
        return None
    (letter,) = named
    return letter if any(re.search(pattern.format(letter), text) for pattern in _CHOSEN) else None
