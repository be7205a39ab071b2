"""Tests that the alterations of plain text never break what stands around an altered word.

Each case is of a kind that an audit of altered conversations found broken; see examples.jsonl, too.
"""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from altered_texts import apply, outcomes
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.text_alterations import exchanges
from pragworld_tasks.text_alterations.alter import alter
from pragworld_tasks.text_alterations.entities import Entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.swap import variable_substitution, variable_swap

WOMEN, MEN = ("Mia", "Emma", "Chloe"), ("Noah", "Hunter", "Ethan")
PRONOUN = {**dict.fromkeys(WOMEN, "she"), **dict.fromkeys(MEN, "he")}
NOUNS = tomllib.loads((Path(exchanges.__file__).parent / "nouns.toml").read_text("utf-8"))
PAIRS = st.lists(st.sampled_from([*WOMEN, *MEN]), min_size=2, max_size=5, unique=True)


@given(PAIRS, st.integers(0, 100))
def test_a_name_keeps_the_gender_of_its_pronoun(names: list[str], seed: int) -> None:
    lines = [f"A: where did {name} go\nB: {PRONOUN[name]} went there" for name in names]
    for algorithm in (variable_swap, variable_substitution):
        altered = apply(algorithm, "\n".join(lines), Entities(tuple(names), (), ()), seed)
        for replacement in altered.replacements if altered else ():
            if replacement.new in PRONOUN:
                assert PRONOUN[replacement.new] == PRONOUN[replacement.old]
            else:  # a name from the file
                gender = "female" if PRONOUN[replacement.old] == "she" else "male"
                assert replacement.new in NOUNS["replacements"][gender].split()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Where is Tom?\nB: He is in the den.\nA: Where is your friend Bill?\nB: He is in the hall.", {"agents": ["Tom", "Bill"]}),
        ("Is Tom in the den?\nB: Yes.\nA: I see.\nB: Who is with him?\nA: Ann.\nB: What about Bill?", {"agents": ["Tom", "Bill"]}),
        ("Hi, Tom, you look well.\nB: So does Bill.", {"agents": ["Tom", "Bill"]}),
        ("Were you born in Boston?\nB: No. I was born in Chicago.", {"locations": ["Boston", "Chicago"]}),
        ("You have a headache now?\nB: No, but I have a toothache.", {"objects": ["headache", "toothache"]}),
        ("You should eat apples\nand grapes.\nB: Pears?", {"objects": ["apples", "grapes"]}),
    ],
)  # fmt: skip
def test_a_substitution_contradicts_nothing_that_is_said_of_the_other(
    text: str, names: dict[str, Any]
) -> None:
    words = [name for kind in names.values() for name in kind]
    for altered in outcomes(variable_substitution, f"A: {text}", **names):
        assert sum(word in altered for word in words) == 1
        assert all(altered.count(word) <= text.count(word) for word in words)


def test_a_place_that_is_only_there_is_not_searched_for_in_every_line_before() -> None:
    text = "A: Where are they?" + "\nA: I put the chairs there and saw the lamps there." * 40
    lists = {"objects": ["chairs", "lamps"]}
    assert not outcomes(variable_substitution, text, seeds=2, **lists)  # would take years


def test_one_seed_says_different_things_in_different_conversations() -> None:
    clauses = set()
    for name in ("Mia", "Noah", "Owen", "Emma", "Lily", "Jack", "Ava", "Ethan", "Chloe", "Lucas"):
        lists = {"agents": [name], "objects": ["figs"], "locations": []}
        text = f"A: where is {name}\nB: the figs are here"
        altered = alter(text, lists, "Injecting Inconsistent Data")
        clauses.add(altered.replacements[0].new)
    assert len(clauses) >= 6


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("Is the book on the table?\nB: No, the book isn't there. It is late now.", True),
        ("I don't have the book. It is late now.", True),
        ("I don't have a book. It is late now.", True),
        ("Where is the book?\nB: The book is not there. It is late now.", True),
        ("Do you have a book?\nB: No, but I have a lot of time.", True),
        ("Is there a book?\nB: No.\nA: Then we can leave now.", True),
        ("Is the book here?\nB: I don't know.\nA: Then we can leave now.", False),
        ("Is the book here?\nB: No, it is in the hall today.", False),
        ("The book isn't here.\nB: I saw the book in the hall.", False),
    ],
)
def test_nothing_is_said_of_what_is_denied(text: str, is_denied: bool) -> None:
    altered = outcomes(inconsistent_data, f"A: {text}", objects=["book"])
    assert altered
    said = [
        result
        for result in altered
        if "book, which" in result
        or "book that" in result
        or result.lower().count("book") > text.lower().count("book")
    ]
    assert bool(said) is not is_denied
