"""Requests to models behind OpenAI-compatible chat endpoints: concurrent, retried, sent once.

The `openai` client sends the requests and is the first to retry: after 429 (as late as the server
asks), 5xx, time-outs and dropped connections. `tenacity` retries once the client has given up, and
where a response is malformed or holds no text. Replies are kept in a journal, also refusals, empty
ones and those that were cut off: a resumed run neither waits nor pays for them again, unless it
asks for them. Several connections can be open at once.

Environment variables:
    OPENAI_API_KEY: The key, unless an endpoint names another variable; leave it unset for servers
        that need none. A key is never shown or stored.
"""

import asyncio
import contextlib
import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import tenacity
from pydantic import BaseModel

from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.reasoning import strip_reasoning
from pragworld_tasks.files import whole_characters
from pragworld_tasks.journal import Journal, open_journal
from pragworld_tasks.structured_replies import (
    Form,
    StructuredReply,
    form_instruction,
    form_schema,
    read_reply,
    repair_message,
    response_formats,
)
from pragworld_tasks.usage import Usage

if TYPE_CHECKING:
    from openai import APIConnectionError, APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion

TRIES = 4  # by the client, with pauses of half a second, one and two
ROUNDS = 4  # of the client's tries
LONGEST_PAUSE = 300  # seconds, however long a server asks us to wait
FAILURES_IN_A_ROW = 5  # requests that fail after all retries before the endpoint counts as failing
# What makes a reply unusable, by the reason for which it ended.
_CUT_OFF = {
    "length": "the reply was cut off: the server allows too few tokens",
    "content_filter": "the reply was cut off by the server's content filter",
}
_EMPTY = "the server's response holds no text"
_REFUSED = "the model refused"
_WRONG_URL = "the URL may be wrong; most end in /v1"
_NO_KEY = "none"  # the client requires one
_BACKOFF = tenacity.wait_exponential_jitter(initial=1, jitter=0.25)  # one second, two, four


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
        form: What a reply that is a JSON object has to fit; None for any text.
    """

    label: str
    model: str
    system: str
    user: str
    temperature: float
    draw: int = 0
    form: type[BaseModel] | None = None

    @property
    def key(self) -> str:
        """A digest of everything but the label: requests of one key are the same request."""
        content: list[Any] = [self.model, self.system, self.user, self.temperature, self.draw]
        if self.form:
            content.append(form_schema(self.form))
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


@dataclass(frozen=True)
class ModelReply:
    """A model's reply to a request.

    Attributes:
        text: Its text.
        tokens: The numbers of tokens of the prompt and of the reply; None if the server did not
            count them.
        problem: Why it cannot be used; empty if it can.
    """

    text: str
    tokens: tuple[int, int] | None = None
    problem: str = ""


@dataclass(frozen=True)
class Endpoint:
    """A model on a server, and how to send requests to it.

    Attributes:
        url: The base URL, such as `http://localhost:8000/v1`.
        model: The model's name there.
        concurrency: The number of requests in flight at a time.
        timeout: Seconds of silence after which a request is retried.
        prices: Dollars per million tokens of prompts and of replies.
        key_variable: The environment variable that holds the server's key, if it needs one; None
            sends no key.

    Raises:
        InputError: The URL is malformed, or a number is out of range.
    """

    url: str
    model: str
    concurrency: int = 8
    timeout: float = 60.0
    prices: tuple[float, float] | None = None
    key_variable: str | None = "OPENAI_API_KEY"

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
        """The URL for messages: without a user's name, a password or a query.

        All before the last "@" is left out, for a password may hold what divides a URL.
        """
        scheme = "".join(re.findall(r"^\w+://", self.url))
        return scheme + re.split("[?#]", self.url.removeprefix(scheme).rpartition("@")[2])[0]


class UnansweredError(Exception):
    """A request has no usable reply after all retries. The message says why."""


class UnusableReplyError(UnansweredError):
    """The reply to a request cannot be used, and it is not sent again. The message says why.

    Attributes:
        problem: Why, the same words for each such reply.
        text: The reply.
        key: The key of the request that it answers.
    """

    def __init__(self, problem: str, text: str, key: str, details: str = "") -> None:
        super().__init__(f"{problem}: {details}" if details else problem)
        self.problem = problem
        self.text = text
        self.key = key


class _TransientError(UnansweredError):
    """A request may succeed if it is sent again, after as many seconds as the server asks for."""

    def __init__(self, problem: str, pause: float = 0.0) -> None:
        super().__init__(problem)
        self.pause = pause


class _EmptyReplyError(_TransientError):
    """A reply is empty; it takes that many tokens."""

    def __init__(self, tokens: tuple[int, int] | None) -> None:
        super().__init__(_EMPTY)
        self.tokens = tokens


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
        again: Callable[[ModelReply], bool],
    ) -> None:
        self.endpoint = endpoint
        self.usage = Usage()
        self._client = client
        self._key = key
        self._journal = journal
        self._again = again
        known = dict(journal.records if journal else ())
        self._replies = {key: reply for key, reply in known.items() if not again(reply)}
        self._earlier = set(self._replies)
        self._asked_again = known.keys() - self._earlier
        self._in_flight: dict[str, asyncio.Task[ModelReply]] = {}
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._reached = False
        self._usable = 0  # replies
        self._failed_in_a_row = 0
        self._unusable: InputError | None = None
        self._own_temperature: set[str] = set()  # models that accept no temperature from us
        self._refused_formats: Counter[str] = Counter()  # how many of `response_formats`, by model

    @property
    def has_replies(self) -> bool:
        """Whether there is a reply, from this run or an earlier one."""
        return bool(self._replies)

    async def ask(self, request: Request) -> str:
        """Return the text of the reply, never empty; from the journal if it is there.

        Surrounding white space and the model's reasoning are removed.

        Raises:
            UnusableReplyError: The reply is empty or was cut off, or the model refused.
            UnansweredError: There is no reply.
            InputError: The endpoint or the journal cannot be used at all.
        """
        key = request.key
        reply = self._replies.get(key)
        if reply is None:
            if key not in self._in_flight:
                task = self._in_flight[key] = asyncio.create_task(self._ask(request))
                task.add_done_callback(lambda task: self._forget(key, task))
            reply = await self._in_flight[key]
        elif key in self._earlier:
            self._earlier.remove(key)  # it counts once
            self.usage.reused += 1
            self.usage.count(reply.tokens)
        if reply.problem:
            details = self._quoted(reply.text) if reply.problem == _REFUSED else ""
            raise UnusableReplyError(reply.problem, reply.text, key, details)
        return reply.text

    async def ask_structured(self, request: Request, form: type[Form]) -> StructuredReply[Form]:
        """Return the reply as a JSON object of a form; a malformed one is repaired once.

        The server is told the form where it knows `response_format`, else the model is.

        Args:
            request: The request. Its message says what the reply is to hold.
            form: A pydantic model.

        Raises:
            UnusableReplyError: The reply does not fit, and neither does its repair; or one of them
                is empty, was cut off or refused.
            UnansweredError: The request, or that for the repair, has no reply.
            InputError: The endpoint or the journal cannot be used at all.
        """
        request = replace(request, form=form)
        text = await self.ask(request)
        try:
            return StructuredReply(read_reply(text, form), request.key)
        except ValueError as error:
            user = repair_message(request.user, text, str(error), form)
        request = replace(request, label=f"{request.label}, repair", user=user)
        text = await self.ask(request)
        try:
            return StructuredReply(read_reply(text, form), request.key)
        except ValueError as error:
            problem = "the reply is malformed, and so is its repair"
            details = self._quoted(str(error))
            raise UnusableReplyError(problem, text, request.key, details) from None

    def _forget(self, key: str, task: asyncio.Task[ModelReply]) -> None:
        del self._in_flight[key]
        if not task.cancelled():
            task.exception()  # else asyncio complains if nothing awaits the task any more

    async def _ask(self, request: Request) -> ModelReply:
        async with self._slots:
            if self._unusable:  # another request found that out while this one waited
                raise self._unusable
            usable_before = self._usable
            try:
                try:
                    reply = await self._complete(request)
                except UnansweredError as error:
                    if self._again(failure := ModelReply("", None, str(error))):
                        self._keep(request, failure)
                    raise
                self._keep(request, reply)
            except InputError as error:
                self._unusable = error
                raise
            except UnansweredError as error:
                self._count_failure(request, str(error), usable_before)
                raise
        self._replies[request.key] = reply
        self.usage.answered += 1
        if reply.problem in (_EMPTY, *_CUT_OFF.values()):
            self._count_failure(request, reply.problem, usable_before)
        else:
            self._usable += 1
            self._failed_in_a_row = 0
        return reply

    def _keep(self, request: Request, reply: ModelReply) -> None:
        """Append a reply to the journal, if there is one."""
        if self._journal:
            self._journal.append(
                {
                    "key": request.key,
                    "request": request.label,
                    "answer": reply.text,
                    "tokens": reply.tokens,
                    **({"problem": reply.problem} if reply.problem else {}),
                }
            )

    def _count_failure(self, request: Request, problem: str, usable_before: int) -> None:
        """Count a request that has failed, unless others succeeded meanwhile, or it is asked again.

        Failing takes longest. So the last requests of a run may fail one after the other, although
        the endpoint answers all the rest; and those that are asked again may be all of a run.

        Args:
            request: The request.
            problem: Why it failed.
            usable_before: The number of usable replies when it was sent.

        Raises:
            InputError: Too many in a row have.
        """
        if self._usable > usable_before or request.key in self._asked_again:
            return
        self._failed_in_a_row += 1
        if self._failed_in_a_row >= FAILURES_IN_A_ROW:
            self._unusable = InputError(
                f"{self.endpoint.shown}: {FAILURES_IN_A_ROW} requests in a row failed, the last "
                f"one because {problem}"
            )
            raise self._unusable

    async def _complete(self, request: Request) -> ModelReply:
        """Send a request, several times if need be."""
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(_TransientError),
            stop=tenacity.stop_after_attempt(ROUNDS),
            wait=_pause,
            reraise=True,
        )
        try:
            return await retrying(self._complete_once, request)
        except _EmptyReplyError as error:
            return ModelReply("", error.tokens, _EMPTY)

    async def _complete_once(self, request: Request) -> ModelReply:
        """Send a request; the client retries, nobody else.

        Raises:
            _TransientError: There is no usable reply, but there may be one later.
            UnansweredError: There is none.
            InputError: The endpoint cannot be used at all.
        """
        import openai

        try:
            completion = await self._send(request)
        except openai.APIConnectionError as error:
            problem = self._connection_problem(error)
            if isinstance(error, openai.APITimeoutError):
                raise UnansweredError(problem) from None  # the client has waited long enough
            raise _TransientError(problem) from None
        except openai.APIStatusError as error:
            self._reached = True
            raise self._status_error(error, request.model) from None
        except (openai.OpenAIError, ValueError):
            self._reached = True
            raise _TransientError("the server's response is malformed") from None
        self._reached = True
        if tokens := _tokens(completion):
            self.usage.count(tokens)
        text, problem = self._read(completion)
        if not tokens:
            self.usage.count(None)
        return ModelReply(text, tokens, problem)

    async def _send(self, request: Request) -> "ChatCompletion":
        """Send a request, without what its model turns out to refuse."""
        import openai

        formats = response_formats(request.form) if request.form else (None,)
        while True:
            options: dict[str, Any] = {}  # None would be sent as null
            if request.model not in self._own_temperature:
                options["temperature"] = request.temperature
            refused = min(self._refused_formats[request.model], len(formats) - 1)
            if formats[refused]:
                options["response_format"] = formats[refused]
            user = request.user
            if request.form and refused and (form := form_instruction(request.form)) not in user:
                user += f"\n\n{form}"
            try:
                completion: ChatCompletion = await self._client.chat.completions.create(
                    model=request.model,
                    messages=[
                        {"role": "system", "content": request.system},
                        {"role": "user", "content": user},
                    ],
                    **options,
                )
            except openai.APIStatusError as error:
                if "temperature" in options and _refuses_temperature(error):
                    self._leave_temperature(request.model)
                elif "response_format" in options and _refuses_format(error):
                    self._leave_format(request.model, refused + 1)
                else:
                    raise
            else:
                return completion

    def _leave_temperature(self, model: str) -> None:
        """Send a model no temperature from now on; some accept none but their own."""
        if model not in self._own_temperature:
            self._own_temperature.add(model)
            logger.warning("%s accepts no other temperature than its own, so none is sent", model)

    def _leave_format(self, model: str, refused: int) -> None:
        """Send a model a looser `response_format`, or none, from now on."""
        if not self._refused_formats[model]:
            logger.warning("%s accepts no JSON schema, so messages tell it the schema", model)
        self._refused_formats[model] = max(refused, self._refused_formats[model])

    def _read(self, completion: "ChatCompletion") -> tuple[str, str]:
        """Return the text of a completion, and why it cannot be used, if so.

        Raises:
            _TransientError: It holds none.
        """
        try:
            choice = completion.choices[0]
            text = choice.message.content
            refusal = getattr(choice.message, "refusal", None)
        except (AttributeError, LookupError, TypeError):
            if isinstance(completion, str) and _is_web_page(completion):
                raise _TransientError(
                    f"the server answered with a web page: {_WRONG_URL}"
                ) from None
            # Some servers send errors this way.
            message = getattr(completion, "error", None)
            problem = f" ({self._quoted(str(message))})" if message else ""
            raise _TransientError(f"{_EMPTY}{problem}") from None
        problem = _CUT_OFF.get(str(getattr(choice, "finish_reason", "")), "")
        if not text and refusal:  # instead of a structured reply
            text, problem = str(refusal), _REFUSED
        text = strip_reasoning(text).strip() if isinstance(text, str) else ""
        if not text and not problem:
            raise _EmptyReplyError(_tokens(completion))
        return whole_characters(text), problem

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

    def _status_error(self, error: "APIStatusError", model: str) -> InputError | UnansweredError:
        """Return the exception to raise for a status that is an error."""
        status, body = error.status_code, error.body
        message = body.get("message") if isinstance(body, dict) else error.message
        message = self._quoted(str(message))
        is_page = _is_web_page(error.response.text)
        if is_page:
            message = "with a web page"
        problem = f"the server answered {status} ({message})"
        variable = self.endpoint.key_variable
        if status == 401:
            state = "is not accepted" if self._key != _NO_KEY else "is not set"
            quoted = "" if self._shows_key(message) else f" ({message})"
            problem = f"the server answered 401{quoted}: " + (
                f"the key in {variable} {state}"
                if variable
                else "it requires a key; name the environment variable that holds it"
            )
        elif status == 403:
            key = f"the key in {variable}" if variable else "without a key, you"
            problem += f": {key} may not use {model}"
        elif status == 404:
            problem += f": it has no model {model}, or {_WRONG_URL}"
        elif status in (405, 501) or (is_page and status < 500):
            problem += f": {_WRONG_URL}"
        elif status < 500 and status not in (408, 409, 429):
            return UnansweredError(problem)  # the request would be refused again
        else:
            return _TransientError(problem, _seconds(error.response.headers.get("retry-after")))
        return InputError(f"{self.endpoint.shown}: {problem}")

    def _shows_key(self, message: str) -> bool:
        """Return whether a server's message holds a part of the key, as it often does."""
        parts = {self._key[start : start + 4] for start in range(max(1, len(self._key) - 3))}
        return self._key != _NO_KEY and any(part in message for part in ("…", *parts))

    def _quoted(self, text: str) -> str:
        """Return a message of a server or a library on one line, without the key, not too long."""
        text = " ".join(text.split())
        # A terminal would obey escape sequences.
        text = "".join(
            letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
        )
        if self._key != _NO_KEY:
            text = text.replace(self._key, "…")
        return text if len(text) <= 200 else text[:200] + "…"


@contextlib.asynccontextmanager
async def connect(
    endpoint: Endpoint,
    journal: Path | None,
    settings: Mapping[str, Any],
    again: Callable[[ModelReply], bool] = lambda reply: False,
) -> AsyncIterator[Connection]:
    """Open a connection to an endpoint, within one event loop.

    A journal that holds no reply in the end is removed.

    Args:
        endpoint: The endpoint.
        journal: File of replies, to resume from and to append to; None keeps them in memory.
        settings: What the requests depend on, as JSON values. A journal of others is refused.
        again: Tells which replies of the journal are not used, so that their requests are sent
            again; it does not end a run if all of these fail again. Requests without a reply are
            kept in the journal, too, if it says so of an empty reply with their problem.

    Raises:
        InputError: The journal or the key cannot be used, or there is no `openai` package.
    """
    require_client()
    import openai

    key = _key(endpoint.key_variable)
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
            connection = Connection(endpoint, client, key, kept, again)
            try:
                yield connection
            finally:
                if journal and not connection.has_replies:
                    journal.unlink(missing_ok=True)


def check_connectable(endpoint: Endpoint) -> None:
    """Check what `connect` needs besides a server, and send nothing.

    Raises:
        InputError: The key cannot be used, or there is no `openai` package.
    """
    require_client()
    _key(endpoint.key_variable)


def _decode_reply(record: Mapping[str, Any]) -> tuple[str, ModelReply]:
    """Return the key of a request and the reply from a line of the journal."""
    tokens = record["tokens"] and tuple(record["tokens"])
    return record["key"], ModelReply(record["answer"], tokens, record.get("problem", ""))


def require_client(extra: str = "author") -> None:
    """Check that requests can be sent, before anything else is done.

    Args:
        extra: The extra of this package that the command needs, for the message.

    Raises:
        InputError: There is no `openai` package.
    """
    try:
        import openai  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"requests to a model need the openai package ({error.msg.splitlines()[0]}): "
            f"pip install 'pragworld[{extra}]'"
        ) from error


def _key(variable: str | None) -> str:
    key = os.environ.get(variable, "").strip() if variable else ""
    if not (key.isascii() and key.isprintable()):  # else a library's message would show it
        raise InputError(f"{variable}: holds line breaks or letters that no key has; set it again")
    return key or _NO_KEY


def _pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds before the next try: one, two, four, or what the server asks for."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.pause if isinstance(error, _TransientError) else 0.0
    return max(_BACKOFF(state), min(asked, LONGEST_PAUSE))


def _refuses_temperature(error: "APIStatusError") -> bool:
    return error.status_code == 400 and getattr(error, "param", None) == "temperature"


def _refuses_format(error: "APIStatusError") -> bool:
    """Return whether a server does not know a `response_format`; each words that its own way."""
    names = ("response_format", "json_schema", "json_object")
    return error.status_code in (400, 422) and any(name in error.response.text for name in names)


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


def _is_web_page(text: str) -> bool:
    return bool(re.match(r"\s*<(!doctype|html|\?xml)", text, re.IGNORECASE))


def _seconds(retry_after: str | None) -> float:
    """Return the seconds of a Retry-After header; 0 if there is none, or a date."""
    try:
        return max(0.0, float(retry_after or 0))
    except ValueError:
        return 0.0
