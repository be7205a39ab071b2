"""Requests to chat models behind OpenAI-compatible endpoints.

The `openai` library sends them, and retries after 429 (as late as the server asks), 5xx, time-outs
and dropped connections. Replies are kept in a journal, unless they are empty, cut off, refused or
malformed, so a rerun sends no other requests again.
"""

import asyncio
import contextlib
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from pragworld_tasks.errors import InputError, first_problem, logger, printable
from pragworld_tasks.journal import Journal, open_journal
from pragworld_tasks.text import strip_reasoning

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

RETRIES = 5  # with pauses of half a second, one, two, four and eight
FAILURES_IN_A_ROW = 5  # requests without a response after which an endpoint counts as dead
_DEAD = (401, 404)  # statuses that say the same of every request
_REFUSED = (400, 413, 422)  # statuses that say something about one request
# Other words in a server's message for an option that its model doesn't accept.
_OTHER_WORDS = {"response_format": "json_schema"}
_INSTRUCTION = "Reply with one JSON object that fits this JSON schema, and nothing else:"

Form = TypeVar("Form", bound=BaseModel)
Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """One message to a model.

    Attributes:
        label: For people who read a journal, such as `translation 17 to Polish`.
        draw: Tells apart equal requests that are to be answered separately.
        response_format: As the OpenAI library takes it; `Connection.ask_structured` sets it.
    """

    label: str
    model: str
    system: str
    user: str
    temperature: float
    draw: int = 0
    response_format: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """A digest of all but the label: requests of one key are the same request."""
        content = [self.model, self.system, self.user, self.temperature, self.draw]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True)
class Endpoint:
    """A model on a server; after `timeout` seconds of silence, a request is sent again."""

    url: str
    model: str
    concurrency: int = 8
    timeout: float = 600.0  # some servers answer one request at a time
    max_tokens: int = 4096  # of a reply; weak models repeat themselves without an end

    def __post_init__(self) -> None:
        if not self.url.startswith(("http://", "https://")):
            raise InputError(f"base URL {self.url}: must look like http://localhost:8000/v1")


@dataclass
class Usage:
    """What the requests of a run took; `reused` counts replies that were known before."""

    answered: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0

    def __str__(self) -> str:
        return (
            f"{self.answered:,} requests answered ({self.prompt_tokens:,} tokens of prompts, "
            f"{self.reply_tokens:,} of replies), {self.reused:,} replies reused"
        )


class UnansweredError(Exception):
    """A request has no usable reply; `reply` is the unusable one, None if there is none at all."""

    def __init__(self, problem: str, reply: str | None = None) -> None:
        super().__init__(problem)
        self.reply = reply


class Connection:
    """A connection to an endpoint, as `connect` opens it."""

    def __init__(self, endpoint: Endpoint, client: "AsyncOpenAI", journal: Journal) -> None:
        self.endpoint = endpoint
        self.usage = Usage()
        self._client = client
        self._journal = journal
        self._replies = {record["key"]: record["answer"] for record in journal.records}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._failures = 0  # in a row
        self._dead: InputError | None = None
        self._not_accepted: defaultdict[str, set[str]] = defaultdict(set)  # options, by model

    async def ask(self, request: Request) -> str:
        """Return the reply without reasoning, never empty, or raise an `UnansweredError`."""
        return await self._ask(request, str)

    async def ask_structured(self, request: Request, form: type[Form]) -> Form:
        """Return the reply as a JSON object of a form; a reply that does not fit is unusable.

        The system message states the form's schema, for some servers accept a `response_format`
        and ignore it, and others don't show it to the model.
        """
        from openai import pydantic_function_tool

        function = pydantic_function_tool(form)["function"]
        name, schema = function["name"], function["parameters"]
        json_schema = {"name": name, "strict": True, "schema": schema}

        def read(text: str) -> Form:
            try:  # models like to put words or a fence around the object
                return form.model_validate_json(text[text.find("{") : text.rfind("}") + 1])
            except ValidationError as error:
                problem = f"the reply is malformed ({self._shown(first_problem(error))})"
                raise UnansweredError(problem, text) from None

        structured = replace(
            request,
            system=f"{request.system}\n\n{_INSTRUCTION}\n{json.dumps(schema, ensure_ascii=False)}",
            response_format={"type": "json_schema", "json_schema": json_schema},
        )
        return await self._ask(structured, read)

    async def _ask(self, request: Request, read: Callable[[str], Result]) -> Result:
        """Return what `read` makes of a reply, and keep it then; equal requests wait for that."""
        key = request.key
        async with self._locks[key]:
            if key in self._replies:
                self.usage.reused += 1
                return read(self._replies[key])
            async with self._slots:
                text = await self._send(request)
            result = read(text)
            self._journal.append({"key": key, "request": request.label, "answer": text})
            self._replies[key] = text
            return result

    async def _send(self, request: Request) -> str:
        """Send a request and return the text of the reply."""
        import openai

        if self._dead:
            raise self._dead
        answered = self.usage.answered
        try:
            completion = await self._complete(request)
            if not getattr(completion, "choices", None):  # an error or a web page, with status 200
                raise ValueError(f"no completion: {getattr(completion, 'error', '') or completion}")
        except (openai.OpenAIError, ValueError) as error:
            raise self._failure(error, answered) from None
        self._failures = 0
        self.usage.answered += 1
        if completion.usage:
            self.usage.prompt_tokens += completion.usage.prompt_tokens
            self.usage.reply_tokens += completion.usage.completion_tokens
        choice = completion.choices[0]
        text = strip_reasoning(content_text(choice.message.content)).strip()
        if text and choice.finish_reason not in ("length", "content_filter"):
            return text
        reason = getattr(choice.message, "refusal", None) or choice.finish_reason
        problem = f"the reply is empty or refused ({reason})"
        if reason == "length":
            limit = self.endpoint.max_tokens
            problem = f"the reply is cut off (at {limit} tokens, or earlier by the server)"
        raise UnansweredError(self._shown(problem), text)

    async def _complete(self, request: Request) -> "ChatCompletion":
        """Send a request, without the options that its model turns out not to accept."""
        import openai

        left_out = self._not_accepted[request.model]
        limit = self.endpoint.max_tokens
        options: dict[str, Any] = {"temperature": request.temperature, "max_tokens": limit}
        if request.response_format:
            options["response_format"] = request.response_format
        options = {name: options[name] for name in options.keys() - left_out}
        try:
            completion: ChatCompletion = await self._client.chat.completions.create(
                model=request.model,
                messages=[
                    {"role": "system", "content": request.system},
                    {"role": "user", "content": request.user},
                ],
                **options,
            )
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            said = error.response.text
            refused = {key for key in options if key in said or _OTHER_WORDS.get(key, key) in said}
            if not refused:
                raise
            for name in refused - left_out:  # another request may have found out
                logger.warning("%s doesn't accept %s, so none is sent", request.model, name)
            left_out |= refused
            return await self._complete(request)
        return completion

    def _failure(self, error: Exception, answered: int) -> UnansweredError | InputError:
        """Return what to raise for a request that was sent after so many were answered."""
        problem = self._shown(f"{type(error).__name__}: {error} {error.__cause__ or ''}")
        status = getattr(error, "status_code", None)
        if status in _REFUSED:
            return UnansweredError(problem)
        # Failing takes longest. What others were sent meanwhile shows that the endpoint lives.
        self._failures += self.usage.answered == answered
        is_unreached = type(error).__name__ == "APIConnectionError" and not self.usage.answered
        if status not in _DEAD and not is_unreached:
            if self._failures < FAILURES_IN_A_ROW:
                return UnansweredError(problem)
            problem = f"{FAILURES_IN_A_ROW} requests in a row failed, the last one: {problem}"
        self._dead = InputError(
            f"{self.endpoint.url}: {problem}; check the server, its load, the URL, the model and "
            "the key"
        )
        return self._dead

    def _shown(self, message: str) -> str:
        """Return a message on one line, not too long, without the key or what a terminal obeys."""
        line = printable(message.replace(self._client.api_key, "…"))
        return line if len(line) <= 200 else f"{line[:200]}…"


def content_text(content: Any) -> str:
    """Return the text of a message's content: a string, a list of parts, or None for no text.

    >>> content_text([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}])
    'Yes.'
    """
    if content is None or isinstance(content, str):
        return content or ""
    parts = [part if isinstance(part, Mapping) else {"text": part} for part in content]
    texts = [
        part.get("text") for part in parts if part.get("type") not in ("thinking", "reasoning")
    ]
    return "".join(text for text in texts if isinstance(text, str))


@contextlib.asynccontextmanager
async def connect(
    endpoint: Endpoint, journal: Path, settings: Mapping[str, Any]
) -> AsyncIterator[Connection]:
    """Open a connection within one event loop; the journal refuses other settings than its own."""
    try:
        import openai
    except ImportError as error:
        raise InputError(
            f"requests to a model need openai ({error.msg}): pip install 'pragworld[author]'"
        ) from error
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    client = openai.AsyncOpenAI(
        # lm-eval takes the whole address, so users have that at hand.
        base_url=endpoint.url.rstrip("/").removesuffix("/chat/completions"),
        api_key=key or "no-key-set",  # the library requires one
        timeout=openai.Timeout(endpoint.timeout, connect=10),
        max_retries=RETRIES,
    )
    with open_journal(journal, settings) as kept:
        async with client:
            yield Connection(endpoint, client, kept)


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end, in a thread: a notebook has an event loop already."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:  # an interrupt cancels the work
        result: Result = portal.call(lambda: work)
        return result
