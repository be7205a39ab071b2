"""Structured replies, keys and several endpoints at once: real requests to local servers."""

import asyncio
import contextlib
import hashlib
import json
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from servers import JsonHandler, LocalServer

from pragworld_tasks import endpoint
from pragworld_tasks.authoring.records import EntityLists, SeedEntities
from pragworld_tasks.endpoint import (
    FAILURES_IN_A_ROW,
    Endpoint,
    Request,
    UnansweredError,
    UnusableReplyError,
    connect,
    require_client,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.structured_replies import Form, StructuredReply, read_reply
from pragworld_tasks.usage import Usage

Body = dict[str, Any]
SCHEMA, OBJECT = "json_schema", "json_object"


class Fruit(BaseModel):
    """What a basket holds."""

    model_config = ConfigDict(extra="forbid")
    apples: int
    owner: str | None


BASKET = '{"apples": 3, "owner": null}'
REQUEST = Request("basket", "m", "You count.", "How many?", temperature=1.0)


class Server(LocalServer):
    """A server whose model is a function, and that records the requests.

    Attributes:
        bodies: The requests.
        authorizations: Their headers of that name.
    """

    def __init__(
        self,
        reply: Callable[[Body], str],
        refuses: tuple[str, ...] = (),
        status: int = 400,
        refusal: Any = None,
        key: str = "",
    ) -> None:
        super().__init__(Handler)
        self.reply, self.refuses, self.status, self.refusal = reply, refuses, status, refusal
        self.key = key
        self.bodies: list[Body] = []
        self.authorizations: list[str] = []

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    @property
    def formats(self) -> list[str | None]:
        """The types of `response_format`, by request."""
        return [format_of(body) for body in self.bodies]

    @property
    def messages(self) -> list[str]:
        """The users' messages."""
        return [body["messages"][-1]["content"] for body in self.bodies]


class Handler(JsonHandler):
    """A connection."""

    server: Server

    def post(self, body: Body) -> None:
        """Reply as the server's model, or refuse."""
        server = self.server
        server.bodies.append(body)
        server.authorizations.append(authorization := self.headers["Authorization"])
        if server.key and authorization != f"Bearer {server.key}":
            self.reply(401, {"error": {"message": f"{authorization} is no key"}})
        elif format_of(body) in server.refuses:
            self.reply(server.status, server.refusal)
        else:
            self.complete(server.reply(body), 5)


def format_of(body: Body) -> str | None:
    """Return the type of a request's `response_format`; None without one."""
    kind: str | None = body.get("response_format", {}).get("type")
    return kind


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """Run a server in a thread."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def ask(
    server: Server,
    *requests: Request,
    form: type[Form],
    journal: Path | None = None,
) -> list[StructuredReply[Form]]:
    """Send requests, one after the other, over one connection."""

    async def work() -> list[StructuredReply[Form]]:
        async with connect(Endpoint(server.url, "m"), journal, {}) as connection:
            return [await connection.ask_structured(request, form) for request in requests]

    return asyncio.run(work())


def number(count: int) -> list[Request]:
    """Return requests that differ."""
    return [Request("basket", "m", "You count.", f"Basket {i}?", 1.0) for i in range(count)]


# Structured replies -------------------------------------------------------------------------------


def fill(schema: Any, root: Any) -> Any:
    """Return a value that fits a strict schema, as a server with constrained decoding would."""
    if reference := schema.get("$ref"):
        return fill(root["$defs"][reference.rpartition("/")[2]], root)
    if options := schema.get("anyOf"):
        return fill(options[0], root)
    kind = schema["type"]
    if kind == "object":
        assert schema["additionalProperties"] is False
        assert schema["required"] == list(schema["properties"])
        return {name: fill(part, root) for name, part in schema["properties"].items()}
    if kind == "array":
        return [fill(schema["items"], root)] * 2
    return {"string": "Ann", "integer": 4}[kind]


def complete_form(body: Body) -> str:
    """Reply as the request's schema says."""
    asked = body["response_format"]["json_schema"]
    assert asked["strict"] is True
    value = fill(asked["schema"], asked["schema"])
    jsonschema.validate(value, asked["schema"])
    return json.dumps(value)


@pytest.mark.parametrize("form", [Fruit, EntityLists, SeedEntities])
def test_a_server_honours_the_schema(form: type[BaseModel], tmp_path: Path) -> None:
    journal = tmp_path / "replies.jsonl"
    with running(Server(complete_form)) as server:
        ((value, key),) = ask(server, REQUEST, form=form, journal=journal)
        assert isinstance(value, form)
        assert server.messages == [REQUEST.user]  # it needs no words about the form
        # The text is kept, and answers the same question, but not the same words in another form.
        _, line = map(json.loads, journal.read_text().splitlines())
        assert line["key"] == key
        assert form.model_validate_json(line["answer"]) == value
        assert ask(server, REQUEST, REQUEST, form=form, journal=journal) == [(value, key)] * 2
        assert len(server.bodies) == 1


def test_keys_depend_on_the_form_and_stay_what_they_were_without_one() -> None:
    content = json.dumps(["m", "You count.", "How many?", 1.0, 0])
    assert REQUEST.key == hashlib.sha256(content.encode()).hexdigest()
    forms = (None, Fruit, EntityLists)
    keys = [Request("", "m", "You count.", "How many?", 1.0, form=form).key for form in forms]
    assert keys[0] == REQUEST.key
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("refuses", "status", "refusal"),
    [
        ((SCHEMA,), 400, {"error": {"message": "response_format must be text or json_object"}}),
        ((SCHEMA, OBJECT), 422, {"detail": [{"loc": ["body", "response_format"]}]}),
        ((SCHEMA, OBJECT), 400, {"error": "json_schema and json_object are not supported"}),
    ],
)
def test_a_server_that_refuses_the_schema(
    refuses: tuple[str, ...],
    status: int,
    refusal: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    accepted = OBJECT if len(refuses) == 1 else None
    journal = tmp_path / "replies.jsonl"
    # A refusal is no failure to wait for.
    monkeypatch.setattr(endpoint, "_pause", lambda _: pytest.fail("pauses"))
    with (
        running(Server(lambda _: BASKET, refuses, status, refusal)) as server,
        caplog.at_level(logging.WARNING),
    ):
        first, second, third = ask(server, *number(3), form=Fruit, journal=journal)
        assert first.value == second.value == third.value == Fruit(apples=3, owner=None)
        assert server.formats == [*refuses, accepted, accepted, accepted]
        assert server.messages[0] == "Basket 0?"
        for text in server.messages[1:]:
            assert text.startswith("Basket ")
            assert json.dumps(Fruit.model_json_schema()) in text
        assert ask(server, *number(3), form=Fruit, journal=journal) == [first, second, third]
        assert len(server.bodies) == len(refuses) + 3
    warnings = [record.getMessage() for record in caplog.records]
    assert [text for text in warnings if "schema" in text] == [
        "m accepts no JSON schema, so messages tell it the schema"
    ]


def test_requests_in_flight_learn_of_a_refused_schema_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusal = {"error": {"message": "unknown", "param": "response_format"}}

    async def work(server: Server) -> None:
        async with connect(Endpoint(server.url, "m"), None, {}) as connection:
            requests = number(8)
            asked = [connection.ask_structured(request, Fruit) for request in requests]
            assert {reply.value.apples for reply in await asyncio.gather(*asked)} == {3}

    with running(Server(lambda _: BASKET, (SCHEMA,), 400, refusal)) as server:
        asyncio.run(work(server))
        assert server.formats.count(OBJECT) == 8  # none of them goes without any format
        assert None not in server.formats
    assert sum("schema" in record.getMessage() for record in caplog.records) == 1


def test_a_request_that_is_refused_for_another_reason() -> None:
    refusal = {"error": {"message": "The prompt is too long"}}
    with running(Server(lambda _: BASKET, (SCHEMA,), 400, refusal)) as server:
        with pytest.raises(UnansweredError, match=r"answered 400 \(The prompt is too long\)$"):
            ask(server, REQUEST, form=Fruit)
        assert server.formats == [SCHEMA]


@pytest.mark.parametrize(
    "frame",
    [
        "\nOBJECT\n\n",
        "```json\nOBJECT\n```",
        "Here you are:\n\n```\nOBJECT\n```\nAnything else?",
        "The object is OBJECT.",
        "<think>Is it {}?</think>OBJECT",
    ],
)
def test_words_and_fences_around_an_object(frame: str) -> None:
    with running(Server(lambda _: frame.replace("OBJECT", BASKET))) as server:
        reply = ask(server, REQUEST, form=Fruit)[0]
        assert reply.value == Fruit(apples=3, owner=None)
        assert len(server.bodies) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Three apples.", "it holds no JSON object"),
        ("}{", "it holds no JSON object"),
        ("[3]", "it holds no JSON object"),
        (f"{BASKET} or {BASKET}", "Invalid JSON: trailing characters"),
        ('{"basket": {"apples": 3, "owner": null}', "Invalid JSON: EOF"),
        ('{"apples": 3, "owner": "\\ud800"}', "Invalid JSON: "),
        ('{"apples": "three"}', "apples: .*; owner: Field required"),
        ('{"apples": 3, "owner": null, "pears": 1}', "pears: Extra inputs are not permitted"),
    ],
)
def test_malformed_replies(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        read_reply(text, Fruit)


@given(st.text(alphabet='{}[]":,` \naplesownr013', max_size=60))
def test_a_reply_is_read_or_malformed(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(read_reply(text, Fruit), Fruit)


@given(st.integers(), st.none() | st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_written_is_read(apples: int, owner: str | None) -> None:
    basket = Fruit(apples=apples, owner=owner)
    assert read_reply(f"Well:\n```json\n{basket.model_dump_json()}\n```", Fruit) == basket


def test_a_malformed_reply_is_repaired_once(tmp_path: Path) -> None:
    replies = iter(["I count three apples.", f"Sorry! {BASKET}"])
    journal = tmp_path / "replies.jsonl"
    with running(Server(lambda _: next(replies))) as server:
        (reply,) = ask(server, REQUEST, form=Fruit, journal=journal)
        assert reply.value == Fruit(apples=3, owner=None)
        first, repair = server.messages
        assert first == REQUEST.user
        for part in (first, "I count three apples.", "it holds no JSON object"):
            assert part in repair
        assert repair.count(json.dumps(Fruit.model_json_schema())) == 1
        # The key is that of the reply that was read.
        lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
        assert [line["answer"] for line in lines] == ["I count three apples.", f"Sorry! {BASKET}"]
        assert [line["request"] for line in lines] == ["basket", "basket, repair"]
        assert reply.key == lines[1]["key"] != lines[0]["key"]
        assert ask(server, REQUEST, form=Fruit, journal=journal) == [reply]
        assert len(server.bodies) == 2


def test_a_repair_tells_the_schema_once_also_where_messages_tell_it() -> None:
    replies = iter(["Three.", BASKET])
    refusal = {"error": {"message": "no json_schema, no json_object"}}
    with running(Server(lambda _: next(replies), (SCHEMA, OBJECT), 400, refusal)) as server:
        ask(server, REQUEST, form=Fruit)
        assert server.formats == [SCHEMA, OBJECT, None, None]
        assert server.messages[-1].count(json.dumps(Fruit.model_json_schema())) == 1


def test_a_reply_that_is_malformed_twice(tmp_path: Path) -> None:
    journal = tmp_path / "replies.jsonl"

    async def work(url: str) -> None:
        async with connect(Endpoint(url, "m"), journal, {}) as connection:
            # However many: it is no failure of the endpoint.
            for request in number(FAILURES_IN_A_ROW + 1):
                with pytest.raises(
                    UnusableReplyError, match=r"malformed, .*: apples: Field required; owner: "
                ) as error:
                    await connection.ask_structured(request, Fruit)
                assert error.value.text == "{}"
                assert error.value.key in journal.read_text()
            assert await connection.ask(REQUEST) == "{}"

    with running(Server(lambda _: "{}")) as server:
        asyncio.run(work(server.url))
        sent = 2 * (FAILURES_IN_A_ROW + 1) + 1
        assert len(server.bodies) == sent
        asyncio.run(work(server.url))
        assert len(server.bodies) == sent


KILLED = '''
import asyncio, sys
from pathlib import Path
from pydantic import BaseModel, ConfigDict
from pragworld_tasks.endpoint import Endpoint, Request, connect

class Fruit(BaseModel):
    """What a basket holds."""

    model_config = ConfigDict(extra="forbid")
    apples: int
    owner: str | None

async def work(url, journal):
    async with connect(Endpoint(url, "m", 1), Path(journal), {}) as connection:
        for index in range(8):
            request = Request("basket", "m", "You count.", f"Basket {index}?", 1.0)
            await connection.ask_structured(request, Fruit)

asyncio.run(work(*sys.argv[1:]))
'''


def test_a_killed_run_resumes_and_asks_nothing_twice(tmp_path: Path) -> None:
    journal = tmp_path / "replies.jsonl"
    waits, killed = threading.Event(), threading.Event()

    def reply(body: Body) -> str:
        """Hang once, in the middle; every third reply needs a repair."""
        text = body["messages"][-1]["content"]
        if "Basket 4" in text and not killed.is_set():
            waits.set()
            killed.wait()
        return "?" if text in ("Basket 0?", "Basket 3?", "Basket 6?") else BASKET

    with running(Server(reply)) as server:
        process = subprocess.Popen([sys.executable, "-c", KILLED, server.url, str(journal)])
        assert waits.wait(60)
        process.kill()
        process.wait()
        killed.set()
        assert journal.read_text().count("\n") == 1 + 4 + 2  # the settings, replies, repairs

        before = len(server.bodies)
        replies = ask(server, *number(8), form=Fruit, journal=journal)
        assert server.messages[before] == "Basket 4?"
        assert len(server.bodies) - before == 4 + 1
        assert {reply.value.apples for reply in replies} == {3}
        assert len({reply.key for reply in replies}) == 8
        assert ask(server, *number(8), form=Fruit, journal=journal) == replies
        assert len(server.bodies) - before == 4 + 1


def ending(reason: str, **message: str | None) -> Body:
    """Return a completion that ended for a reason."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return {"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}


@pytest.mark.parametrize(
    ("completion", "message", "text"),
    [
        (
            ending("length", content=' {"apples":'),
            "the reply was cut off: the server allows too few tokens",
            '{"apples":',
        ),
        (
            ending("length", content=None),
            "the reply was cut off: the server allows too few tokens",
            "",
        ),
        (
            ending("content_filter", content=""),
            "the reply was cut off by the server's content filter",
            "",
        ),
        (
            ending("stop", content=None, refusal="I will\nnot."),
            "the model refused: I will not.",
            "I will\nnot.",
        ),
    ],
)
def test_a_reply_that_is_cut_off_or_refused_is_paid_for_once(
    completion: Body, message: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endpoint, "_pause", lambda _: 0)
    journal = tmp_path / "replies.jsonl"
    with running(Server(lambda _: BASKET, (SCHEMA,), 200, completion)) as server:
        for _ in range(2):
            with pytest.raises(UnusableReplyError, match=f"^{re.escape(message)}$") as error:
                ask(server, REQUEST, form=Fruit, journal=journal)
            assert error.value.text == text
        assert server.formats == [SCHEMA]
    _, line = map(json.loads, journal.read_text().splitlines())
    assert (line["key"], line["answer"], line["tokens"]) == (error.value.key, text, [5, 2])


@pytest.mark.parametrize(
    ("completion", "is_failing"),
    [
        (ending("length", content="Three"), True),
        (ending("stop", content=""), True),
        (ending("stop", content=None, refusal="No."), False),
    ],
)
def test_unusable_replies_in_a_row_end_the_run_and_refusals_do_not(
    completion: Body, is_failing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "_pause", lambda _: 0)

    async def work(server: Server) -> list[str]:
        async with connect(Endpoint(server.url, "m"), None, {}) as connection:
            asked = (connection.ask_structured(request, Fruit) for request in number(8))
            replies = await asyncio.gather(*asked, return_exceptions=True)
            return [type(reply).__name__ for reply in replies]

    with running(Server(lambda _: BASKET, (SCHEMA,), 200, completion)) as server:
        errors = asyncio.run(work(server))
    assert ("InputError" in errors) is is_failing
    assert errors.count("UnusableReplyError") >= FAILURES_IN_A_ROW - 1


def test_requests_that_fail_last_do_not_end_a_run_in_which_others_succeed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(endpoint, "_pause", lambda _: 0.3)  # longer than all others take
    journal, empty = tmp_path / "replies.jsonl", FAILURES_IN_A_ROW + 1

    async def work(url: str) -> list[str | BaseException]:
        async with connect(Endpoint(url, "m"), journal, {}) as connection:
            asked = map(connection.ask, number(20))
            return await asyncio.gather(*asked, return_exceptions=True)

    def answer(body: Body) -> str:
        is_empty = body["messages"][-1]["content"] in [r.user for r in number(empty)]
        return "" if is_empty else "Three."

    with running(Server(answer)) as server:
        for _ in range(2):  # the second time, all replies are known, also the empty ones
            replies = asyncio.run(work(server.url))
            assert replies[empty:] == ["Three."] * (20 - empty)
            for error in replies[:empty]:
                assert isinstance(error, UnusableReplyError)
                assert str(error) == "the server's response holds no text"
            assert len(server.bodies) == empty * endpoint.ROUNDS + 20 - empty


# Several endpoints --------------------------------------------------------------------------------


def test_several_endpoints_at_once_each_with_its_own_key_and_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-first")
    monkeypatch.setenv("PANEL_KEY", "sk-second")
    monkeypatch.delenv("UNSET_KEY", raising=False)
    variables = ("OPENAI_API_KEY", "PANEL_KEY", None, "UNSET_KEY")
    keys = ("sk-first", "sk-second", "", "")

    def count(apples: int, _: Body) -> str:
        return Fruit(apples=apples, owner=None).model_dump_json()

    async def work(servers: list[Server]) -> Usage:
        async with contextlib.AsyncExitStack() as stack:
            connections = [
                await stack.enter_async_context(
                    connect(
                        Endpoint(server.url, "m", key_variable=variable),
                        tmp_path / f"replies-{index}.jsonl",
                        {},
                    )
                )
                for index, (server, variable) in enumerate(zip(servers, variables, strict=True))
            ]
            replies = await asyncio.gather(
                *(
                    connection.ask_structured(request, Fruit)
                    for request in number(5)
                    for connection in connections
                )
            )
            apples = [reply.value.apples for reply in replies]
            assert apples == [0, 1, 2, 3] * 5  # each from its own server
            return sum((connection.usage for connection in connections), Usage())

    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(running(Server(partial(count, index), key=key)))
            for index, key in enumerate(keys)
        ]
        usage = asyncio.run(work(servers))
        seen = [set(server.authorizations) for server in servers]
        assert seen[:2] == [{"Bearer sk-first"}, {"Bearer sk-second"}]
        assert not any("sk-" in text for texts in seen[2:] for text in texts)
        assert [len(server.bodies) for server in servers] == [5] * 4
    assert (usage.answered, usage.prompt_tokens) == (20, 100)
    for index in range(4):
        text = (tmp_path / f"replies-{index}.jsonl").read_text()
        assert text.count('\\"apples\\":') == text.count(f'\\"apples\\":{index},') == 5
        assert "sk-" not in text


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("PANEL_KEY", "sk-wrong", "the key in PANEL_KEY is not accepted"),
        ("PANEL_KEY", "", "the key in PANEL_KEY is not set"),
        ("PANEL_KEY", "a\nb", "PANEL_KEY: holds line breaks or letters that no key has"),
        (None, "sk-right", "it requires a key; name the environment variable that holds it"),
    ],
)
def test_a_message_names_the_right_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, value: str, message: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-right")
    monkeypatch.setenv("PANEL_KEY", value)

    async def work(url: str) -> str:
        async with connect(Endpoint(url, "m", key_variable=variable), None, {}) as connection:
            return await connection.ask(REQUEST)

    with (
        running(Server(lambda _: BASKET, key="sk-right")) as server,
        pytest.raises(InputError) as error,
    ):
        asyncio.run(work(server.url))
    assert message in str(error.value)
    assert "sk-" not in str(error.value)
    assert "OPENAI_API_KEY" not in str(error.value)


@pytest.mark.parametrize(
    ("said", "is_shown"),
    [
        ("Your trial has ended.", True),
        ("No such key: sk-mine-1234.", False),
        ("No such key: sk-m***34.", False),
    ],
)
def test_a_refusal_is_quoted_unless_it_shows_the_key(
    monkeypatch: pytest.MonkeyPatch, said: str, is_shown: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-1234")
    server = Server(lambda _: BASKET, (SCHEMA,), 401, {"error": {"message": said}})
    with running(server), pytest.raises(InputError) as error:
        ask(server, REQUEST, form=Fruit)
    assert (said in str(error.value)) is is_shown
    assert "the key in OPENAI_API_KEY is not accepted" in str(error.value)


class _Site(JsonHandler):
    """A web site, which is no endpoint."""

    def post(self, body: Body) -> None:
        status = 501 if body["model"] == "m" else 200
        self.send(status, b"<!DOCTYPE html><p>Not here</p>", "text/html")


@pytest.mark.parametrize(("model", "answer"), [("m", "501 (with a web page)"), ("n", "with a web")])
def test_a_web_page_in_place_of_a_reply_hints_at_the_url(
    monkeypatch: pytest.MonkeyPatch, model: str, answer: str
) -> None:
    monkeypatch.setattr(endpoint, "ROUNDS", 1)
    site = LocalServer(_Site)

    async def work() -> str:
        url = f"http://127.0.0.1:{site.server_port}"
        async with connect(Endpoint(url, model), None, {}) as connection:
            return await connection.ask(replace(REQUEST, model=model))

    threading.Thread(target=site.serve_forever, daemon=True).start()
    with pytest.raises((InputError, UnansweredError)) as error:
        asyncio.run(work())
    site.shutdown()
    site.server_close()
    assert f"answered {answer}" in str(error.value)
    assert str(error.value).endswith("the URL may be wrong; most end in /v1")
    assert "<" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@host/v1",
        "http://me:sec/ret@host/v1",
        "http://me:sec?ret@host/v1",
        "http://me:sec#ret@host/v1",
        "http://me:sec@ret@host/v1",
        "http://me:sec://ret@host/v1",
        "http://host/v1?key=secret",
        "me:secret@host/v1",
    ],
)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    try:
        text = Endpoint(url, "m").shown
    except InputError as error:
        text = str(error)
    assert "host/v1" in text
    assert not re.search("me:|sec|ret|key", text)


def test_what_a_server_says_does_not_reach_the_terminal_as_it_is() -> None:
    refusal = {"error": {"message": "\x1b]0;mine\x07\x1b[2J\u202eno\nway"}}
    server = Server(lambda _: BASKET, refuses=(SCHEMA,), status=403, refusal=refusal)
    with running(server), pytest.raises(InputError) as error:
        ask(server, REQUEST, form=Fruit)
    assert str(error.value).isprintable()
    assert "no way" in str(error.value)


@pytest.mark.parametrize("extra", ["author", "paraphrase"])
def test_the_client_comes_with_the_extra_of_each_command(
    extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(InputError, match=rf"pip install 'pragworld\[{extra}\]'$"):
        require_client(extra)


# Usage --------------------------------------------------------------------------------------------

COUNTS = st.builds(Usage, *[st.integers(0, 10**7)] * 5)


@given(st.lists(COUNTS, max_size=4), st.tuples(st.floats(0, 100), st.floats(0, 100)))
def test_usages_add_up(usages: list[Usage], prices: tuple[float, float]) -> None:
    total = sum(usages, Usage())
    for name in ("answered", "reused", "prompt_tokens", "reply_tokens", "uncounted", "tokens"):
        assert getattr(total, name) == sum(getattr(usage, name) for usage in usages)
    assert total.cost(prices) == pytest.approx(sum(usage.cost(prices) for usage in usages))
    assert ("$" in total.to_text(prices), "$" in total.to_text()) == (True, False)
    assert ("did not count" in total.to_text()) == (total.uncounted > 0)
