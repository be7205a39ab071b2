"""An OpenAI-compatible server that plays the models of an authoring run, of which truth is known.

    python tests/authoring_server.py --log requests.jsonl --wrong 0.1 --malformed 0.05

It prints its address once it listens. It finds out what is asked by the wording of our prompts,
writes conversations in the style of `plain_talk`, and answers questions by what they establish. A
reply depends on the request and on how many equal ones were answered before it, so samples differ,
and the order in which different requests come in does not matter.

The log has a line for each request and one for each that was answered.
"""

import argparse
import hashlib
import json
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

import plain_talk
from servers import JsonHandler, LocalServer

from pragworld_tasks.authoring.stages import read_prompts
from pragworld_tasks.dialogues.sentences import NUMBERS
from pragworld_tasks.dialogues.vocabulary import Names

# Neither in the vocabulary of the generator nor in its small talk.
INVENTED = Names(("Zebulon", "Xanthippe"), ("zithers", "astrolabes"), ("planetarium", "catacombs"))
EDITED_TOO = "Hm, well."  # what a careless alteration puts before another line

Slots = Mapping[str, str]


class PlayedModel:
    """What a model replies, apart from failures of transport.

    Attributes:
        wrong, malformed, invented, careless: Shares of replies with such a fault.
    """

    def __init__(self, wrong: float, malformed: float, invented: float, careless: float) -> None:
        self.wrong, self.malformed = wrong, malformed
        self.invented, self.careless = invented, careless

    def reply(self, user: str, draw: random.Random) -> str:
        """Return the reply to a message."""
        name, slots = read_prompt(user)
        play: Callable[[Slots, random.Random], dict[str, Any]]
        play = next(
            play
            for start, play in {
                "entities_new": self._new_entities,
                "entities": self._entities,
                "conversation": self._conversation,
                "alteration": self._alteration,
                "question": self._question,
                "label": self._label,
            }.items()
            if name.startswith(start)
        )
        reply = play(slots, draw)
        text = json.dumps(reply)
        if draw.random() < self.malformed:
            return draw.choice((text[: len(text) * 2 // 3], f"[{text[1:-1]}]", "I cannot do that."))
        return draw.choice(("{}", "{}", "```json\n{}\n```", "Here you are: {}")).replace("{}", text)

    def _entities(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        lists = _lists(_names_in(slots["conversation"]))
        if draw.random() < self.invented:
            _invent(lists, draw)
        return lists

    def _new_entities(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        have = _names_in(slots["conversation"])
        pairs = zip(have, plain_talk.all_names(), strict=True)
        new = [
            draw.sample([name for name in known if name not in had], 2) if len(had) < 2 else []
            for had, known in pairs
        ]
        return _lists(Names(*map(tuple, new)))

    def _conversation(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        triplets = [_triplet(slots[f"triplet_{number}"]) for number in (1, 2)]
        speakers = re.split(" and |, ", slots["speakers"])
        first = slots["first"]
        (second,) = set(speakers) - {first}
        turns = plain_talk.write(triplets, int(slots["turns"]) // 2, (first, second), draw)
        lists = _lists(Names(*map(tuple, zip(*triplets, strict=True))))
        if draw.random() < self.invented:
            if draw.random() < 0.5:
                _invent(lists, draw)
            else:  # mentions somebody whom the lists do not have
                spot = draw.randrange(1, len(turns), 2)
                speaker, text = turns[spot]
                name = draw.choice(INVENTED.agents)
                turns[spot] = (speaker, f"{text} But {name} may know more about it.")
        said = [{"speaker": speaker, "text": text} for speaker, text in turns]
        return {"turns": said, **lists}

    def _alteration(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        numbered = dict(_numbered_lines(slots["conversation"]))
        lines = list(numbered.values())
        invented = draw.random() < self.invented
        new = list(_altered(lines, slots["alteration"], invented, draw))
        if draw.random() < self.careless:
            spot = draw.choice([spot for spot, line in enumerate(new) if line == lines[spot]])
            new[spot] = new[spot].replace(": ", f": {EDITED_TOO} ", 1)
        edits = [
            {"line": number, "old": old, "new": altered}
            for (number, old), altered in zip(numbered.items(), new, strict=True)
            if old != altered
        ]
        return {"edits": edits}

    def _question(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        context, kind = slots["conversation"], slots["type"]
        other = {"yes": "no", "no": "yes"}[slots["answer"]]
        questions = (
            plain_talk.ask(context, kind, answer, _names_in(context), draw)
            for answer in (slots["answer"], other)
        )
        question = next(filter(None, questions))
        if draw.random() < self.invented:
            agent, things, place = (draw.choice(slot) for slot in INVENTED)
            question = draw.choice(
                (
                    f"Did {agent} leave any {things} in the {place}?",
                    f"Does {agent} know where the {draw.choice(_names_in(context).things)} are?",
                )
            )
        return {"question": question}

    def _label(self, slots: Slots, draw: random.Random) -> dict[str, Any]:
        context, question = slots["conversation"], slots["question"]
        answer = plain_talk.truth(context, question)
        if draw.random() < self.wrong:
            answer = draw.choice(("no", "undetermined")) if answer == "yes" else "yes"
        quote = plain_talk.utterance_about(context, question)
        if draw.random() < self.invented:
            quote = f"{draw.choice(INVENTED.agents)} said so."
        elif answer == "undetermined" and draw.random() < 0.5:
            quote = ""
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


def read_prompt(user: str) -> tuple[str, Slots]:
    """Return the name of the prompt that a message is from, and what is in its slots.

    Raises:
        ValueError: It is from none of our prompts.
    """
    for name, pattern in _patterns():
        if match := pattern.fullmatch(user):
            return name, match.groupdict()
    raise ValueError(f"not one of our prompts: {user}")


def _names_in(text: str) -> Names:
    """Return the names of the vocabulary in a text, without the speakers' labels."""
    said = re.sub(r"^[^:\n]+: ", "", text, flags=re.MULTILINE)
    found = set(_any_name().findall(said))
    return Names(
        *(tuple(name for name in slot if name in found) for slot in plain_talk.all_names())
    )


@cache
def _any_name() -> re.Pattern[str]:
    """Return a pattern for names of the vocabulary; a "back office" is no "office"."""
    every = sorted((name for slot in plain_talk.all_names() for name in slot), key=len)
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, reversed(every)))})(?!\w)")


def _triplet(text: str) -> plain_talk.Who:
    """Return the agent, the things and the place of a triplet."""
    (agent,), (things,), (place,) = _names_in(text)
    return agent, things, place


def _lists(names: Names) -> dict[str, list[str]]:
    return {
        "agents": list(names.agents),
        "objects": list(names.things),
        "locations": list(names.places),
    }


def _invent(lists: dict[str, list[str]], draw: random.Random) -> None:
    """Add a name that does not occur to one of the lists."""
    kind = draw.randrange(len(INVENTED))
    list(lists.values())[kind].append(draw.choice(INVENTED[kind]))


def _numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line."""
    for line in text.split("\n"):
        number, _, said = re.split(r"(\W+)", line, maxsplit=1)
        yield int(number), said


def _altered(
    lines: list[str], alteration: str, invented: bool, draw: random.Random
) -> Iterator[str]:
    """Yield lines altered as a model does it, or as they are if there is nothing to alter."""
    statements = [spot for spot, line in enumerate(lines) if re.search(r"in the .*\.$", line)]
    named = _names_in("\n".join(lines))
    spot = draw.choice(statements) if statements else -1
    things = _names_in(lines[spot]).things
    place = draw.choice(INVENTED.places if invented else named.places)
    for number, line in enumerate(lines):
        if alteration == "Injecting Inconsistent Data" and number == spot and things:
            line += f" {plain_talk.inconsistent(things[0], place, draw)}"
        elif alteration == "Variable Substitution" and number == spot:
            line = re.sub(r"in the .*\.$", f"in the {place}.", line)
        elif alteration == "Quantity Change" and number == spot:
            others = draw.sample(NUMBERS[2:7], 2)
            line = re.sub(rf"\b({'|'.join(NUMBERS[2:7])})\b", others[0], line)
        elif alteration == "Negation" and number == spot:
            line = line.replace(" are in the", " are not in the")
        elif alteration == "Variable Swap" and len(named.agents) > 1:
            first, second = named.agents[:2]
            label, colon, said = line.partition(": ")
            parts = re.split(rf"\b({first}|{second})\b", said)
            swapped = {first: second, second: first}
            line = label + colon + "".join(swapped.get(part, part) for part in parts)
        yield line


class Server(LocalServer):
    """The server and its log.

    Attributes:
        model: What it replies.
        options: The options of the command line.
        answered: The number of answered requests by their content.
        asked: The number of requests by their content.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(Handler)
        self.options = options
        self.model = PlayedModel(
            options.wrong, options.malformed, options.invented, options.careless
        )
        self.answered: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.log_stream = options.log.open("a", encoding="utf-8")

    def log(self, **record: Any) -> None:
        """Add a line to the log."""
        self.log_stream.write(json.dumps(record) + "\n")
        self.log_stream.flush()

    def handle_error(self, *_: Any) -> None:
        """Print nothing when a killed client leaves a connection."""


class Handler(JsonHandler):
    """A connection."""

    server: Server

    def post(self, body: Any) -> None:
        """Reply to a request for a chat completion, or fail."""
        server, model = self.server, body["model"]
        _, user = (message["content"] for message in body["messages"])
        content = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        name = read_prompt(user)[0]
        with server.lock:
            attempt = server.asked[content]
            server.asked[content] += 1
            failure = self._failure(random.Random(f"{content} {attempt}").random())
            server.log(request=content, prompt=name, model=model, failure=failure)
            if not failure:
                number = server.answered[content]
                server.answered[content] += 1
        if failure == "429":
            self.reply(429, {"error": {"message": "Slow down"}}, Retry_After="0.05")
        elif failure == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        else:
            text = server.model.reply(user, random.Random(f"{content} draw {number}"))
            with server.lock:
                server.log(answered=content, number=number, text=text)
            self.complete(text, len(user.split()))

    def _failure(self, chance: float) -> str:
        options = self.server.options
        if chance < options.busy:
            return "429"
        return "drop" if chance < options.busy + options.drop else ""


def main() -> None:
    """Serve until the process is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--log", type=Path, required=True)
    shares = {
        "wrong": "labels that are wrong",
        "malformed": "replies that are not the JSON that was asked for",
        "invented": "replies with an entity, or a quotation, that does not occur",
        "careless": "alterations that change another line, too",
        "busy": "requests that are answered with 429",
        "drop": "requests whose connection breaks",
    }
    for name, what in shares.items():
        parser.add_argument(f"--{name}", type=float, default=0.0, help=f"share of {what}")
    Server(parser.parse_args()).run("/v1")


if __name__ == "__main__":
    main()
