"""Why a row of a list gave no pair: the reasons, and the outcome of each."""

from collections.abc import Mapping

OBTAINED, DEAD, TIMED_OUT, CORRUPT = "obtained", "dead", "timed_out", "corrupt"
TOO_SMALL, TOO_LARGE, TOO_NARROW = "too_small", "too_large", "too_narrow"
FORBIDDEN, REFUSED = "forbidden", "refused"

#: outcomes of a planned row, in the order of tables
OUTCOMES = (OBTAINED, DEAD, TIMED_OUT, CORRUPT, TOO_SMALL, TOO_LARGE, TOO_NARROW, FORBIDDEN, REFUSED)

# Before the request
NO_CAPTION_TEXT, SAME_AGAIN, BAD_URL, SCHEME = "no caption", "same url and caption again", "no valid URL", "URL scheme"
NO_KEY, NO_TEXT, NOT_CHOSEN = "no key", "text is not UTF-8", "not in the subset"

# The transfer
ADDRESS = "address is not public"
LARGE_BODY = "body over max_bytes"
DEADLINE, TIME_OUT = "over the deadline", "timed out"
NO_HOST, NO_CONNECTION, BROKEN_OFF = "host not found", "connection refused", "connection broken off"
NO_NAME_SERVER = "no word of the name server"
UNREACHABLE, CERTIFICATE, NO_TLS = "host unreachable", "certificate not trusted", "TLS failed"
NO_HTTP, REDIRECTS, EMPTY = "answer is not HTTP", "too many redirects", "empty answer"
ROBOTS = "X-Robots-Tag"

# The image
NO_IMAGE, SMALL_IMAGE = "image cannot be decoded", "image too small"
LARGE_IMAGE, NARROW_IMAGE = "image too large", "image too narrow"
NO_MEMORY = "image too large for the memory"
UNEXPECTED = "unexpected failure"

_REASONS = {
    DEAD: (NO_HOST, NO_NAME_SERVER, NO_CONNECTION, BROKEN_OFF, UNREACHABLE, CERTIFICATE, NO_TLS, NO_HTTP, REDIRECTS),
    TIMED_OUT: (DEADLINE, TIME_OUT),
    CORRUPT: (NO_IMAGE, EMPTY, UNEXPECTED),
    TOO_SMALL: (SMALL_IMAGE,),
    TOO_LARGE: (LARGE_BODY, LARGE_IMAGE, NO_MEMORY),
    TOO_NARROW: (NARROW_IMAGE,),
    FORBIDDEN: (ROBOTS,),
    REFUSED: (SCHEME, BAD_URL, ADDRESS),
}
_OUTCOME = {reason: outcome for outcome, reasons in _REASONS.items() for reason in reasons}
_BY_IMG2DATASET = "Use of image disallowed by X-Robots-Tag directive"
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_TRANSIENT = frozenset({TIME_OUT, NO_CONNECTION, BROKEN_OFF, UNREACHABLE, NO_NAME_SERVER})
#: reasons of all rows if this machine is offline; a refusing host, or a name that does not exist, is an answer
SILENCE = frozenset({UNREACHABLE, NO_NAME_SERVER})


class Failure(Exception):
    """A row gives no pair; ``str`` of it is the reason."""

    @property
    def transient(self) -> bool:
        """Whether a retry may help."""
        reason = str(self)
        return reason in _TRANSIENT or (reason.startswith("HTTP ") and int(reason[5:]) in TRANSIENT_STATUS)


def reason_of(message: str) -> str:
    """The reason of a shard's error message."""
    if message == _BY_IMG2DATASET:
        return ROBOTS
    return message if message in _OUTCOME or _is_status(message) else UNEXPECTED


def outcome_of(reason: str) -> str:
    """The outcome of a row with this reason; "" is an obtained pair."""
    if not reason:
        return OBTAINED
    return DEAD if _is_status(reason) else _OUTCOME[reason]


def left_out(counts: Mapping[str, int]) -> str:
    """The reasons of ``counts`` in brackets, for the end of an error; "" if there is none. The key "" counts all rows."""
    parts = [f"{count} {reason}" for reason, count in sorted(counts.items()) if reason]
    return f" (left out: {', '.join(parts)})" if parts else ""


def _is_status(reason: str) -> bool:
    return reason.startswith("HTTP ") and reason[5:].isdigit()
