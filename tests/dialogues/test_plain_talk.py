"""The conversations whose truth the tests of authoring rely on mean what all possible worlds say."""

import random
from collections import Counter
from functools import cache

import plain_talk
import pytest
from plain_talk import Truth, Who
from possible_worlds import PossibleWorlds

from pragworld_tasks.authoring.question_templates import TEMPLATES
from pragworld_tasks.dialogues.questions import evaluate
from pragworld_tasks.dialogues.vocabulary import Names

CONVERSATIONS = 20
EXCHANGES = 8


@cache
def written(seed: int) -> tuple[str, tuple[Who, Who], Names]:
    """Return a conversation, its triplets and its names."""
    draw = random.Random(seed)
    named = Names(*(tuple(draw.sample(slot, 2)) for slot in plain_talk.all_names()))
    first, second = zip(*named, strict=True)
    turns = plain_talk.write((first, second), EXCHANGES, ("Ann", "Ben"), draw)
    context = "\n".join(f"{speaker}: {text}" for speaker, text in turns)
    return context, (first, second), named


@pytest.mark.parametrize("kind", [*TEMPLATES, "other"])
def test_truth_is_what_holds_in_all_possible_worlds(kind: str) -> None:
    found: Counter[Truth] = Counter()
    for seed in range(CONVERSATIONS):
        context, _, named = written(seed)
        worlds = PossibleWorlds(list(plain_talk.read(context)))
        assert worlds
        for wanted in ("yes", "no"):
            text = plain_talk.ask(context, kind, wanted, named, random.Random(seed))
            question = plain_talk.read_question(text or "")
            if text is None or question is None:
                continue
            truth = plain_talk.truth(context, text)
            assert (truth == "yes") == (wanted == "yes")
            found[truth] += 1
            if evaluate(question, plain_talk.meaning(context)) is not None:
                bases = {"entailed": "yes", "excluded": "no", "undetermined": "undetermined"}
                assert bases[worlds.basis(question)] == truth, (context, text)
    assert found["yes"] >= CONVERSATIONS // 2
    assert found["no"] + found["undetermined"] >= CONVERSATIONS // 2
