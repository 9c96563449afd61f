"""A judge behind a real HTTP server on 127.0.0.1: answers, refusals, time-outs, limits, and one that lies."""

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from data_samples import encoded
from jsonschema import validators
from judge_server import Dripping, Reply, Server, said, without_proxies

from mdc.data.formats.images import decode
from mdc.evaluation.judges.endpoint import Answer, Endpoint, question
from mdc.plan.config.judge import ByEndpoint
from mdc.plan.records import UserError

ASKED = question("image", ("a", "b", "c"), ("one", "two", "three"), seed=0)
IMAGE = encoded(0)
KEY = "sk-secret-0123456789"


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    without_proxies(monkeypatch)


def endpoint(server: Server, waits: list[float] | None = None, **more: Any) -> Endpoint:
    how = {"base_url": server.url, "model": "qwen", "key_variable": "JUDGE_KEY", "retries": 2, "timeout": 600.0, **more}
    return Endpoint(ByEndpoint(kind="endpoint", **how), sleep=(waits if waits is not None else []).append)


def ask(server: Server, *replies: Any, waits: list[float] | None = None, **more: Any) -> Answer:
    """What becomes of the question where the server replies so; a content alone is a good reply."""
    server.replies = [reply if isinstance(reply, tuple) or callable(reply) else (200, reply, {}) for reply in replies]
    return endpoint(server, waits, **more).ask(ASKED, IMAGE)


def test_it_is_shown_the_image_and_the_papers_prompt(server: Server) -> None:
    answer = ask(server, said("B"))
    assert (answer.status, answer.letter, answer.waits) == ("chosen", "B", 0)
    ((body, headers),) = server.requests
    assert headers["Authorization"] == f"Bearer {KEY}" and body["model"] == "qwen" and body["temperature"] == 0
    system, user = body["messages"]
    assert system == {"role": "system", "content": "Answer with the letter of one caption and nothing else."}
    picture, text = user["content"]
    assert text == {"type": "text", "text": ASKED.text}
    schema = body["response_format"]["json_schema"]["schema"]
    assert validators.validator_for(schema)(schema).is_valid({"caption": "B"})
    for wrong in ({"caption": "D"}, {"caption": "AB"}, {}, {"caption": "A", "why": ""}, "B"):
        assert not validators.validator_for(schema)(schema).is_valid(wrong)
    address = picture["image_url"]["url"]
    assert address.startswith("data:image/png;base64,")
    shown = base64.b64decode(address.partition(",")[2])
    assert decode(shown).tobytes() == decode(IMAGE).tobytes()


@pytest.mark.parametrize("text", ['{"caption": "B"}', "The best caption is **B**."])
def test_a_structured_answer_is_taken_and_plain_text_of_who_ignores_the_format(server: Server, text: str) -> None:
    assert ask(server, said(text)).letter == "B"


def test_an_endpoint_that_takes_no_format_is_asked_for_text(server: Server) -> None:
    rejects: Any = (400, {"error": {"message": "response_format is not supported"}}, {})
    answer = ask(server, rejects)
    assert answer.status == "rejected" and "response_format" in answer.text
    assert ask(server, said("B"), answer="text").letter == "B" and "response_format" not in server.requests[-1][0]


def test_an_endpoint_that_lies_is_counted_and_never_believed(server: Server) -> None:
    malformed: list[Any] = [said("I cannot tell."), said("E"), said(None), said(""), {**said("A"), "choices": []}]
    malformed += [said('{"caption": "D"}')]
    malformed += [{"object": "chat.completion"}, [1, 2], {"choices": {"0": "B"}}, b"<html>A</html>", b"{"]
    messages: list[Any] = [{"message": "B"}, {"message": ["B"]}, None, {"message": {"content": ["B"]}}]
    malformed += [{"choices": [message]} for message in messages]
    refused = [said(None, message={"refusal": "I will not look at this."}), said("", finish_reason="content_filter")]
    for status, contents in (("malformed", malformed), ("refused", refused)):
        for content in contents:
            answer = ask(server, content)
            assert (answer.status, answer.letter) == (status, None), content


def test_limits_are_obeyed_within_bounds(server: Server) -> None:
    waits: list[float] = []
    limit = {"error": {"message": "slow down", "type": "rate_limit"}}
    limits = [(429, limit, {"retry-after": seconds}) for seconds in ("7", "9999")]
    answer = ask(server, *limits, said("A"), waits=waits, longest_wait=20.0)
    assert (answer.status, answer.letter, answer.waits, answer.limits) == ("chosen", "A", 2, 2) and waits == [7.0, 20.0]
    for told in ("nan", "soon", "Wed, 99 Oct 2026 07:28:00 GMT"):
        waits.clear()
        answer = ask(server, (429, limit, {"retry-after": told}), waits=waits)
        assert answer.status == "failed" and waits == [1.0, 2.0]
    # … and a date is what it says: a minute from now, or long ago
    for told, least, most in (
        (format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True), 50.0, 60.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, 0.0),
    ):
        waits.clear()
        limited = (429, limit, {"retry-after": told})
        assert ask(server, limited, said("A"), waits=waits, longest_wait=90.0).letter == "A"
        assert least <= waits[0] <= most


def test_a_server_that_fails_or_sleeps_is_asked_again(server: Server) -> None:
    waits: list[float] = []
    answer = ask(server, (503, {"error": {}}, {}), (500, b"", {}), said("C"), waits=waits)
    assert answer.letter == "C" and waits == [1.0, 2.0]

    def slow() -> Reply:
        time.sleep(0.8)
        return 200, said("A"), {}

    asked = len(server.requests)
    answer = ask(server, slow, retries=1, timeout=0.3)
    until = time.monotonic() + 600
    while len(server.requests) - asked < 2 and time.monotonic() < until:  # a busy server reads the second one later
        time.sleep(0.01)
    assert (answer.status, answer.letter) == ("timed out", None) and len(server.requests) - asked == 2


def test_an_answer_that_drips_is_not_waited_for(server: Server) -> None:
    """Each byte comes in time, the whole never would; one that is complete in time is taken."""
    whole = json.dumps(said("B")).encode()
    assert ask(server, Dripping(whole, 0.1), retries=0, timeout=0.5).status == "timed out"
    assert ask(server, Dripping(whole, 0.001), retries=0, timeout=600.0).letter == "B"


def test_a_question_that_is_rejected_is_not_asked_again(server: Server) -> None:
    for asked, status in enumerate((400, 413, 422), start=1):
        answer = ask(server, (status, {"error": {"message": "image too large"}}, {}))
        assert answer.status == "rejected" and len(server.requests) == asked
        assert answer.text.startswith(f"status {status}") and "image too large" in answer.text


def test_what_may_pass_is_asked_again(server: Server) -> None:
    for status, ends in ((408, "timed out"), (409, "failed"), (425, "failed"), (502, "failed")):
        waits: list[float] = []
        answer = ask(server, (status, {"error": {}}, {"retry-after": "3"}), said("A"), waits=waits)
        assert (answer.status, answer.waits, answer.limits) == ("chosen", 1, 0) and waits == [3.0]
        assert ask(server, (status, {"error": {}}, {})).status == ends


def test_a_key_that_no_header_can_hold_ends_in_one_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-“quoted”")
    with pytest.raises(UserError, match="JUDGE_KEY holds no key") as caught:
        endpoint(server)
    assert "quoted" not in str(caught.value)


def test_what_no_image_would_get_an_answer_from_ends_in_one_line(server: Server) -> None:
    told = dict.fromkeys((401, 403), "refuses the key of JUDGE_KEY") | {404: "knows no model qwen"}
    told |= {status: f"answers no question (status {status}" for status in (402, 405)}
    for status, said_of_it in told.items():
        with pytest.raises(UserError) as caught:
            ask(server, (status, {"error": {"message": f"bad key {KEY}"}}, {}))
        assert said_of_it in str(caught.value) and KEY not in str(caught.value) and "\n" not in str(caught.value)


def test_a_key_that_is_said_back_is_not_kept(server: Server) -> None:
    """… in whatever it is said: an answer, a refusal, what is no protocol; and none of it is cut off in its midst."""
    header = f"Authorization: Bearer {KEY}"
    coded = base64.b64encode(f"Bearer {KEY}".encode()).decode()
    before = "x" * (200 - 15)  # the key would begin within what is kept and end behind it
    for content in (
        said(f"{header}. {coded}"),
        said(f"B. You sent {header}"),
        said(f"{before} {KEY}"),
        said(None, message={"refusal": header}),
        {"object": "chat.completion", "choices": [], "headers": header},
        [header],
        header.encode(),
        {"choices": header},
    ):
        answer = ask(server, content)
        for part in (KEY, KEY[:10], coded[:20]):
            assert part not in repr(answer), content
    assert KEY not in repr(ask(server, (400, {"error": {"message": header}}, {})))


def test_an_endpoint_that_is_not_there_ends_in_one_line(server: Server) -> None:
    server.close()
    waits: list[float] = []
    with pytest.raises(UserError, match="cannot be reached"):
        endpoint(server, waits).ask(ASKED, IMAGE)
    assert waits == [1.0, 2.0]


def test_a_redirect_is_not_followed(server: Server) -> None:
    """… since it would carry the key elsewhere."""
    with pytest.raises(UserError, match=r"answers no question \(status 307"):
        ask(server, (307, b"", {"location": "http://127.0.0.1:1/v1/chat/completions"}))
    assert len(server.requests) == 1


@pytest.mark.parametrize("address", ["file:///etc", "127.0.0.1", "http://user:secret@host/v1", "http://"])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        ByEndpoint(kind="endpoint", base_url=address, model="m")


def test_what_is_configured_is_what_is_asked(server: Server) -> None:
    ask(server, said("B"), model="other", instruction="One letter.", max_tokens=5)
    ((body, _),) = server.requests
    assert (body["model"], body["max_tokens"], body["messages"][0]["content"]) == ("other", 5, "One letter.")
