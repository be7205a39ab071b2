"""A model behind an API whose answers have known components.

To a question about the duration of a commute it answers 60 minutes, 15 less or more depending on
the slot's value (purpose), plus a number that depends on the wording (articulation), plus chance,
in sentences as models write them; some have no number. An answer depends on the prompt and on the
number of equal requests before it only, so the answers to a prompt are the same in whatever order
requests come in. Like servers that heed a seed, it repeats itself if it is sent one.

As a script, it prints its address once it listens.
"""

import random
import re
import threading
from collections import Counter

from servers import Body, ChatServer

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


def answer(prompt: str, times_before: int, readable: float) -> str:
    slot = next(slot for slot in SLOTS if re.search(rf"\b{slot}\b", prompt))
    wording = random.Random(re.sub(rf"\b{slot}\b", "", prompt) + "3")
    effect = wording.gauss(0, ARTICULATION)
    chance = random.Random(f"{prompt} {times_before}")
    value = 60 + PURPOSE * (SLOTS.index(slot) - 1) + effect + chance.gauss(0, CHANCE)
    return chance.choice(_SENTENCES).format(value) if chance.random() < readable else _NOTHING


def answer_server(readable: float = 0.95) -> ChatServer:
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    def reply(body: Body) -> str:
        prompt = body["messages"][-1]["content"]
        with lock:
            times_before = asked[prompt] if body.get("seed") is None else 0
            asked[prompt] += 1
        return answer(prompt, times_before, readable)

    return ChatServer(reply)


if __name__ == "__main__":
    answer_server(readable=0.99).run()
