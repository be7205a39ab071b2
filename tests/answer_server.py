"""A model behind an API whose answers have known components: `python answer_server.py`.

To a question about the duration of a commute it answers 60 minutes, 15 less or more depending on
the slot's value (purpose), plus a number that depends on the wording (articulation), plus chance,
in sentences as models write them; some have no number. An answer depends on the prompt and on the
number of equal requests before it only, so the answers to a prompt are the same in whatever order
requests come in. Like servers that heed a seed, it repeats itself if it is sent one.

It prints its address once it listens; GET returns the number of requests.
"""

import argparse
import random
import re
import threading
from collections import Counter
from typing import Any

from servers import JsonHandler, LocalServer

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
    """Return the answer to a prompt after some equal requests."""
    slot = next(slot for slot in SLOTS if re.search(rf"\b{slot}\b", prompt))
    wording = random.Random(re.sub(rf"\b{slot}\b", "", prompt) + "3")
    effect = wording.gauss(0, ARTICULATION)
    chance = random.Random(f"{prompt} {times_before}")
    value = 60 + PURPOSE * (SLOTS.index(slot) - 1) + effect + chance.gauss(0, CHANCE)
    return chance.choice(_SENTENCES).format(value) if chance.random() < readable else _NOTHING


class _Handler(JsonHandler):
    readable = 0.95

    def get(self) -> None:
        self.reply(200, {"requests": _asked.total()})

    def post(self, body: Any) -> None:
        prompt = body["messages"][-1]["content"]
        with _lock:
            times_before = _asked[prompt] if body.get("seed") is None else 0
            _asked[prompt] += 1
        self.complete(answer(prompt, times_before, self.readable), len(prompt.split()))


if __name__ == "__main__":
    _Handler.readable = _options.parse_args().readable
    LocalServer(_Handler).run()
