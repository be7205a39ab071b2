"""Requests to chat models: retries, resumption, structured replies, dead endpoints and keys."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel
from servers import Body, ChatServer

from pragworld_tasks import chat
from pragworld_tasks.chat import (
    FAILURES_IN_A_ROW,
    Endpoint,
    Request,
    UnansweredError,
    Usage,
    connect,
    run_async,
)
from pragworld_tasks.errors import InputError

KEY = "sk-not-to-be-seen-anywhere"
BASKET = '{"apples": 3, "owner": null}'
PARTS = [{"type": "thinking", "thinking": "{"}, *({"type": "text", "text": c} for c in BASKET)]


class Fruit(BaseModel, extra="forbid"):
    """What a basket holds."""

    apples: int
    owner: str | None


def baskets(count: int) -> list[Request]:
    return [Request("basket", "m", "You count.", f"Basket {i}?", 0.5) for i in range(count)]


def ask(
    server: ChatServer,
    requests: Sequence[Request],
    journal: Path,
    form: type[BaseModel] | None = None,
    concurrency: int = 1,
    usage: Usage | None = None,
) -> list[Any]:
    """Send requests over one connection; return the replies, and what was raised without one."""

    async def work() -> list[Any]:
        endpoint = Endpoint(server.url, "m", concurrency, timeout=1)
        async with connect(endpoint, journal, {"baskets": "many"}) as connection:
            connection.usage = usage or connection.usage
            asked = (
                connection.ask_structured(request, form) if form else connection.ask(request)
                for request in requests
            )
            return await asyncio.gather(*asked, return_exceptions=True)

    return run_async(work())


def echo(body: Body) -> str:
    text: str = body["messages"][-1]["content"]
    return f"<think>Hm.</think> {text.removesuffix('?')}.\n"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "new" / "journal"


def test_equal_requests_are_sent_once_and_a_rerun_sends_none(journal: Path) -> None:
    first, second = Usage(), Usage()
    with ChatServer(echo).running() as server:
        requests = [*baskets(3), *baskets(3), Request("again", "m", "You count.", "Basket 0?", 0.5)]
        replies = ask(server, requests, journal, concurrency=8, usage=first)
        assert replies == ["Basket 0.", "Basket 1.", "Basket 2."] * 2 + ["Basket 0."]
        assert [body["temperature"] for body in server.bodies] == [0.5] * 3
        assert server.bodies[0]["messages"][0] == {"role": "system", "content": "You count."}

        async def notebook() -> list[Any]:  # has an event loop already
            return ask(server, requests[:3], journal, usage=second)

        assert asyncio.run(notebook()) == replies[:3]
        assert len(server.bodies) == 3
        other_draw = Request("basket", "m", "You count.", "Basket 0?", 0.5, draw=1)
        assert ask(server, [other_draw], journal) == ["Basket 0."]
        assert len(server.bodies) == 4
    assert str(first) == (
        "3 requests answered (6 tokens of prompts, 9 of replies), 4 replies reused"
    )
    assert second == Usage(reused=3)


@pytest.mark.parametrize("failure", ["429", "503", "hang", "drop"])
def test_a_request_is_sent_again_after(failure: str, journal: Path) -> None:
    with ChatServer(echo, {0: failure}).running() as server:
        assert ask(server, baskets(1), journal) == ["Basket 0."]
        first, second = server.times
        assert second - first >= (failure == "429")  # no sooner than its Retry-After says


def completion(reason: str, **message: Any) -> Body:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


@pytest.mark.parametrize(
    ("unusable", "problem", "text"),
    [
        (completion("length", content="Bas"), "cut off (at 4096 tokens, or earlier by the", "Bas"),
        (completion("content_filter", content=None), "empty or refused (content_filter)", ""),
        (completion("stop", content="<think>Hm.</think>"), "empty or refused (stop)", ""),
        (completion("stop", content=None, refusal="No\nway."), "empty or refused (No way.)", ""),
    ],
)
def test_an_unusable_reply_is_no_reply_and_is_asked_for_again(
    unusable: Body, problem: str, text: str, journal: Path
) -> None:
    replies = [unusable] * (FAILURES_IN_A_ROW + 1)  # the endpoint is alive nevertheless
    requests = baskets(FAILURES_IN_A_ROW + 2)
    with ChatServer(lambda body: replies.pop() if replies else echo(body)).running() as server:
        *unanswered, answered = ask(server, requests, journal)
        assert answered == f"Basket {FAILURES_IN_A_ROW + 1}."
        for error in unanswered:
            assert isinstance(error, UnansweredError)
            assert str(error).startswith(f"the reply is {problem}")
            assert error.reply == text
        assert ask(server, requests, journal) == [f"Basket {i}." for i in range(len(requests))]
        assert len(server.bodies) == len(requests) + len(unanswered)


KILLED = """
import sys
from pathlib import Path
from pragworld_tasks.chat import Endpoint, Request, connect, run_async

async def work(url, journal):
    async with connect(Endpoint(url, "m", 1), Path(journal), {"baskets": "many"}) as connection:
        for i in range(8):
            await connection.ask(Request("basket", "m", "You count.", f"Basket {i}?", 0.5))

run_async(work(*sys.argv[1:]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_resumes_and_sends_nothing_twice(
    how: signal.Signals, journal: Path
) -> None:
    waits, ended = threading.Event(), threading.Event()

    def hang_once(body: Body) -> str:
        if "Basket 4" in body["messages"][-1]["content"] and not ended.is_set():
            waits.set()
            ended.wait()
        return echo(body)

    with ChatServer(hang_once).running() as server:
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, server.url, str(journal)],
            stderr=subprocess.DEVNULL,
            # A test run in the background ignores interrupts, and so would this process.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        assert waits.wait(60)
        process.send_signal(how)
        assert process.wait(30) == -how
        ended.set()
        before = len(server.bodies)
        assert ask(server, baskets(8), journal) == [f"Basket {i}." for i in range(8)]
        assert [body["messages"][-1]["content"] for body in server.bodies[before:]] == [
            f"Basket {i}?" for i in range(4, 8)
        ]


# Structured replies -------------------------------------------------------------------------------


def test_a_structured_reply(journal: Path) -> None:
    with ChatServer(lambda _: BASKET).running() as server:
        for _ in range(2):
            assert ask(server, baskets(2), journal, Fruit) == [Fruit(apples=3, owner=None)] * 2
        assert ask(server, baskets(1), journal) == [BASKET]  # without the form, another request
    body, *others = server.bodies
    assert len(others) == 2
    schema = body["response_format"]["json_schema"]
    assert (schema["name"], schema["strict"]) == ("Fruit", True)
    jsonschema.validate(json.loads(BASKET), schema["schema"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"apples": 3}, schema["schema"])
    # A model sees the schema also where the server only constrains its reply.
    words, _, shown = body["messages"][0]["content"].rpartition("\n")
    assert words.startswith("You count.\n\nReply with one JSON object")
    assert json.loads(shown) == schema["schema"]


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("response_format", {"detail": [{"loc": ["body", "response_format"]}]}),
        ("response_format", {"error": "json_schema is not supported"}),
        ("max_tokens", {"error": {"message": "Unsupported parameter: 'max_tokens'"}}),
        ("temperature", {"error": {"message": "Unsupported value", "param": "temperature"}}),
    ],
)
def test_an_option_that_a_model_does_not_accept_is_left_out(
    option: str, refusal: Body, journal: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = ChatServer(lambda _: BASKET, refuses=lambda body: refusal if option in body else None)
    with server.running():
        replies = ask(server, baskets(8), journal, Fruit, concurrency=4)
    assert replies == [Fruit(apples=3, owner=None)] * 8
    sent = [option in body for body in server.bodies]
    assert sent.count(False) == 8
    assert sent.count(True) <= 4  # those in flight when the first one was refused
    assert [record.getMessage() for record in caplog.records] == [
        f"m doesn't accept {option}, so none is sent"
    ]


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (f"```json\n{BASKET}\n```", None),
        (f"Here you are: {BASKET} Anything else?", None),
        (f"<think>Is it {{}}?</think>{BASKET}", None),
        (completion("stop", content=PARTS), None),
        ("Three apples.", "Invalid JSON: EOF"),
        (f"{BASKET} or {BASKET}", "Invalid JSON: trailing characters"),
        ('{"apples": "three", "owner": null}', "apples: Input should be a valid integer"),
        ('{"apples": 3, "owner": null, "pears": 1}', "pears: Extra inputs are not permitted"),
    ],
)
def test_what_models_put_around_an_object(reply: Any, problem: str | None, journal: Path) -> None:
    replies = [reply]
    with ChatServer(lambda _: replies.pop() if replies else BASKET).running() as server:
        (outcome,) = ask(server, baskets(1), journal, Fruit)
        # A rerun asks again where the reply could not be read, and only there.
        assert ask(server, baskets(1), journal, Fruit) == [Fruit(apples=3, owner=None)]
    assert len(server.bodies) == (2 if problem else 1)
    if problem:
        assert str(outcome).startswith(f"the reply is malformed ({problem}")
        assert outcome.reply == reply


# Endpoints that don't answer ----------------------------------------------------------------------


@pytest.mark.parametrize("failure", ["503", "drop", "web page"])
def test_an_endpoint_that_dies_ends_the_run(
    failure: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "RETRIES", 0)
    with ChatServer(echo, dict.fromkeys(range(1, 100), failure)).running() as server:
        first, *others = ask(server, baskets(20), journal)
        assert first == "Basket 0."
        assert len(server.bodies) == 1 + FAILURES_IN_A_ROW
    alone = FAILURES_IN_A_ROW - 1
    assert {type(error) for error in others[:alone]} == {UnansweredError}
    assert {type(error) for error in others[alone:]} == {InputError}
    assert f"{FAILURES_IN_A_ROW} requests in a row failed, the last one: " in str(others[-1])


@pytest.mark.parametrize(("failure", "concurrency"), [("400", 1), ("hang", 40)])
def test_requests_that_fail_for_themselves_do_not_end_a_run(
    failure: str, concurrency: int, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "RETRIES", 0)
    lost = 2 * FAILURES_IN_A_ROW  # those that hang fail after all others were answered
    with ChatServer(echo, dict.fromkeys(range(lost), failure)).running() as server:
        outcomes = ask(server, baskets(40), journal, concurrency=concurrency)
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 40 - lost
    assert sum(isinstance(outcome, UnansweredError) for outcome in outcomes) == lost


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"key": "another"}, r"AuthenticationError: Error code: 401 .*: …\."),
        ({"failures": {0: "404"}}, "NotFoundError: Error code: 404 .*Oops"),
    ],
)
def test_an_endpoint_that_refuses_everyone_is_asked_once(
    options: dict[str, Any], problem: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(echo, **options).running() as server:
        outcomes = ask(server, baskets(3), journal)
        assert len(server.bodies) == 1
    line = rf"{server.url}: {problem}.*; check the server, its load, the URL, the model and the key"
    assert {type(outcome) for outcome in outcomes} == {InputError}
    assert all(re.fullmatch(line, str(outcome)) for outcome in outcomes)


def test_a_key_is_sent_and_never_shown(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # as a file ends
    refusal = {"error": {"message": f"\x1b[2J{KEY}\nis no key"}}
    with ChatServer(echo, refuses=lambda _: refusal).running() as server:
        (error,) = ask(server, baskets(1), journal)
        assert server.keys == [KEY]
    assert str(error) == "BadRequestError: Error code: 400 - ?[2J… is no key"
    assert KEY not in journal.read_text()


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://127.0.0.1:9/v1", "/v1: APIConnectionError: .* attempts failed; check the ser"),
        ("host:8000", "^base URL host:8000: must look like http://localhost:8000/v1$"),
    ],
)
def test_what_is_refused(
    url: str, line: str, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "RETRIES", 0)

    async def work() -> str:
        async with connect(Endpoint(url, "m"), journal, {}) as connection:
            return await connection.ask(baskets(1)[0])

    with pytest.raises(InputError, match=line):
        run_async(work())


def test_requests_need_the_client(journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    line = r"need openai \(.*\): pip install 'pragworld\[author\]'$"
    with ChatServer(echo) as server, pytest.raises(InputError, match=line):
        ask(server, baskets(1), journal)
