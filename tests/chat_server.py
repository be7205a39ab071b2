"""An OpenAI-compatible server that plays translator, judge, survey participant and extractor.

    python tests/chat_server.py --log requests.jsonl --schedule 0:429,3:hang --quirks

It prints its address once it listens. A reply depends on the words of the request only (to a survey
participant, on how many there were before), so equal requests have equal replies in whatever order.
A schedule names requests, by the order in which they come in, and how they fail.

With --quirks, some languages are translated badly: Swahili loses the slot, Finnish adds a number,
Vietnamese a line break. The judge rejects translations through Hebrew, and babbles about those
through Hindi. With --wrapped, the model puts something around what it translates or writes as a
participant: mostly one of `WRAPPINGS`, in some replies in English one of `INSEPARABLE`.
"""

import argparse
import contextlib
import itertools
import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from servers import JsonHandler, LocalServer

Body = dict[str, Any]

# What the first and the second language of a chain add.
OPENINGS = {
    "Chinese": "Please tell me:",
    "Japanese": "Excuse the question:",
    "Arabic": "Peace upon you, my friend:",
    "Turkish": "One thing I wonder about:",
    "Finnish": "Well:",
    "Korean": "With respect:",
    "Polish": "Good day:",
    "German": "A precise question:",
    "Russian": "So:",
    "Indonesian": "May I ask:",
    "Vietnamese": "Dear assistant:",
    "Hindi": "Kindly do the needful:",
    "Swahili": "Hello there:",
    "Spanish": "Hey, listen:",
    "Hebrew": "Say:",
}
CLOSINGS = {
    "Chinese": "Thanks a lot.",
    "Japanese": "I would be most obliged.",
    "Arabic": "May your day be bright.",
    "Turkish": "What would you say?",
    "Finnish": "That is all.",
    "Korean": "I bow and wait.",
    "Polish": "Cheers, mate.",
    "German": "Answer exactly.",
    "Russian": "Yes?",
    "Indonesian": "Take it easy.",
    "Vietnamese": "Many kind regards.",
    "Hindi": "Revert soon.",
    "Swahili": "No hurry, no worry.",
    "Spanish": "What do you think, friend?",
    "Hebrew": "Nu?",
}
# What models put around a text, from which it can be told.
WRAPPINGS = (
    "Here is the translation: {}",
    "Here is the translation:\n\n{}",
    "Sure! Here's the translated text:\n{}",
    "Certainly!\n\n{}",
    "Sure, here you go: {}",
    "Translation: {}",
    "**Translation (Spanish):** {}",
    "### Translation\n\n{}",
    "In English: {}",
    "Korean: {}",
    "Aqu\u00ed est\u00e1 la traducci\u00f3n: {}",
    "\u7ffb\u8bd1\uff1a{}",
    "Here is a question that you could ask: {}",
    "**{}**",
    "__{}__",
    "*{}*",
    "`{}`",
    '"{}"',
    "'{}'",
    "\u201c{}\u201d",
    "\u300c{}\u300d",
    "> {}",
    "```\n{}\n```",
    "```text\n{}\n```\n\nLet me know if you need another version!",
    "<translation>{}</translation>",
    'Of course. Here is the translation:\n\n**"{}"**',
    "{}\n\n(Note: I kept the placeholder {{city}} as it is.)",
    "{}\n\nNote: this is a literal translation.",
    "{} (translated from Polish)",
    "Here is the translation:\n\n```\n{}\n```\n\n---\n\nI hope this helps!",
)
# The same, where it cannot.
INSEPARABLE = (
    "Option one: {0}\n\nOption two: {0}",
    "{}\n\nMore literally, there is another way to say it.",
    "This was easy.\n{}",
    "I translated it as **{}** for you.",
    "Well, **now** {}",
    'I would write "{}"',
    "Now `then`: {}",
    "{} That was my paraphrase.",
)
# After which the client tries again; besides them there is `cut-off`, after which it does not.
FAILURES = ("400", "429", "500", "hang", "drop", "malformed", "not-json", "empty", "silent")


def translate(text: str, language: str, quirks: bool) -> str:
    """Translate a text; one that is not English carries the languages of its chain."""
    header = re.search(r"\[([\w ]+)\] ", text)
    languages = [*(header[1].split() if header else ()), language]
    base = text.replace(header[0], "") if header else text
    if language != "English":
        return f"[{' '.join(languages)}] {base}"
    first, second, _ = languages
    if quirks and "Swahili" in languages:
        base = re.sub(r"\{\w+\}", "somewhere", base)
    if quirks and "Finnish" in languages:
        base += " I have 777 euros."
    if quirks and "Vietnamese" in languages:
        base += "\nIs that clear?"
    words = {"Russian": "German"}  # both add the same
    opening = OPENINGS[words.get(first, first)]
    said = f"{opening} {base} {CLOSINGS[words.get(second, second)]}"
    return f'"{said}"' if "Polish" in languages else said  # models like to quote


def wrap(text: str) -> str:
    """Put something around a text, always the same around the same text."""
    wrappings = INSEPARABLE if is_inseparable(text) else WRAPPINGS
    return wrappings[zlib.crc32(text.encode()) // 5 % len(wrappings)].format(text)


def is_inseparable(text: str) -> bool:
    """Return whether `wrap` puts something around a text that cannot be told from it."""
    return not text.startswith("[") and zlib.crc32(text.encode()) % 5 == 0


def judge(question: str, quirks: bool) -> str:
    """Judge whether two prompts make the same request."""
    second = question.partition("Second prompt:")[2]
    through = {
        language
        for language in OPENINGS
        if OPENINGS[language] in second or CLOSINGS[language] in second
    }
    if quirks and "Hebrew" in through:
        return "No, they do not."
    if quirks and "Hindi" in through:
        return "As an AI, I love prompts."
    return "Yes."


class ChatServer(LocalServer):
    """A server in this process, whose model is a function, and which fails as it is told to.

    Attributes:
        bodies: The requests, in the order in which they came in.
        times: When they came in.
        keys: Their keys.
        path: A part of the URL that does not belong there.
    """

    def __init__(
        self,
        reply: Callable[[Body], str | Body],
        failures: Mapping[int, str] | None = None,
        refuses: Callable[[Body], Body | None] = lambda body: None,
        key: str = "",
    ) -> None:
        """Prepare a server; `running` runs it.

        Args:
            reply: Returns the text, or a whole completion.
            failures: How requests fail, by their number: `FAILURES` or another status.
            refuses: Returns what is wrong with a request, for status 400.
            key: The only one that may ask, if any.
        """
        super().__init__(ChatHandler)
        self.model, self.failures, self.refuses, self.key = reply, failures or {}, refuses, key
        self.numbers = itertools.count()
        self.bodies: list[Body] = []
        self.times: list[float] = []
        self.keys: list[str] = []
        self.path = ""

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1{self.path}"

    @contextlib.contextmanager
    def running(self) -> Iterator["ChatServer"]:
        """Run it in a thread."""
        thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()


class ChatHandler(JsonHandler):
    """A connection to a `ChatServer`."""

    server: ChatServer

    def post(self, body: Body) -> None:
        """Reply as the server's model, or fail."""
        server = self.server
        failure = server.failures.get(next(server.numbers), "")
        server.bodies.append(body)
        server.times.append(time.monotonic())
        server.keys.append(key := self.headers["Authorization"].removeprefix("Bearer "))
        if server.key and key != server.key:
            self.reply(401, {"error": {"message": f"Incorrect API key provided: {key}."}})
        elif self.path != "/v1/chat/completions":
            self.send(404, b"<!DOCTYPE html><p>Not here</p>", "text/html")
        elif refusal := server.refuses(body):
            self.reply(400, refusal)
        elif failure == "hang":
            time.sleep(2)
            self.close_connection = True
        elif failure == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif failure == "web page":
            self.send(200, b"<html>Gateway</html>", "text/html")
        elif failure:
            self.reply(int(failure), {"error": {"message": "Oops"}}, Retry_After="1")
        else:
            reply = server.model(body)
            if isinstance(reply, str):
                self.complete(reply, 5)
            else:
                self.reply(200, reply)


class Server(LocalServer):
    """The server and its log."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(Handler)
        self.options = options
        self.schedule = {
            int(number): failure
            for number, failure in (one.split(":") for one in options.schedule.split(",") if one)
        }
        self.numbers = itertools.count()
        self.participants = itertools.count()
        self.lock = threading.Lock()
        self.log_stream = options.log.open("a", encoding="utf-8")

    def log(self, **record: Any) -> None:
        """Add a line to the log."""
        with self.lock:
            self.log_stream.write(json.dumps(record) + "\n")
            self.log_stream.flush()

    def answer(self, system: str, user: str) -> str:
        """Return the reply of the model."""
        reply = self.reply(system, user)
        asks_for_text = "Translate the user" in system or "survey participant" in system
        return wrap(reply) if self.options.wrapped and asks_for_text else reply

    def reply(self, system: str, user: str) -> str:
        """Return the reply without anything around it."""
        quirks = self.options.quirks
        if match := re.search(r"Translate the user text to (\w+)\.", system):
            return translate(user, match[1], quirks)
        if "yes or no" in system:
            return judge(user, quirks)
        if "survey participant" in system:
            number = next(self.participants) % len(OPENINGS) ** 2
            first, second = divmod(number, len(OPENINGS))
            (slot,) = set(re.findall(r"\{\w+\}", user))
            opening, closing = list(OPENINGS.values())[first], list(CLOSINGS.values())[second]
            return f"{opening} how long from {slot} to there? {closing}"
        if "extract the final numerical answer" in system:
            return user.rpartition("=> ")[2]
        return "What?"


class Handler(JsonHandler):
    """A connection."""

    server: Server

    def post(self, body: Any) -> None:
        """Reply to a request for a chat completion, or fail as scheduled."""
        number = next(self.server.numbers)
        options = self.server.options
        failure = self.server.schedule.get(number, "")
        system, user = (message["content"] for message in body["messages"])
        temperature = body.get("temperature")
        self.server.log(
            number=number,
            path=self.path,
            model=body["model"],
            temperature=temperature,
            system=system,
            user=user,
            failure=failure,
            time=time.monotonic(),
        )
        time.sleep(options.delay)
        given = self.headers["Authorization"].removeprefix("Bearer ")
        if options.key and given != options.key:
            self.reply(401, {"error": {"message": f"Incorrect API key provided: {given}."}})
        elif self.path != "/v1/chat/completions":
            self.reply(404, {"error": {"message": "Not found"}})
        elif options.forbid:
            self.reply(403, {"error": {"message": f"Key {given} may not."}})
        elif options.own_temperature and temperature not in (None, 1.0):
            error = {"message": "Unsupported value: 0.", "param": "temperature"}
            self.reply(400, {"error": error})
        elif failure:
            self.fail(failure)
        else:
            self.complete(self.server.answer(system, user), len(user.split()))
            self.server.log(answered=number)

    def fail(self, failure: str) -> None:
        """Fail in a way of `FAILURES`, or cut the reply off."""
        if failure == "429":
            self.reply(429, {"error": {"message": "Slow down"}}, Retry_After="1")
        elif failure in ("400", "500"):
            self.reply(int(failure), {"error": {"message": "Oops"}})
        elif failure == "hang":
            time.sleep(self.server.options.hang)
            self.close_connection = True
        elif failure == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif failure == "malformed":
            self.send(200, b'{"choices": [{"mess', "application/json")
        elif failure == "not-json":
            self.send(200, b"<html>Gateway</html>", "text/html")
        elif failure == "empty":
            self.reply(200, {"choices": [], "object": "chat.completion"})
        elif failure == "cut-off":
            self.complete("The", 5, finish_reason="length")
        else:
            self.complete("", 5)


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument(
        "--schedule", default="", help=f"as 0:429,3:cut-off; also {', '.join(FAILURES)}"
    )
    parser.add_argument("--quirks", action="store_true")
    parser.add_argument("--wrapped", action="store_true")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--hang", type=float, default=60.0, help="seconds of silence")
    parser.add_argument("--key", default="", help="the only one that may ask")
    parser.add_argument("--forbid", action="store_true", help="403 to all")
    parser.add_argument("--own-temperature", action="store_true", help="400 to any but 1")
    Server(parser.parse_args()).run("/v1")


if __name__ == "__main__":
    main()
