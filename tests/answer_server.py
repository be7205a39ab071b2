"""A model behind an API whose answers have known components: `python answer_server.py`.

It is asked how long a commute takes. What it answers is 60 minutes, 15 less or more by the slot's
value (purpose), a number that the wording alone decides (articulation), and chance, in sentences as
models write them; in some there is no number. All of it is settled by the prompt and by how
often that was asked before, so in whatever order requests come, the answers to a prompt are the
same. As servers do that heed a seed, it repeats itself when it is sent one.

It prints its address once it listens; GET tells how many requests there were.
"""

import argparse
import json
import random
import re
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PURPOSE, ARTICULATION, CHANCE = 15.0, 5.0, 10.0
VARIANCES = {"ps": PURPOSE**2 * 2 / 3, "as": ARTICULATION**2, "mu": CHANCE**2}
SLOTS = ("5", "20", "60")

_SENTENCES = (
    "For a drive like that you should allow about {:.1f} minutes.",
    "**Estimated commute time: {:.1f} minutes**",
    "Traffic in Boston is heavy in the morning. It will likely take you around {:.1f} minutes.",
    "Let's think step by step.\n\n1. Traffic is heavy.\n2. Parking is scarce.\n\n"
    "So your commute would take approximately **{:.1f} minutes**.",
)
_NOTHING = "That depends on the weather, the route and the time at which you leave."

_options = argparse.ArgumentParser(description=__doc__)
_options.add_argument("--readable", type=float, default=0.95, help="share of answers with a number")
_asked: Counter[str] = Counter()
_lock = threading.Lock()


def answer(prompt: str, times_before: int, readable: float) -> str:
    """What is answered to a prompt that was asked so often before."""
    slot = next(slot for slot in SLOTS if re.search(rf"\b{slot}\b", prompt))
    wording = random.Random(re.sub(rf"\b{slot}\b", "", prompt) + "2")
    effect = wording.gauss(0, ARTICULATION)
    chance = random.Random(f"{prompt} {times_before}")
    value = 60 + PURPOSE * (SLOTS.index(slot) - 1) + effect + chance.gauss(0, CHANCE)
    return chance.choice(_SENTENCES).format(value) if chance.random() < readable else _NOTHING


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    readable = 0.95

    def do_GET(self) -> None:
        self._send({"requests": _asked.total()})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = request["messages"][-1]["content"]
        with _lock:
            times_before = _asked[prompt] if request.get("seed") is None else 0
            _asked[prompt] += 1
        message = {"role": "assistant", "content": answer(prompt, times_before, self.readable)}
        self._send({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def _send(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    _Handler.readable = _options.parse_args().readable
    server = _Server(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
