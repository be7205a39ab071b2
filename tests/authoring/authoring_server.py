"""An OpenAI-compatible server that plays the models of an authoring run, of which truth is known.

    PYTHONPATH=tests python tests/authoring/authoring_server.py --wrong 0.1 --malformed 0.05

It prints its address once it listens. It finds out what is asked by the wording of our prompts. What
is true of a document is drawn from its texts alone, so it is known after every alteration. A reply
depends on the request and on how many equal ones were answered before it, so samples differ, and
the order in which different requests come in does not matter.
"""

import argparse
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any

from servers import Body, ChatServer

from pragworld_tasks.authoring.records import read_prompts

KINDS = ("agents", "objects", "locations")
NAMES = (
    ("Noah", "Mia", "Owen", "Zoe", "Liam", "Emma", "Lucas", "Nora", "Paul", "Clara", "Hugo"),
    ("plums", "pears", "lamps", "cups", "books", "keys", "shoes", "plates", "coats", "chairs"),
    ("attic", "hall", "kitchen", "cellar", "garden", "garage", "pantry", "library", "shed"),
)
# None of them is in the lists above.
INVENTED = (("Zebulon", "Xanthippe"), ("zithers", "astrolabes"), ("planetarium", "catacombs"))
NUMBERS = ("two", "three", "four", "five", "six")
TALK = """
about after again almost always away back before better early enough ever far fast first gladly
hardly here high indeed just late later long maybe more much near never now often once only
perhaps quickly quite rarely rather really seldom simply slowly so sometimes soon still then there
today together tomorrow tonight too twice usually very well yesterday yet
"""
# Shares of labels that are wrong, and of replies that are not the JSON that was asked for or have an
# entity or a quotation that does not occur.
SHARES = ("wrong", "malformed", "invented")


def truth(context: str, question: str) -> str:
    """Return the answer that is true of a document: of two in five, yes."""
    drawn = random.Random(f"{context} {question}").choice("yynnu")
    return {"y": "yes", "n": "no", "u": "undetermined"}[drawn]


def write_seed(speakers: tuple[str, str], draw: random.Random) -> str:
    lines = [
        line
        for agent, things, place in zip(*(draw.sample(names, 6) for names in NAMES), strict=True)
        for line in (f"Did you see {agent} with the {things}?", f"Yes, near the {place}.")
    ]
    return "\n".join(f"{speakers[number % 2]}: {line}" for number, line in enumerate(lines))


def _named(text: str) -> list[list[str]]:
    words = set(re.findall(r"\w+", re.sub(r"^[^:\n]+: ", "", text, flags=re.MULTILINE)))
    return [[name for name in names if name in words] for names in NAMES]


class PlayedModel:
    """What a model replies to each prompt, with some shares of faults."""

    def __init__(self, shares: Mapping[str, float], draw: random.Random) -> None:
        self.draw = draw
        self.fails = {name: draw.random() < share for name, share in shares.items()}

    def reply(self, name: str, slots: Mapping[str, str]) -> str:
        play = getattr(self, name if name == "entities_new" else name.partition("_")[0])
        text = json.dumps(play(slots))
        if self.fails["malformed"]:
            return self.draw.choice((text[: len(text) * 2 // 3], "I cannot do that."))
        return self.draw.choice(("{}", "```json\n{}\n```", "Here: {}")).replace("{}", text)

    def entities(self, slots: Mapping[str, str]) -> dict[str, Any]:
        lists = dict(zip(KINDS, _named(slots["conversation"]), strict=True))
        if self.fails["invented"]:
            kind = self.draw.randrange(len(KINDS))
            lists[KINDS[kind]].append(INVENTED[kind][0])
        return lists

    def entities_new(self, slots: Mapping[str, str]) -> dict[str, Any]:
        return {kind: self.draw.sample(names, 2) for kind, names in zip(KINDS, NAMES, strict=True)}

    def conversation(self, slots: Mapping[str, str]) -> dict[str, Any]:
        draw, turns = self.draw, int(slots["turns"])
        triplets = [slots[f"triplet_{number}"].split(", ") for number in (1, 2)]
        first, second = re.split(" and ", slots["speakers"])
        pairs = []
        for (agent, things, place), (other, *_) in (triplets, triplets[::-1]):
            told = f"{agent} left {draw.choice(NUMBERS)} of the {things} in the {place}."
            pairs.append((f"Where are the {things}?", told))
            amount = draw.choice(("All", "Some"))
            amounts = (
                f"Is any of the {things} gone?",
                f"{amount} of the {things} are in the {place}.",
            )
            did = f"Did {other} leave the {things} in the {place}?", f"No, {other} did not."
            pairs.append(draw.choice((amounts, did)))
        while len(pairs) < turns // 2:
            ask, told = (" ".join(draw.sample(TALK.split(), 7)) for _ in range(2))
            pairs.insert(draw.randrange(len(pairs)), (f"I came {ask}.", f"We sat {told}."))
        texts = [text for pair in pairs for text in pair]
        if self.fails["invented"]:
            texts[-1] += f" But {draw.choice(INVENTED[0])} may know more about it."
        said = [{"speaker": (first, second)[n % 2], "text": text} for n, text in enumerate(texts)]
        named = [list(names) for names in zip(*triplets, strict=True)]
        return {"turns": said, **dict(zip(KINDS, named, strict=True))}

    def alteration(self, slots: Mapping[str, str]) -> dict[str, Any]:
        return {"edits": []}  # nothing that the rules leave over

    def question(self, slots: Mapping[str, str]) -> dict[str, Any]:
        agents, things, places = (
            INVENTED if self.fails["invented"] else _named(slots["conversation"])
        )
        agent, thing, place = (self.draw.choice(names) for names in (agents, things, places))
        return {"question": f"Does {agent} know that the {thing} were never in the {place}?"}

    def label(self, slots: Mapping[str, str]) -> dict[str, Any]:
        answer = truth(slots["conversation"], slots["question"])
        if self.fails["wrong"]:
            answer = "no" if answer == "yes" else "yes"
        quote = self.draw.choice(slots["conversation"].split("\n"))
        if self.fails["invented"]:
            quote = f"{self.draw.choice(INVENTED[0])} said so."
        return {"answer": answer, "quote": quote}


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for the user's message of each prompt, with a group for each slot."""
    patterns = []
    for name, prompt in read_prompts().items():
        seen: set[str] = set()
        pattern = ""
        for text, slot, *_ in Formatter().parse(prompt.user):
            pattern += re.escape(text)
            if slot:
                pattern += f"(?P={slot})" if slot in seen else f"(?P<{slot}>.*?)"
                seen.add(slot)
        patterns.append((name, re.compile(pattern, re.DOTALL)))
    return patterns


def read_prompt(user: str) -> tuple[str, Mapping[str, str]]:
    matches = ((name, pattern.fullmatch(user)) for name, pattern in _patterns())
    return next((name, match.groupdict()) for name, match in matches if match)


class Server(ChatServer):
    """The server, and how often each request was answered."""

    retry_after = "0.05"

    def __init__(self, failures: Mapping[int, str] | None = None, **shares: float) -> None:
        super().__init__(self.play, failures)
        self.shares = {**dict.fromkeys(SHARES, 0.0), **shares}
        self.answered: Counter[str] = Counter()
        self._lock = threading.Lock()

    def play(self, body: Body) -> str:
        user = body["messages"][-1]["content"]
        content = hashlib.sha256(f"{body['model']} {user}".encode()).hexdigest()
        with self._lock:
            number = self.answered[content]
            self.answered[content] += 1
        model = PlayedModel(self.shares, random.Random(f"{content} draw {number}"))
        return model.reply(*read_prompt(user))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in SHARES:
        parser.add_argument(f"--{name}", type=float, default=0.0)
    Server(**vars(parser.parse_args())).run()


if __name__ == "__main__":
    main()
