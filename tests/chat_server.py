"""An OpenAI-compatible server for tests, and a model that plays translator, judge and extractor."""

import contextlib
import itertools
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
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


class ChatServer(LocalServer):
    """A server in this process, whose model is a function, and which fails as it is told to.

    Attributes:
        bodies: The requests, in the order in which they came in.
        times: When they came in.
        keys: Their keys.
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

    @property
    def url(self) -> str:
        """The base URL."""
        return f"http://127.0.0.1:{self.server_port}/v1"

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


def play(body: Body) -> str:
    """Reply as a model; it depends on the words of the request alone.

    Translations through Swahili lose the slot, through Finnish add a number, and through Vietnamese
    a line break. The judge rejects those through Hebrew, and babbles about those through Hindi.
    """
    system, user = (message["content"] for message in body["messages"])
    if match := re.match(r"You are a professional translator\. .* to (\w+)\.", system):
        return json.dumps({"translation": _translate(user, match[1])}, ensure_ascii=False)
    if system.startswith("You compare two prompts"):
        second = user.partition("Second prompt:")[2]
        if OPENINGS["Hindi"] in second or CLOSINGS["Hindi"] in second:
            return "As an AI, I love prompts."
        is_same = OPENINGS["Hebrew"] not in second and CLOSINGS["Hebrew"] not in second
        return json.dumps({"same_request": is_same})
    return str(user).rpartition("=> ")[2]  # as an extractor


def _translate(text: str, language: str) -> str:
    """Translate a text; one that is not English carries the languages of its chain."""
    header = re.search(r"\[([\w ]+)\] ", text)
    languages = [*(header[1].split() if header else ()), language]
    base = text.replace(header[0], "") if header else text
    if language != "English":
        return f"[{' '.join(languages)}] {base}"
    first, second, _ = languages
    if "Swahili" in languages:
        base = re.sub(r"\{\w+\}", "somewhere", base)
    if "Finnish" in languages:
        base += " I have 777 euros."
    if "Vietnamese" in languages:
        base += "\nIs that clear?"
    words = {"Russian": "German"}  # both add the same
    return f"{OPENINGS[words.get(first, first)]} {base} {CLOSINGS[words.get(second, second)]}"
