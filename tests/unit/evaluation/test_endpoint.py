"""A judge behind a real HTTP server on 127.0.0.1: answers, refusals, time-outs, and one that lies."""

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from data_samples import encoded
from jsonschema import validators
from judge_server import Dripping, Server, said, without_proxies

from mdc.data.formats.images import decode
from mdc.evaluation.judge_endpoint import Answer, Endpoint, question
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


def endpoint(server: Server, **more: Any) -> Endpoint:
    how = {"base_url": server.url, "model": "qwen", "key_variable": "JUDGE_KEY", "retries": 1, "timeout": 600.0, **more}
    return Endpoint(ByEndpoint(kind="endpoint", **how))


def ask(server: Server, *replies: Any, **more: Any) -> Answer:
    """What becomes of the question where the server replies so; a content alone is a good reply."""
    server.replies = [reply if isinstance(reply, tuple) or callable(reply) else (200, reply, {}) for reply in replies]
    return endpoint(server, **more).ask(ASKED, IMAGE)


def test_it_is_shown_the_image_and_the_papers_prompt(server: Server) -> None:
    answer = ask(server, said("B"))
    assert (answer.status, answer.letter, answer.text) == ("chosen", "B", "B")
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


@pytest.mark.parametrize("text", ['{"caption": "B"}', "**B**"])
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


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 0])
def test_what_may_pass_is_asked_again(server: Server, status: int) -> None:
    reply = (status, {"error": {"message": "slow down"}}, {"retry-after": "0.01"})
    assert ask(server, reply, said("A")).letter == "A" and len(server.requests) == 2
    answer = ask(server, reply)
    assert (answer.status, answer.letter) == ("failed", None) and len(server.requests) == 4
    assert ("slow down" in answer.text) == (status != 0)


def test_a_server_that_sleeps_is_asked_again(server: Server) -> None:
    answer = ask(server, lambda: time.sleep(0.8) or (200, said("A"), {}), timeout=0.3)
    until = time.monotonic() + 600
    while len(server.requests) < 2 and time.monotonic() < until:  # a busy server reads the second one later
        time.sleep(0.01)
    assert (answer.status, answer.letter) == ("timed out", None) and len(server.requests) == 2


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


def test_a_key_that_no_header_can_hold_ends_in_one_line(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-“quoted”")
    with pytest.raises(UserError, match="JUDGE_KEY holds no key") as caught:
        endpoint(server)
    assert "quoted" not in str(caught.value)


def test_what_no_image_would_get_an_answer_from_ends_in_one_line(server: Server) -> None:
    for status in (401, 402, 403, 404, 405):
        with pytest.raises(UserError) as caught:
            ask(server, (status, {"error": {"message": f"bad key {KEY}"}}, {}))
        for part in (
            f"answers no question (status {status}: ",
            server.url,
            "model qwen",
            "key in JUDGE_KEY",
            "bad key [key]",
        ):
            assert part in str(caught.value)
        assert KEY not in str(caught.value) and "\n" not in str(caught.value)


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


def test_an_endpoint_that_is_not_there_is_named(server: Server) -> None:
    server.close()
    answer = endpoint(server, retries=0).ask(ASKED, IMAGE)
    assert answer.status == "failed" and answer.text.startswith(f"{server.url}: ") and "refused" in answer.text


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
