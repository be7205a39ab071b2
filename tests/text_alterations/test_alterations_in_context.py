"""Tests that the alterations of plain text never break what stands around an altered word.

Each case is of a kind that an audit of altered conversations found broken: gender, number, articles,
mass nouns, kinship, direct address, measures, and replies that take up what was said.
"""

import json
import random
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations import exchanges
from pragworld_tasks.text_alterations.alter import alter, altered_text
from pragworld_tasks.text_alterations.entities import Conversation, Entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.inflection import ENGLISH
from pragworld_tasks.text_alterations.negation import negation
from pragworld_tasks.text_alterations.quantifiers import connective_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import variable_substitution, variable_swap
from pragworld_tasks.text_alterations.tokens import AlteredConversation

Algorithm = Callable[[Conversation, random.Random], AlteredConversation | None]
EXCHANGES: tuple[Algorithm, ...] = (variable_swap, variable_substitution)


def outcomes(algorithm: Algorithm, text: str, **lists: object) -> set[str]:
    """Return all texts that an algorithm makes of a conversation with the entities in lists."""
    entities = Entities.from_lists({"agents": [], "objects": [], "locations": [], **lists})
    conversation = Conversation(text, entities)
    conversation.check_entities()
    altered = [algorithm(conversation, random.Random(seed)) for seed in range(60)]
    return {result.text for result in altered if result}


# Agents -------------------------------------------------------------------------------------------

WOMEN, MEN = ("Mia", "Emma", "Chloe"), ("Noah", "Hunter", "Ethan")
PRONOUN = {**dict.fromkeys(WOMEN, "she"), **dict.fromkeys(MEN, "he")}
PAIRS = st.lists(st.sampled_from([*WOMEN, *MEN]), min_size=2, max_size=5, unique=True)


@given(PAIRS, st.integers(0, 100))
def test_a_name_keeps_the_gender_of_its_pronoun(names: list[str], seed: int) -> None:
    lines = [line for name in names for line in (f"A: where did {name} go", f"B: {PRONOUN[name]} went there")]  # fmt: skip
    conversation = Conversation("\n".join(lines), Entities(tuple(names), (), ()))
    for algorithm in EXCHANGES:
        altered = algorithm(conversation, random.Random(seed))
        if altered is None:
            continue
        for replacement in altered.replacements:
            if replacement.new in PRONOUN:
                assert PRONOUN[replacement.new] == PRONOUN[replacement.old]
            else:  # a name from the lists
                gender = "female" if PRONOUN[replacement.old] == "she" else "male"
                assert replacement.new in _names(gender)


def _names(gender: str) -> set[str]:
    """Return the names that stand in for an agent, read from the file itself."""
    nouns = tomllib.loads((Path(exchanges.__file__).parent / "nouns.toml").read_text("utf-8"))
    return set(nouns["replacements"][gender].split())


UNKNOWN = "A: where did Noah go\nB: he said that Avery left"


def test_a_name_of_unknown_gender_is_exchanged_only_if_the_file_tells_its_gender() -> None:
    assert not outcomes(variable_swap, UNKNOWN, agents=["Noah", "Avery"])
    told = outcomes(variable_swap, UNKNOWN, agents=["Noah", "Avery"], male=["Avery"])
    assert told == {"A: where did Avery go\nB: he said that Noah left"}
    assert not outcomes(variable_swap, UNKNOWN, agents=["Noah", "Avery"], female=["Avery"])


def test_a_name_of_unknown_gender_is_no_uncle() -> None:
    text = "A: Hi, Sam!\nB: Hi, I am an uncle now!"
    assert not outcomes(variable_substitution, text, agents=["Sam"])


def test_without_a_word_of_gender_any_names_are_exchanged() -> None:
    text = "A: did Noah leave\nB: Mia did"
    assert outcomes(variable_swap, text, agents=["Noah", "Mia"]) == {
        "A: did Mia leave\nB: Noah did"
    }


def test_who_is_spoken_to_is_replaced_by_nobody_else_in_the_conversation() -> None:
    text = "A: Hi, Tom, you look well.\nB: So does Bill."
    assert outcomes(variable_swap, text, agents=["Tom", "Bill"]) == {
        "A: Hi, Bill, you look well.\nB: So does Tom."
    }
    for altered in outcomes(variable_substitution, text, agents=["Tom", "Bill"]):
        assert ("Tom" in altered) != ("Bill" in altered)


# Objects and locations ----------------------------------------------------------------------------


def test_what_the_file_says_is_exchangeable_is() -> None:
    text = "A: I saw the gizmo.\nB: I saw the widget."
    found = outcomes(
        variable_swap, text, objects=["gizmo", "widget"], exchangeable=[["gizmo", "widget"]]
    )
    assert found == {"A: I saw the widget.\nB: I saw the gizmo."}


def test_nothing_is_inside_itself() -> None:
    text = "A: where are they\nB: there is a red closet in the den\nA: not in the closet"
    lists = {"objects": ["red closet"], "locations": ["den", "closet"]}
    assert not outcomes(variable_swap, text, **lists)
    assert not outcomes(variable_substitution, text, **lists)


def test_a_substitution_is_no_other_spelling() -> None:
    text = "A: Are you well?\nB: No, I have a stomach ache."
    for altered in outcomes(variable_substitution, text, objects=["stomach ache"]):
        assert "stomach" not in altered


def test_a_no_sets_a_reply_against_its_question() -> None:
    text = "A: Were you born in Boston?\nB: No. I was born in Chicago."
    for altered in outcomes(variable_substitution, text, locations=["Boston", "Chicago"]):
        assert altered.count("Boston") + altered.count("Chicago") == 1


def test_nothing_is_introduced_after_it_was_spoken_of() -> None:
    text = "A: Take your laptop.\nB: I lent it to Tom. But I have a tablet."
    for altered in outcomes(variable_substitution, text, objects=["laptop", "tablet"]):
        assert "your tablet" not in altered


def test_a_substitution_contradicts_no_reply() -> None:
    text = "A: You have a headache now?\nB: No, but I have a toothache."
    for altered in outcomes(variable_substitution, text, objects=["headache", "toothache"]):
        question, reply = altered.split("\n")
        assert question.split()[-2].strip("?") not in reply


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ("The chairs are in the truck. The lamps are in the van.", {}),
        ("Where are the chairs?\nB: In the truck.\nA: Where did you see the lamps?\nB: They are in the van.", {}),
        ("Where are the chairs?\nB: They are in the truck.\nA: Good.\nB: I put the lamps in the van.", {}),
        ("Are the chairs in the truck?\nB: Yes.\nA: I am glad.\nB: The lamps are in the van.", {}),
        ("Are the chairs in the van?\nB: No.\nA: I see.\nB: The lamps are in the van.", {}),
        ("All the chairs are in the truck.\nB: Some of the lamps are in the van.", {}),
        ("The chairs are white. The lamps are black.", {}),
        ("Are the chairs here?\nB: Yes.\nA: Are the lamps here?", {}),
        ("I don't want the chairs.\nB: I see.\nA: They look old. I want the lamps.", {}),
        ("Where is Tom?\nB: He is in the den.\nA: Where is your friend Bill?\nB: He is in the hall.", {"agents": ["Tom", "Bill"]}),
        ("Did you buy the chairs?\nB: Yes.\nA: And the lamps?", {}),
        ("Did you buy the chairs?\nB: No.\nA: Or the lamps?", {}),
        ("I bought the chairs last week.\nB: They are nice.\nA: Yes.\nB: What about the lamps?", {}),
        ("Is Tom in the den?\nB: Yes.\nA: I see.\nB: Who is with him?\nA: Ann.\nB: What about Bill?", {"agents": ["Tom", "Bill"]}),
        ("Are the keys in the den?\nB: No.\nA: Are they in the hall?\nB: Yes.", {"locations": ["den", "hall"]}),
    ],
)  # fmt: skip
def test_a_substitution_contradicts_nothing_that_is_said_of_the_other(
    text: str, lists: dict[str, list[str]]
) -> None:
    names = lists or {"objects": ["chairs", "lamps"]}
    words = [name for kind in names.values() for name in kind]
    for altered in outcomes(variable_substitution, f"A: {text}", **names):
        assert sum(word in altered for word in words) == 1
        assert all(altered.count(word) <= text.count(word) for word in words)


def test_a_substitution_takes_another_pair_where_one_would_contradict_itself() -> None:
    text = "A: The chairs are in the truck.\nB: I see.\nA: The lamps are in the van. I like rugs."
    altered = outcomes(variable_substitution, text, objects=["chairs", "lamps", "rugs"])
    assert altered == {
        text.replace("rugs", "lamps"),
        text.replace("rugs", "chairs"),
        text.replace("chairs", "rugs"),
        text.replace("lamps", "rugs"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "Some of the chairs are in the truck. A few of the lamps are in the van.",
        "The chairs are in the truck.\nB: The lamps cost ten dollars.",
        "The chairs are in the truck or the van.\nB: I saw the lamps in the van.",
        "Did you see the chairs in the den?\nB: I don't know.\nA: I see.\nB: The lamps are in the van.",
    ],
)
def test_a_substitution_that_contradicts_nothing_is_made(text: str) -> None:
    text = f"A: {text}"
    assert outcomes(variable_substitution, text, objects=["chairs", "lamps"]) == {
        text.replace("chairs", "lamps"),
        text.replace("lamps", "chairs"),
    }


def test_a_place_that_is_only_there_is_not_searched_for_in_every_line_before() -> None:
    text = "A: Where are they?" + "\nA: I put the chairs there and saw the lamps there." * 40
    lists = {"objects": ["chairs", "lamps"]}
    assert not outcomes(variable_substitution, text, **lists)  # would take years


def test_a_sentence_over_two_lines_is_one_sentence() -> None:
    text = "A: You should eat apples\nand grapes.\nB: Pears?"
    lists = {"objects": ["apples", "grapes"]}
    for altered in outcomes(variable_substitution, text, **lists):
        assert altered.count("apples") + altered.count("grapes") == 1
    assert not outcomes(variable_swap, text, **lists)


# Negation -----------------------------------------------------------------------------------------


def test_a_reply_is_negated_before_a_statement() -> None:
    text = "A: where was Noah\nB: he was in the den\nA: did Mia see him\nB: no, she didn't"
    assert outcomes(negation, text, agents=["Noah", "Mia"]) == {
        text.replace("no, she didn't", "yes, she did")
    }


def test_a_whole_reply_is_turned_round() -> None:
    text = "A: did Mia see him\nB: no\nA: where are the pears"
    assert outcomes(negation, text, objects=["pears"]) == {text.replace("no", "yes")}


# Quantity -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "may_be_one"),
    [
        ("There are two keys here.\nB: Who put them there?", False),
        ("I bought two roses.\nB: Put the roses in the vase.", False),
        ("I bought two roses and put them in the vase.", False),
        ("Where are the keys?\nB: Two keys are here.\nA: Who put them there?", True),
        ("Two of the keys are here.\nB: Who put them there?", True),
        ("There are two keys here.\nB: Who put the lamp there?", True),
        ("How many keys are left?\nB: About four. Some are in the hall.", False),
        ("How many are left?\nB: Four.\nA: Where are they?", False),
        ("I took four photos. A few are blurred.", False),
        ("I took four photos. Which ones do you like?", False),
        ("I took four photos. Some people smile.", True),
    ],
)
def test_things_that_are_taken_up_as_several_stay_several(text: str, may_be_one: bool) -> None:
    altered = outcomes(quantity_change, f"A: {text}")
    assert altered
    assert any(re.search(r"\bone\b", result.lower()) for result in altered) is may_be_one


@pytest.mark.parametrize(
    ("text", "may_be_several"),
    [
        ("There is one key here. It is old.", False),
        ("I have one brother.\nB: Where is he?", False),
        ("I have one key.\nB: Put the key there.", False),
        ("I have one key.\nB: Is the lamp here?\nA: It is there.", True),
    ],
)
def test_what_is_taken_up_as_one_thing_stays_one(text: str, may_be_several: bool) -> None:
    lists = {"objects": ["key"] * ("key" in text), "agents": ["brother"] * ("brother" in text)}
    assert bool(outcomes(quantity_change, f"A: {text}", **lists)) is may_be_several


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The bank blocked four cards, but not the third one.", "five six seven eight"),
        ("I lost four cards.\nB: Where is the fourth?", "five six seven eight"),
        ("I wrote three cards. The last one was long.", "four five six"),
        ("There are three cards.\nB: The 2nd card is mine.", "four five six"),
        ("We have two cards and want a third.", ""),
        ("I bought two cards on the 13th.", "one three four"),
        (
            "We have four cards.\nB: The third floor is closed.",
            "one two three five six seven eight",
        ),
    ],
)
def test_what_an_ordinal_counts_into_only_grows(text: str, numbers: str) -> None:
    altered = outcomes(quantity_change, f"A: {text}", objects=["cards"])
    words = {re.search(r"\w+(?= cards?\b)", result)[0] for result in altered}  # type: ignore[index]
    assert words == {*numbers.split()}


# Quantifiers and connectives ----------------------------------------------------------------------


def test_a_verb_agrees_with_joined_nouns_that_have_adjectives() -> None:
    text = "The red ball and the blue bat are here."
    altered = outcomes(connective_change, f"A: {text}", objects=["ball", "bat"])
    assert altered == {"A: The red ball or the blue bat is here."}


# Inconsistent data --------------------------------------------------------------------------------


def test_there_are_forty_things_to_say_and_some_change_answers() -> None:
    said = [ENGLISH[name] for name in ("absurdities", "changes", "past_changes", "remarks")]
    texts = [json.dumps(template) for templates in said for template in templates]
    assert len(set(texts)) >= 40
    text = "A: where are the figs\nB: the figs are in the den"
    results = [
        alter(text, {"agents": [], "objects": ["figs"], "locations": ["den"]},
              "Injecting Inconsistent Data", seed)
        for seed in range(60)
    ]  # fmt: skip
    assert {result.answers_can_change for result in results} == {None, True}


def test_one_seed_says_different_things_in_different_conversations() -> None:
    clauses = set()
    for name in ("Mia", "Noah", "Owen", "Emma", "Lily", "Jack", "Ava", "Ethan", "Chloe", "Lucas"):
        lists = {"agents": [name], "objects": ["figs"], "locations": []}
        text = f"A: where is {name}\nB: the figs are here"
        altered = alter(text, lists, "Injecting Inconsistent Data")
        clauses.add(altered.replacements[0].new)
    assert len(clauses) >= 6


@pytest.mark.parametrize("text", ["The pears in the den were red.", "The pears to London left."])
def test_no_clause_divides_a_noun_from_what_belongs_to_it(text: str) -> None:
    for altered in outcomes(inconsistent_data, f"A: {text}", objects=["pears"]):
        assert text.rstrip(".") in altered


def test_no_clause_after_what_does_not_exist() -> None:
    for altered in outcomes(inconsistent_data, "A: I don't have a pear.", objects=["pear"]):
        assert "pear that" not in altered
        assert "pear, which" not in altered


@pytest.mark.parametrize(
    ("text", "is_denied"),
    [
        ("Is the book on the table?\nB: No, the book isn't there. It is late now.", True),
        ("I don't have the book. It is late now.", True),
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
        if "book, which" in result or result.lower().count("book") > text.lower().count("book")
    ]
    assert bool(said) is not is_denied


# Characters that look like others ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "agent", "message"),
    [
        (
            "A: Hi!\nB: Rene\u0301e and Ren\xe9e left.",
            "Ren\xe9e",
            "^line 2 is not in Unicode's form NFC",
        ),
        ("A: Ren\xe9e left.", "Rene\u0301e", "'agents' is not in Unicode's form NFC"),
        ("A: Anna left, An\xadna came.", "Anna", r"line 1 has an invisible character, U\+00AD"),
    ],
)
def test_names_that_only_look_the_same_are_refused(text: str, agent: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        alter(text, {"agents": [agent], "objects": [], "locations": []}, "Negation")


def test_the_blank_in_a_name_may_not_break() -> None:
    text = "A: the living\xa0room is near the den\nB: the living room is dark"
    swapped = outcomes(variable_swap, text, locations=["living room", "den"])
    assert swapped == {"A: the den is near the living room\nB: the den is dark"}


# The entities file, and what is printed -----------------------------------------------------------


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"female": ["Mia"]}, "'Mia' in 'female' or 'male' is not in 'agents'"),
        ({"agents": ["Mia"], "female": ["Mia"], "male": ["Mia"]}, "is in 'female' and in 'male'"),
        ({"objects": ["pen"], "exchangeable": [["pen", "cup"]]}, "are not in one list"),
        ({"exchangeable": "pen"}, "'exchangeable' is not a list"),
        ({"exchangeable": ["pen"]}, "a group in 'exchangeable' is not a list of strings"),
    ],
)
def test_lists_of_what_is_alike_that_are_refused(lists: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Entities.from_lists({"agents": [], "objects": [], "locations": [], **lists})


def test_explain_tells_why_a_change_was_allowed_and_an_exchange_not(tmp_path: Path) -> None:
    conversation, entities = tmp_path / "my.txt", tmp_path / "my.json"
    conversation.write_text("A: where did Noah go\nB: he saw Mia\n", "utf-8")
    lists = {"agents": ["Noah", "Mia"], "objects": [], "locations": []}
    entities.write_text(json.dumps(lists), "utf-8")
    plain = altered_text(conversation, entities)
    explained = altered_text(conversation, entities, explain=True)
    assert "allowed, as" not in plain
    told = [line for line in explained.split("\n") if line.startswith("  allowed, as ")]
    assert len(told) == plain.count("line 1:") + plain.count("line 2:")
    assert "  Noah and Mia: one is female and the other male" in explained
    assert set(plain.split("\n")) <= set(explained.split("\n"))
