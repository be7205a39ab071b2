"""Servers for tests: scripts of this folder, and what they share."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@contextmanager
def serve(script: str, *arguments: str) -> Iterator[str]:
    """Run a script that prints its address once it listens, and yield that address."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


class LocalServer(ThreadingHTTPServer):
    """A server on a free port of this machine."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type["JsonHandler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    def run(self, path: str = "") -> None:
        """Print the address and serve until the process is killed."""
        print(f"http://127.0.0.1:{self.server_port}{path}", flush=True)
        self.serve_forever()


class JsonHandler(BaseHTTPRequestHandler):
    """A connection over which JSON is exchanged."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Reply to a GET request."""
        self.get()

    def do_POST(self) -> None:
        """Reply to a POST request."""
        self.post(self.read_body())

    def read_body(self) -> Any:
        """Return the JSON of a request; subclasses may read other formats."""
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def get(self) -> None:
        """Reply to a GET request; subclasses may."""

    def post(self, body: Any) -> None:
        """Reply to a POST request; subclasses do."""
        raise NotImplementedError

    def complete(self, text: str, tokens: int) -> None:
        """Send a chat completion."""
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
        """Send JSON."""
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
