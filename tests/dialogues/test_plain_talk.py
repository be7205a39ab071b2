"""The conversations whose truth the tests of authoring rely on mean what all possible worlds say."""

import random
from collections import Counter
from functools import cache
from typing import get_args

import plain_talk
import pytest
from plain_talk import Truth, Who
from possible_worlds import PossibleWorlds

from pragworld_tasks.authoring.records import QuestionType
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.dialogues.questions import evaluate
from pragworld_tasks.dialogues.vocabulary import Names
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter

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


@pytest.mark.parametrize("kind", get_args(QuestionType))
def test_truth_is_what_holds_in_all_possible_worlds(kind: QuestionType) -> None:
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


def test_conversations_are_long_and_establish_their_triplets() -> None:
    for seed in range(CONVERSATIONS):
        context, triplets, _ = written(seed)
        lines = context.split("\n")
        assert [line.partition(": ")[0] for line in lines] == ["Ann", "Ben"] * EXCHANGES
        assert {*triplets} <= plain_talk.meaning(context).acts.keys()


def test_altered_conversations_often_mean_something_else() -> None:
    effects = {alteration: Counter[str]() for alteration in ALTERATIONS}
    for seed in range(CONVERSATIONS // 2):
        context, _, named = written(seed)
        lists = dict(zip(("agents", "objects", "locations"), named, strict=True))
        for alteration in ALTERATIONS:
            try:
                altered = alter(context, lists, alteration, seed)
            except InputError:
                continue
            same = plain_talk.meaning(altered.text) == plain_talk.meaning(context)
            effects[alteration]["same" if same else "another"] += 1
    for alteration, counts in effects.items():
        if "Connective" not in alteration:  # few conversations here have an "and"
            assert counts["another"] >= 2, (alteration, counts)


def test_a_question_in_other_words_has_no_known_truth() -> None:
    with pytest.raises(ValueError, match="plain style: Who is there"):
        plain_talk.truth("Ann: Hello.", "Who is there?")
