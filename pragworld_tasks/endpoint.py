"""A model behind an OpenAI-compatible chat endpoint: asked concurrently, patiently, and once.

The `openai` client does the talking, and the first line of retrying: 429 (after as long as the
server says), 5xx, time-outs and dropped connections. Ours is the second: once that was in vain, and
where a body cannot be read or holds no text.

Environment variables:
    OPENAI_API_KEY: the key. Servers that want none need none. It is shown and written nowhere.
"""

import asyncio
import contextlib
import math
import os
import random
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pragworld_tasks.errors import InputError
from pragworld_tasks.log import logger
from pragworld_tasks.request_journal import Answer, Journal, Request

if TYPE_CHECKING:
    from openai import APIConnectionError, AsyncOpenAI
    from openai.types.chat import ChatCompletion

TRIES = 4  # of the client, half a second, one and two apart
ROUNDS = 4  # of the client's tries, one second, two and four apart
LONGEST_PAUSE = 300  # seconds; however long a server asks us to wait
FAILURES_IN_A_ROW = 5  # of requests, each with all its retries; then it is the endpoint that fails
_NO_KEY = "none"  # the client wants one

Result = TypeVar("Result")


@dataclass(frozen=True)
class Endpoint:
    """Where a model is asked, and how.

    Attributes:
        url: the base URL, as in `http://localhost:8000/v1`.
        model: its name there.
        concurrency: requests under way at a time.
        timeout: seconds that the server may be silent before it is asked again.
        prices: dollars for a million tokens of prompts, and of answers.

    Raises:
        InputError: one of them makes no sense.
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
            raise InputError(f"no URL of an endpoint: {self.shown}; it is like http://host:8000/v1")
        if self.concurrency < 1:
            raise InputError(f"concurrency {self.concurrency}: at least 1")
        if not 0 < self.timeout < math.inf:
            raise InputError(f"time-out {self.timeout:g}: a number of seconds above 0")
        if not all(0 <= price < math.inf for price in self.prices or ()):
            raise InputError(
                f"prices {self.prices}: dollars, at least 0, for a million tokens each"
            )

    @property
    def shown(self) -> str:
        """The URL for messages: without a user's name and password, or what stands behind `?`."""
        scheme, slashes, rest = self.url.partition("?")[0].rpartition("://")
        host, slash, path = rest.partition("/")
        return scheme + slashes + host.rpartition("@")[2] + slash + path


@dataclass
class Usage:
    """What was asked, and what it took.

    Attributes:
        asked: requests that the server answered in this run.
        kept: requests that it answered in an earlier run, and that were needed again.
        prompt_tokens, answer_tokens: of both.
        uncounted: answers of which the server did not say how many tokens they took.
    """

    asked: int = 0
    kept: int = 0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    uncounted: int = 0

    @property
    def tokens(self) -> int:
        """Of prompts and answers."""
        return self.prompt_tokens + self.answer_tokens

    def cost(self, prices: tuple[float, float]) -> float:
        """Dollars, at prices for a million tokens of prompts, and of answers."""
        return (self.prompt_tokens * prices[0] + self.answer_tokens * prices[1]) / 1e6

    def count(self, tokens: tuple[int, int] | None) -> None:
        """Counts the tokens of an answer."""
        self.prompt_tokens += tokens[0] if tokens else 0
        self.answer_tokens += tokens[1] if tokens else 0
        self.uncounted += not tokens


class Unanswered(Exception):  # noqa: N818 - it is no error of the program's or the user's
    """A request to which there is no usable answer, after all retries. Says why."""


class EndpointError(Exception):
    """The endpoint cannot be used at all. Its message is an `InputError`'s.

    `run` makes one of it. Not before: a `SystemExit` inside a task would tear down the event loop.
    """


class Connection:
    """An endpoint that is being asked.

    Attributes:
        endpoint: the one.
        usage: what was asked so far.
    """

    def __init__(
        self, endpoint: Endpoint, client: "AsyncOpenAI", key: str, journal: Journal
    ) -> None:
        self.endpoint = endpoint
        self.usage = Usage()
        self._client = client
        self._key = key
        self._journal = journal
        self._earlier = set(journal.answers)
        self._under_way: dict[str, asyncio.Task[str]] = {}
        self._places = asyncio.Semaphore(endpoint.concurrency)
        self._reached = False
        self._failed_in_a_row = 0
        self._unusable: EndpointError | None = None
        self._untempered: set[str] = set()  # models that take no temperature of ours

    async def ask(self, request: Request) -> str:
        """The answer's text, never empty; out of the journal where it is there.

        White space around it and reasoning before it, in `<think>` tags, are taken off.

        Raises:
            Unanswered: this request found no answer.
            EndpointError: no request will.
        """
        key = request.key
        if known := self._journal.answers.get(key):
            if key in self._earlier:
                self._earlier.remove(key)  # so as to count it once
                self.usage.kept += 1
                self.usage.count(known.tokens)
            return known.text
        if key not in self._under_way:
            task = self._under_way[key] = asyncio.create_task(self._ask(request))
            task.add_done_callback(lambda task: self._forget(key, task))
        return await self._under_way[key]

    def _forget(self, key: str, task: asyncio.Task[str]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            task.exception()  # else asyncio complains where nobody waits for it any more

    async def _ask(self, request: Request) -> str:
        async with self._places:
            if self._unusable:  # found so while this one waited
                raise self._unusable
            try:
                answer = await self._complete(request)
            except EndpointError as error:
                self._unusable = error
                raise
            except Unanswered as error:
                self._failed_in_a_row += 1
                if self._failed_in_a_row < FAILURES_IN_A_ROW:
                    raise
                self._unusable = EndpointError(
                    f"{self.endpoint.shown}: {FAILURES_IN_A_ROW} requests in a row found no "
                    f"answer, the last one because {error}"
                )
                raise self._unusable from error
        self._failed_in_a_row = 0
        self.usage.asked += 1
        try:
            self._journal.add(request, answer)
        except OSError as error:
            self._unusable = EndpointError(f"journal of the requests: {error.strerror}")
            raise self._unusable from error
        return answer.text

    async def _complete(self, request: Request) -> Answer:
        """Asks the server, several times if need be."""
        import openai

        problem, pause = "", 0.0
        for attempt in range(ROUNDS):
            if attempt:
                backoff = 2 ** (attempt - 1) * random.uniform(0.75, 1)
                await asyncio.sleep(max(backoff, min(pause, LONGEST_PAUSE)))
            pause = 0.0
            temperature = None if request.model in self._untempered else request.temperature
            try:
                completion = await self._send(request, temperature)
            except openai.APIConnectionError as error:
                problem = self._no_connection(error)
                if isinstance(error, openai.APITimeoutError):
                    break  # the client waited for long enough
            except openai.APIStatusError as error:
                self._reached = True
                status = error.status_code
                said = error.body.get("message") if isinstance(error.body, dict) else error.message
                problem = f"the server answered {status} ({self._quoted(str(said))})"
                if status in (401, 403, 404):
                    raise self._refusal(status, problem, request.model) from None
                if status == 400 and error.param == "temperature" and temperature is not None:
                    self._leave_temperature(request.model)
                elif status < 500 and status not in (408, 409, 429):
                    break  # what is wrong with it will stay so
                pause = _seconds(error.response.headers.get("retry-after"))
            except (openai.OpenAIError, ValueError):
                self._reached = True
                problem = "the server's answer cannot be read"
            else:
                self._reached = True
                text, problem = self._read(completion)
                tokens = _tokens(completion)
                if text or tokens:
                    self.usage.count(tokens)
                if text:
                    return Answer(text, tokens)
        raise Unanswered(problem)

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
        """Asks a model at its own temperature from now on; some answer at no other."""
        if model not in self._untempered:
            self._untempered.add(model)
            logger.warning("%s answers at its own temperature only, not at the one given", model)

    def _read(self, completion: "ChatCompletion") -> tuple[str, str]:
        """The text, or nothing and what is wrong."""
        try:
            choice = completion.choices[0]
            text = choice.message.content
        except (AttributeError, LookupError, TypeError):
            # Some servers send errors so.
            said = getattr(completion, "error", None)
            return "", "the server's answer holds no text" + (
                f" ({self._quoted(str(said))})" if said else ""
            )
        if getattr(choice, "finish_reason", None) == "length":
            return "", "the answer was cut off: the server allows too few tokens"
        if not isinstance(text, str) or not (text := text.rpartition("</think>")[2].strip()):
            return "", "the server's answer holds no text"
        return text.encode("utf-8", "replace").decode(), ""  # half a character cannot be written

    def _no_connection(self, error: "APIConnectionError") -> str:
        """What is wrong with the connection.

        Raises:
            EndpointError: there has never been one.
        """
        said = self._quoted(_cause(error))
        # By name: it is httpx's, or that of a package that succeeds it.
        if type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout"):
            problem = f"there is no connection ({said or 'time-out'})"
            if not self._reached:
                raise EndpointError(
                    f"{self.endpoint.shown}: {problem}; is the server running, and the URL right?"
                ) from None
            return problem
        if type(error).__name__ == "APITimeoutError":
            return f"the server was silent for {self.endpoint.timeout:g} s, {TRIES} times"
        return f"the connection broke ({said})"

    def _refusal(self, status: int, problem: str, model: str) -> EndpointError:
        if status == 401:  # what the server says holds parts of the key, often
            state = "is not accepted" if self._key != _NO_KEY else "is not set"
            what = f"the server answered 401: the key in OPENAI_API_KEY {state}"
        elif status == 403:
            what = f"{problem}: the key in OPENAI_API_KEY may not use {model}"
        else:
            what = f"{problem}: no model {model} there, or the URL is wrong; it mostly ends in /v1"
        return EndpointError(f"{self.endpoint.shown}: {what}")

    def _quoted(self, text: str) -> str:
        """What a server or a library said: on one line, without the key, not too long."""
        text = " ".join(text.split())
        if self._key != _NO_KEY:
            text = text.replace(self._key, "…")
        return text if len(text) <= 200 else text[:200] + "…"


@contextlib.asynccontextmanager
async def connect(endpoint: Endpoint, journal: Journal) -> AsyncIterator[Connection]:
    """A connection to the endpoint, for one event loop.

    Raises:
        InputError: the key holds what no key does, or there is no `openai`. See `require_client`.
    """
    import openai

    key = _key()
    client = openai.AsyncOpenAI(
        # The whole address is what lm-eval wants, so it may be at hand.
        base_url=endpoint.url.rstrip("/").removesuffix("/chat/completions"),
        api_key=key,
        timeout=endpoint.timeout,
        max_retries=TRIES - 1,
    )
    async with client:
        yield Connection(endpoint, client, key, journal)


def require_client() -> None:
    """Raises the `InputError` that says what to install, or what is wrong with the key, if so."""
    try:
        import openai  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"no package openai ({error.msg.splitlines()[0]}); pip install 'pragworld[paraphrase]'"
        ) from error
    _key()


def run(work: Coroutine[Any, Any, Result]) -> Result:
    """Does asynchronous work to its end; also in a notebook, which has an event loop already.

    Raises:
        InputError: the endpoint cannot be used.
    """
    try:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work)
        return _run_beside(work)
    except EndpointError as error:
        raise InputError(str(error)) from error


def _run_beside(work: Coroutine[Any, Any, Result]) -> Result:
    """Does it in a thread of its own. An interrupt ends it there too."""
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
    if not (key.isascii() and key.isprintable()):  # else a library would show it, to complain
        raise InputError("OPENAI_API_KEY: line breaks or letters that no key has; set it again")
    return key or _NO_KEY


def _cause(error: BaseException) -> str:
    """What the system said; where it said nothing, what the client's network library did."""
    said = str(error.__cause__ or error)
    further = error.__cause__ or error.__context__
    while further:
        if isinstance(further, OSError):
            number = further.errno or 0  # asyncio words its errors anew, but keeps the number
            said = os.strerror(number) if number > 0 else further.strerror or str(further)
        further = further.__cause__ or further.__context__
    return said


def _tokens(completion: "ChatCompletion") -> tuple[int, int] | None:
    usage = getattr(completion, "usage", None)
    counts = (getattr(usage, "prompt_tokens", None), getattr(usage, "completion_tokens", None))
    match counts:
        case (int(prompt), int(answer)):
            return prompt, answer
    return None


def _seconds(retry_after: str | None) -> float:
    """Of a Retry-After header; 0 where there is none, or a date."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
