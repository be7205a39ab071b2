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
from chat_server import Body, ChatServer
from pydantic import BaseModel, ConfigDict

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
Outcome = str | BaseModel | UnansweredError | InputError


class Fruit(BaseModel):
    """What a basket holds."""

    model_config = ConfigDict(extra="forbid")
    apples: int
    owner: str | None


BASKET = '{"apples": 3, "owner": null}'


def baskets(count: int) -> list[Request]:
    """Return requests that differ."""
    return [Request("basket", "m", "You count.", f"Basket {i}?", 0.5) for i in range(count)]


def ask(
    server: ChatServer,
    requests: Sequence[Request],
    journal: Path | None = None,
    form: type[BaseModel] | None = None,
    concurrency: int = 1,
    usage: list[Usage] | None = None,
) -> list[Outcome]:
    """Send requests over one connection; return the replies, and what was raised without one."""

    async def work() -> list[Any]:
        endpoint = Endpoint(server.url, "m", concurrency, timeout=1)
        async with connect(endpoint, journal, {"baskets": "many"}) as connection:
            if usage is not None:
                usage.append(connection.usage)
            return await asyncio.gather(
                *(
                    connection.ask_structured(request, form) if form else connection.ask(request)
                    for request in requests
                ),
                return_exceptions=True,
            )

    return run_async(work())


def echo(body: Body) -> str:
    """Reply with the user's message."""
    text: str = body["messages"][-1]["content"]
    return f"<think>Hm.</think> {text.removesuffix('?')}.\n"


# Requests and the journal -------------------------------------------------------------------------


def test_equal_requests_are_sent_once_and_a_rerun_sends_none(tmp_path: Path) -> None:
    journal, usage = tmp_path / "new" / "journal", list[Usage]()
    with ChatServer(echo).running() as server:
        requests = [*baskets(3), *baskets(3), Request("again", "m", "You count.", "Basket 0?", 0.5)]
        replies = ask(server, requests, journal, concurrency=8, usage=usage)
        assert replies == ["Basket 0.", "Basket 1.", "Basket 2."] * 2 + ["Basket 0."]
        assert [body["temperature"] for body in server.bodies] == [0.5] * 3
        assert server.bodies[0]["messages"][0] == {"role": "system", "content": "You count."}
        assert ask(server, requests[:3], journal, usage=usage) == replies[:3]
        assert len(server.bodies) == 3
        other_draw = Request("basket", "m", "You count.", "Basket 0?", 0.5, draw=1)
        assert ask(server, [other_draw], journal) == ["Basket 0."]
        assert len(server.bodies) == 4
    assert usage == [Usage(3, 4, prompt_tokens=15, reply_tokens=9), Usage(reused=3)]
    assert str(usage[0]) == (
        "3 requests answered (15 tokens of prompts, 9 of replies), 4 replies reused"
    )

    async def with_other_settings() -> None:
        async with connect(Endpoint("http://h/v1", "m"), journal, {"baskets": "few"}):
            pass

    with pytest.raises(InputError, match="journal: written with baskets 'many', not 'few'"):
        run_async(with_other_settings())


@pytest.mark.parametrize("failure", ["429", "503", "hang", "drop"])
def test_a_request_is_sent_again_after(failure: str) -> None:
    with ChatServer(echo, {0: failure}).running() as server:
        assert ask(server, baskets(1)) == ["Basket 0."]
        assert len(server.bodies) == 2
        if failure == "429":  # no sooner than its Retry-After says
            assert server.times[1] - server.times[0] >= 1


def completion(reason: str, **message: str | None) -> Body:
    """Return a completion that ended for a reason."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


@pytest.mark.parametrize(
    ("unusable", "problem", "text"),
    [
        (completion("length", content="Bas"), "(length)", "Bas"),
        (completion("content_filter", content=None), "(content_filter)", ""),
        (completion("stop", content="<think>Hm.</think>"), "(stop)", ""),
        (completion("stop", content=None, refusal="I will\nnot."), "(I will not.)", ""),
    ],
)
def test_an_unusable_reply_is_no_reply_and_is_asked_for_again(
    unusable: Body, problem: str, text: str, tmp_path: Path
) -> None:
    replies = [unusable] * (FAILURES_IN_A_ROW + 1)  # the endpoint is alive nevertheless
    with ChatServer(lambda body: replies.pop() if replies else echo(body)).running() as server:
        requests = baskets(FAILURES_IN_A_ROW + 2)
        *unanswered, answered = ask(server, requests, tmp_path / "journal")
        assert answered == f"Basket {FAILURES_IN_A_ROW + 1}."
        for error in unanswered:
            assert isinstance(error, UnansweredError)
            assert str(error) == f"the reply is empty, cut off or refused {problem}"
            assert error.reply == text
        again = ask(server, requests, tmp_path / "journal")
        assert again == [f"Basket {i}." for i in range(len(requests))]
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


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_resumes_and_sends_nothing_twice(
    by: signal.Signals, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
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
        process.send_signal(by)
        assert process.wait(30) == -by
        ended.set()
        with journal.open("ab") as stream:
            stream.write(b'{"key": "caf\xc3')  # as a kill in the middle of writing leaves it
        before = len(server.bodies)
        assert ask(server, baskets(8), journal) == [f"Basket {i}." for i in range(8)]
        assert [body["messages"][-1]["content"] for body in server.bodies[before:]] == [
            f"Basket {i}?" for i in range(4, 8)
        ]


def test_it_runs_in_a_notebook() -> None:
    async def notebook(server: ChatServer) -> list[Outcome]:
        return ask(server, baskets(1))

    with ChatServer(echo).running() as server:
        assert asyncio.run(notebook(server)) == ["Basket 0."]


# Structured replies -------------------------------------------------------------------------------


def test_a_structured_reply(tmp_path: Path) -> None:
    with ChatServer(lambda _: BASKET).running() as server:
        requests = baskets(2)
        for _ in range(2):
            replies = ask(server, requests, tmp_path / "journal", Fruit)
            assert replies == [Fruit(apples=3, owner=None)] * 2
        assert len(server.bodies) == 2
        schema = server.bodies[0]["response_format"]["json_schema"]
        assert (schema["name"], schema["strict"]) == ("Fruit", True)
        jsonschema.validate(json.loads(BASKET), schema["schema"])
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"apples": 3}, schema["schema"])
        # A model sees the schema also where the server only constrains its reply.
        system = server.bodies[0]["messages"][0]["content"]
        assert system.startswith("You count.\n\nReply with one JSON object")
        assert json.loads(system.rpartition("\n")[2]) == schema["schema"]
        # The same words without the form are another request.
        assert ask(server, requests[:1], tmp_path / "journal") == [BASKET]
        assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("option", "refusal"),
    [
        ("response_format", {"error": {"message": "response_format must be text"}}),
        ("response_format", {"detail": [{"loc": ["body", "response_format"]}]}),
        ("response_format", {"error": "json_schema is not supported"}),
        ("temperature", {"error": {"message": "Unsupported value", "param": "temperature"}}),
    ],
)
def test_an_option_that_a_model_does_not_accept_is_left_out(
    option: str, refusal: Body, caplog: pytest.LogCaptureFixture
) -> None:
    server = ChatServer(lambda _: BASKET, refuses=lambda body: refusal if option in body else None)
    with server.running():
        replies = ask(server, baskets(8), form=Fruit, concurrency=4)
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
        ("Three apples.", r"Invalid JSON: EOF"),
        (f"{BASKET} or {BASKET}", r"Invalid JSON: trailing characters"),
        ('{"apples": "three", "owner": null}', r"apples: Input should be a valid integer"),
        ('{"apples": 3, "owner": null, "pears": 1}', r"pears: Extra inputs are not permitted"),
    ],
)
def test_what_models_put_around_an_object(reply: str, problem: str | None, tmp_path: Path) -> None:
    with ChatServer(lambda _: reply).running() as server:
        for _ in range(2):  # a malformed reply is paid for once
            (outcome,) = ask(server, baskets(1), tmp_path / "journal", Fruit)
            if problem:
                assert isinstance(outcome, UnansweredError)
                assert re.match(rf"the reply is malformed \({problem}", str(outcome))
                assert outcome.reply == reply
            else:
                assert outcome == Fruit(apples=3, owner=None)
        assert len(server.bodies) == 1


# Endpoints that don't answer ----------------------------------------------------------------------


@pytest.fixture
def _no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "RETRIES", 0)


@pytest.mark.usefixtures("_no_retries")
@pytest.mark.parametrize("failure", ["503", "hang", "drop", "web page"])
def test_an_endpoint_that_dies_ends_the_run(failure: str) -> None:
    with ChatServer(echo, dict.fromkeys(range(1, 100), failure)).running() as server:
        first, *others = ask(server, baskets(20))
        assert first == "Basket 0."
        assert len(server.bodies) == 1 + FAILURES_IN_A_ROW
    kinds = [type(outcome) for outcome in others]
    assert kinds == [UnansweredError] * (FAILURES_IN_A_ROW - 1) + [InputError] * (
        20 - FAILURES_IN_A_ROW
    )
    assert f"{FAILURES_IN_A_ROW} requests in a row failed, the last one: " in str(others[-1])


@pytest.mark.usefixtures("_no_retries")
@pytest.mark.parametrize(("failure", "concurrency"), [("400", 1), ("hang", 40)])
def test_requests_that_fail_for_themselves_do_not_end_a_run(failure: str, concurrency: int) -> None:
    lost = 2 * FAILURES_IN_A_ROW  # those that hang fail after all others were answered
    with ChatServer(echo, dict.fromkeys(range(lost), failure)).running() as server:
        outcomes = ask(server, baskets(40), concurrency=concurrency)
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 40 - lost
    assert sum(isinstance(outcome, UnansweredError) for outcome in outcomes) == lost


@pytest.mark.parametrize(
    ("options", "path", "problem"),
    [
        ({"key": "another"}, "", r"AuthenticationError: Error code: 401 .*: …\."),
        ({"failures": {0: "404"}}, "", "NotFoundError: Error code: 404 .*Oops"),
        ({}, "/chat", "NotFoundError: Error code: 404"),
    ],
)
def test_an_endpoint_that_refuses_everyone_is_asked_once(
    options: dict[str, Any], path: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(echo, **options).running() as server:
        server.path = path
        outcomes = ask(server, baskets(3))
        assert len(server.bodies) == 1
    for outcome in outcomes:
        assert isinstance(outcome, InputError)
        assert re.fullmatch(
            rf"{server.url}: {problem}.*; check the server, the URL, the model and the key",
            str(outcome),
        )


def test_no_server() -> None:
    with ChatServer(echo).running() as server:
        pass
    (outcome,) = ask(server, baskets(1))
    assert "APIConnectionError: Connection error. All connection attempts failed;" in str(outcome)


def test_a_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")  # as a file ends
    refusal = {"error": {"message": f"\x1b[2J{KEY}\nis no key"}}
    with ChatServer(echo, refuses=lambda _: refusal).running() as server:
        (error,) = ask(server, baskets(1), tmp_path / "journal")
        assert server.keys == [KEY]
        assert str(error) == "BadRequestError: Error code: 400 - ?[2J… is no key"
        assert KEY not in (tmp_path / "journal").read_text()
        monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\nmore")
        with pytest.raises(InputError, match=r"^OPENAI_API_KEY: must be one line of ASCII; set it"):
            ask(server, baskets(1))


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"url": "host:8000"}, "base URL host:8000: must look like http://host:8000/v1"),
        ({"url": f"http://me:{KEY}@h/v1"}, "base URL h/v1: must look like .*, without a user name"),
        ({"concurrency": 0}, "concurrency 0, timeout 60.0: must be above 0"),
        ({"timeout": float("nan")}, "concurrency 8, timeout nan: must be above 0"),
    ],
)
def test_endpoints_that_cannot_be(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=f"^{problem}"):
        Endpoint(**{"url": "http://h/v1", "model": "m", **settings})


def test_requests_need_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with (
        ChatServer(echo).running() as server,
        pytest.raises(InputError, match=r"need the openai package \(.*\): pip install openai$"),
    ):
        ask(server, baskets(1))
