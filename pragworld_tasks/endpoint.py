"""Requests to a model behind an OpenAI-compatible chat endpoint: concurrent, retried, sent once.

The `openai` client sends the requests and is the first to retry: after 429 (as late as the server
asks), 5xx, time-outs and dropped connections. `Connection` retries once the client has given up,
and where a response is malformed or holds no text. Replies are kept in a journal, so a resumed run
neither waits nor pays for them again.

Environment variables:
    OPENAI_API_KEY: The key; leave it unset for servers that need none. It is never shown or stored.
"""

import asyncio
import contextlib
import hashlib
import json
import math
import os
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.reasoning import strip_reasoning
from pragworld_tasks.files import whole_characters
from pragworld_tasks.journal import Journal, open_journal
from pragworld_tasks.log import logger

if TYPE_CHECKING:
    from openai import APIConnectionError, AsyncOpenAI
    from openai.types.chat import ChatCompletion

TRIES = 4  # by the client, with pauses of half a second, one and two
ROUNDS = 4  # of the client's tries, with pauses of one second, two and four
LONGEST_PAUSE = 300  # seconds, however long a server asks us to wait
FAILURES_IN_A_ROW = 5  # requests that fail after all retries before the endpoint counts as failing
REPORT_PAUSE = 30.0  # seconds between lines of progress where there is no terminal
_NO_KEY = "none"  # the client requires one

Result = TypeVar("Result")


@dataclass(frozen=True)
class Request:
    """One message to a model.

    Attributes:
        label: For people who read a journal, such as `translation 17 to Polish`.
        model: The model's name at the endpoint.
        system: The system message.
        user: The user's message.
        temperature: The sampling temperature.
        draw: Tells apart equal requests that are to be answered separately.
    """

    label: str
    model: str
    system: str
    user: str
    temperature: float
    draw: int = 0

    @property
    def key(self) -> str:
        """A digest of everything but the label: requests of one key are the same request."""
        content = [self.model, self.system, self.user, self.temperature, self.draw]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True)
class ModelReply:
    """A model's reply to a request.

    Attributes:
        text: Its text.
        tokens: The numbers of tokens of the prompt and of the reply; None if the server did not
            count them.
    """

    text: str
    tokens: tuple[int, int] | None = None


@dataclass(frozen=True)
class Endpoint:
    """A model on a server, and how to send requests to it.

    Attributes:
        url: The base URL, such as `http://localhost:8000/v1`.
        model: The model's name there.
        concurrency: The number of requests in flight at a time.
        timeout: Seconds of silence after which a request is retried.
        prices: Dollars per million tokens of prompts and of replies.

    Raises:
        InputError: The URL is malformed, or a number is out of range.
    """

    url: str
    model: str
    concurrency: int = 8
    timeout: float = 60.0
    prices: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable:
            raise InputError(
                f"base URL {self.shown}: not the URL of an endpoint; it looks like "
                "http://host:8000/v1"
            )
        if self.concurrency < 1:
            raise InputError(f"concurrency {self.concurrency}: must be at least 1")
        if not 0 < self.timeout < math.inf:
            raise InputError(f"timeout {self.timeout:g}: must be a number of seconds above 0")
        if not all(0 <= price < math.inf for price in self.prices or ()):
            raise InputError(
                f"prices {self.prices}: must be dollars per million tokens, at least 0"
            )

    @property
    def shown(self) -> str:
        """The URL for messages: without a user's name, a password or a query."""
        scheme, slashes, rest = self.url.partition("?")[0].rpartition("://")
        host, slash, path = rest.partition("/")
        return scheme + slashes + host.rpartition("@")[2] + slash + path


@dataclass
class Usage:
    """Numbers of requests and tokens.

    Attributes:
        answered: Requests that the server answered in this run.
        reused: Requests of this run that the server answered in an earlier one.
        prompt_tokens: Tokens of the prompts of both.
        reply_tokens: Tokens of the replies to both.
        uncounted: Replies of which the server did not count the tokens.
    """

    answered: int = 0
    reused: int = 0
    prompt_tokens: int = 0
    reply_tokens: int = 0
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """Tokens of prompts and replies."""
        return self.prompt_tokens + self.reply_tokens

    def cost(self, prices: tuple[float, float]) -> float:
        """Return the dollars, at prices per million tokens of prompts and of replies."""
        return (self.prompt_tokens * prices[0] + self.reply_tokens * prices[1]) / 1e6

    def count(self, tokens: tuple[int, int] | None) -> None:
        """Count the tokens of a reply."""
        self.prompt_tokens += tokens[0] if tokens else 0
        self.reply_tokens += tokens[1] if tokens else 0
        self.uncounted += not tokens


class UnansweredError(Exception):
    """A request has no usable reply after all retries. The message says why."""


class Connection:
    """A connection to an endpoint, as `connect` opens it.

    Attributes:
        endpoint: The endpoint.
        usage: The requests and tokens so far.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        client: "AsyncOpenAI",
        key: str,
        journal: Journal[tuple[str, ModelReply]] | None,
    ) -> None:
        self.endpoint = endpoint
        self.usage = Usage()
        self._client = client
        self._key = key
        self._journal = journal
        self._replies = dict(journal.records if journal else ())
        self._earlier = set(self._replies)
        self._in_flight: dict[str, asyncio.Task[str]] = {}
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._reached = False
        self._failed_in_a_row = 0
        self._unusable: InputError | None = None
        self._own_temperature: set[str] = set()  # models that accept no temperature from us

    @property
    def has_replies(self) -> bool:
        """Whether there is a reply, from this run or an earlier one."""
        return bool(self._replies)

    async def ask(self, request: Request) -> str:
        """Return the text of the reply, never empty; from the journal if it is there.

        Surrounding white space and the model's reasoning are removed.

        Raises:
            UnansweredError: This request has no usable reply.
            InputError: The endpoint or the journal cannot be used at all.
        """
        key = request.key
        if known := self._replies.get(key):
            if key in self._earlier:
                self._earlier.remove(key)  # it counts once
                self.usage.reused += 1
                self.usage.count(known.tokens)
            return known.text
        if key not in self._in_flight:
            task = self._in_flight[key] = asyncio.create_task(self._ask(request))
            task.add_done_callback(lambda task: self._forget(key, task))
        return await self._in_flight[key]

    def _forget(self, key: str, task: asyncio.Task[str]) -> None:
        del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # else asyncio complains if nothing awaits the task any more

    async def _ask(self, request: Request) -> str:
        async with self._slots:
            if self._unusable:  # another request found that out while this one waited
                raise self._unusable
            try:
                reply = await self._complete(request)
                if self._journal:
                    self._journal.append(
                        {
                            "key": request.key,
                            "request": request.label,
                            "answer": reply.text,
                            "tokens": reply.tokens,
                        }
                    )
            except InputError as error:
                self._unusable = error
                raise
            except UnansweredError as error:
                self._failed_in_a_row += 1
                if self._failed_in_a_row < FAILURES_IN_A_ROW:
                    raise
                self._unusable = InputError(
                    f"{self.endpoint.shown}: {FAILURES_IN_A_ROW} requests in a row failed, the "
                    f"last one because {error}"
                )
                raise self._unusable from error
        self._failed_in_a_row = 0
        self._replies[request.key] = reply
        self.usage.answered += 1
        return reply.text

    async def _complete(self, request: Request) -> ModelReply:
        """Send a request, several times if need be."""
        import openai

        problem, pause = "", 0.0
        for attempt in range(ROUNDS):
            if attempt:
                backoff = 2 ** (attempt - 1) * random.uniform(0.75, 1)
                await asyncio.sleep(max(backoff, min(pause, LONGEST_PAUSE)))
            pause = 0.0
            temperature = None if request.model in self._own_temperature else request.temperature
            try:
                completion = await self._send(request, temperature)
            except openai.APIConnectionError as error:
                problem = self._connection_problem(error)
                if isinstance(error, openai.APITimeoutError):
                    break  # the client has waited long enough
            except openai.APIStatusError as error:
                self._reached = True
                status = error.status_code
                body = error.body
                message = body.get("message") if isinstance(body, dict) else error.message
                problem = f"the server answered {status} ({self._quoted(str(message))})"
                if status in (401, 403, 404):
                    raise self._refusal(status, problem, request.model) from None
                if status == 400 and error.param == "temperature" and temperature is not None:
                    self._leave_temperature(request.model)
                elif status < 500 and status not in (408, 409, 429):
                    break  # the request would be refused again
                pause = _seconds(error.response.headers.get("retry-after"))
            except (openai.OpenAIError, ValueError):
                self._reached = True
                problem = "the server's response is malformed"
            else:
                self._reached = True
                text, problem = self._read(completion)
                tokens = _tokens(completion)
                if text or tokens:
                    self.usage.count(tokens)
                if text:
                    return ModelReply(text, tokens)
        raise UnansweredError(problem)

    async def _send(self, request: Request, temperature: float | None) -> "ChatCompletion":
        # None would be sent as null.
        optional: dict[str, Any] = {} if temperature is None else {"temperature": temperature}
        completion: ChatCompletion = await self._client.chat.completions.create(
            model=request.model,
            messages=[
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.user},
            ],
            **optional,
        )
        return completion

    def _leave_temperature(self, model: str) -> None:
        """Send a model no temperature from now on; some accept none but their own."""
        if model not in self._own_temperature:
            self._own_temperature.add(model)
            logger.warning("%s accepts no other temperature than its own, so none is sent", model)

    def _read(self, completion: "ChatCompletion") -> tuple[str, str]:
        """Return the text of a completion, or an empty one and what is wrong."""
        try:
            choice = completion.choices[0]
            text = choice.message.content
        except (AttributeError, LookupError, TypeError):
            # Some servers send errors this way.
            message = getattr(completion, "error", None)
            return "", "the server's response holds no text" + (
                f" ({self._quoted(str(message))})" if message else ""
            )
        if getattr(choice, "finish_reason", None) == "length":
            return "", "the reply was cut off: the server allows too few tokens"
        if not isinstance(text, str) or not (text := strip_reasoning(text).strip()):
            return "", "the server's response holds no text"
        return whole_characters(text), ""

    def _connection_problem(self, error: "APIConnectionError") -> str:
        """Return what is wrong with the connection.

        Raises:
            InputError: There has never been one.
        """
        message = self._quoted(_cause(error))
        # By name, for the class is httpx's, or a successor's.
        if type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
            problem = f"there is no connection ({message or 'time-out'})"
            if not self._reached:
                raise InputError(
                    f"{self.endpoint.shown}: {problem}; start the server, or correct the URL"
                ) from None
            return problem
        if type(error).__name__ == "APITimeoutError":
            return f"the server was silent for {self.endpoint.timeout:g} s, {TRIES} times"
        return f"the connection broke ({message})"

    def _refusal(self, status: int, problem: str, model: str) -> InputError:
        if status == 401:  # a server's message often quotes parts of the key
            state = "is not accepted" if self._key != _NO_KEY else "is not set"
            problem = f"the server answered 401: the key in OPENAI_API_KEY {state}"
        elif status == 403:
            problem += f": the key in OPENAI_API_KEY may not use {model}"
        else:
            problem += f": it has no model {model}, or the URL is wrong; most end in /v1"
        return InputError(f"{self.endpoint.shown}: {problem}")

    def _quoted(self, text: str) -> str:
        """Return a message of a server or a library on one line, without the key, not too long."""
        text = " ".join(text.split())
        if self._key != _NO_KEY:
            text = text.replace(self._key, "…")
        return text if len(text) <= 200 else text[:200] + "…"


@contextlib.asynccontextmanager
async def connect(
    endpoint: Endpoint, journal: Path | None, settings: Mapping[str, Any]
) -> AsyncIterator[Connection]:
    """Open a connection to an endpoint, within one event loop.

    A journal that holds no reply in the end is removed.

    Args:
        endpoint: The endpoint.
        journal: File of replies, to resume from and to append to; None keeps them in memory.
        settings: What the requests depend on, as JSON values. A journal of others is refused.

    Raises:
        InputError: The journal or the key cannot be used, or there is no `openai` package.
    """
    require_client()
    import openai

    key = _key()
    client = openai.AsyncOpenAI(
        # lm-eval takes the whole address, so users have that at hand.
        base_url=endpoint.url.rstrip("/").removesuffix("/chat/completions"),
        api_key=key,
        timeout=endpoint.timeout,
        max_retries=TRIES - 1,
    )
    with contextlib.ExitStack() as stack:
        kept = None
        if journal:
            kept = stack.enter_context(
                open_journal(journal, settings, _decode_reply, section="settings", lock=True)
            )
        async with client:
            connection = Connection(endpoint, client, key, kept)
            try:
                yield connection
            finally:
                if journal and not connection.has_replies:
                    journal.unlink(missing_ok=True)


def _decode_reply(record: Mapping[str, Any]) -> tuple[str, ModelReply]:
    """Return the key of a request and the reply from a line of the journal."""
    tokens = record["tokens"] and tuple(record["tokens"])
    return record["key"], ModelReply(record["answer"], tokens)


@contextlib.asynccontextmanager
async def report_progress(describe: Callable[[], str]) -> AsyncIterator[None]:
    """Print a line on stderr every half minute, unless that is a terminal with a progress bar.

    Args:
        describe: Returns the line.
    """

    async def report() -> None:
        while not sys.stderr.isatty():
            await asyncio.sleep(REPORT_PAUSE)
            print(describe(), file=sys.stderr, flush=True)

    task = asyncio.create_task(report())
    try:
        yield
    finally:
        task.cancel()


def require_client() -> None:
    """Check that requests can be sent, before anything else is done.

    Raises:
        InputError: There is no `openai` package, or the key is malformed.
    """
    try:
        import openai  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"requests to a model need the openai package ({error.msg.splitlines()[0]}): "
            "pip install 'pragworld[paraphrase]'"
        ) from error
    _key()


def run_async(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end; also in a notebook, which has an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)

    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def main() -> Result:
        task = asyncio.current_task()
        assert task
        begun.set_result((asyncio.get_running_loop(), task))
        return await work

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(asyncio.run, main())
        try:
            return done.result()
        except KeyboardInterrupt:
            loop, task = begun.result()
            loop.call_soon_threadsafe(task.cancel)
            raise


def _key() -> str:
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):  # else a library's message would show it
        raise InputError(
            "OPENAI_API_KEY: holds line breaks or letters that no key has; set it again"
        )
    return key or _NO_KEY


def _cause(error: BaseException) -> str:
    """Return the operating system's message, or else that of the client's network library."""
    message = str(error.__cause__ or error)
    further = error.__cause__ or error.__context__
    while further:
        if isinstance(further, OSError):
            number = further.errno or 0  # asyncio rewords its errors, but keeps the number
            message = os.strerror(number) if number > 0 else further.strerror or str(further)
        further = further.__cause__ or further.__context__
    return message


def _tokens(completion: "ChatCompletion") -> tuple[int, int] | None:
    usage = getattr(completion, "usage", None)
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    match counts:
        case (int(prompt), int(reply)):
            return prompt, reply
    return None


def _seconds(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header; 0 if there is none, or a date."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
