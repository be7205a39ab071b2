"""A small HTTP server for tests, and one that is asked as OpenAI's servers are for chat completions."""

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Body = dict[str, Any]


class JsonHandler(BaseHTTPRequestHandler):
    """A connection over which JSON is exchanged."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.post(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def post(self, body: Body) -> None:
        """Reply to the JSON of a POST request; subclasses do."""
        raise NotImplementedError

    def complete(self, text: str, tokens: int) -> None:
        """Send a chat completion of a prompt of so many tokens."""
        usage = {"prompt_tokens": tokens, "completion_tokens": len(text.split())}
        message = {"role": "assistant", "content": text}
        self.reply(
            200,
            {
                "id": "completion",
                "object": "chat.completion",
                "created": 0,
                "model": "played",
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {**usage, "total_tokens": sum(usage.values())},
            },
        )

    def reply(self, status: int, content: Any, **headers: str) -> None:
        self.send(status, json.dumps(content).encode(), "application/json", **headers)

    def send(self, status: int, content: bytes, kind: str, **headers: str) -> None:
        """Send a response, unless the client has gone. Names of headers have `_` for `-`."""
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Print nothing on the terminal."""


class ChatServer(ThreadingHTTPServer):
    """A server on a free port of this machine, whose model is a function, and which fails on demand.

    Attributes:
        bodies: The requests, in the order in which they came in.
        times: When they came in.
        keys: Their keys.
    """

    daemon_threads = True
    request_queue_size = 128
    retry_after = "1"  # seconds

    def __init__(
        self,
        model: Callable[[Body], str | Body],
        failures: Mapping[int, str] | None = None,
        refuses: Callable[[Body], Body | None] = lambda body: None,
        key: str = "",
    ) -> None:
        """Prepare a server; `running` runs it.

        Args:
            model: Returns the text of a reply, or a whole completion.
            failures: How requests fail, by their number: `hang`, `drop`, `web page` or a status.
            refuses: Returns what is wrong with a request, for status 400.
            key: The only one that may ask, if any.
        """
        super().__init__(("127.0.0.1", 0), _ChatHandler)
        self.model, self.failures, self.refuses, self.key = model, failures or {}, refuses, key
        self.numbers = itertools.count()
        self.bodies: list[Body] = []
        self.times: list[float] = []
        self.keys: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def failure(self, body: Body) -> str:
        """Return how the next request fails, as in `failures`; empty if it does not."""
        return self.failures.get(next(self.numbers), "")

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            self.server_close()

    def run(self) -> None:
        """Print the base URL and serve until the process is killed."""
        print(self.url, flush=True)
        self.serve_forever()

    def handle_error(self, *_: Any) -> None:
        """Print nothing when a killed client leaves a connection."""


class _ChatHandler(JsonHandler):
    server: ChatServer

    def post(self, body: Body) -> None:
        """Reply as the server's model, or fail."""
        server = self.server
        failure = server.failure(body)
        server.bodies.append(body)
        server.times.append(time.monotonic())
        server.keys.append(key := self.headers.get("Authorization", "").removeprefix("Bearer "))
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
            self.reply(int(failure), {"error": {"message": "Oops"}}, Retry_After=server.retry_after)
        elif isinstance(reply := server.model(body), str):
            self.complete(reply, len(body["messages"][-1]["content"].split()))
        else:
            self.reply(200, reply)
