"""Tests of the seven alterations of plain text: examples of the paper, exceptions, properties."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from altered_texts import ALGORITHMS, apply, outcomes
from hypothesis import given, settings
from hypothesis import strategies as st

from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.text_alterations.entities import Entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.inflection import (
    article,
    is_plural,
    number_forms,
    number_words,
    read_number,
    read_ordinal,
)
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import variable_substitution, variable_swap
from pragworld_tasks.text_alterations.tokens import AlteredConversation

LINES = Path(__file__).with_name("examples.jsonl").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("example", [*map(json.loads, LINES)], ids=lambda example: example["rule"])
def test_an_example_is_altered_as_its_rule_says(example: dict[str, Any]) -> None:
    about = ("rule", "alteration", "text", "altered")
    lists = {name: entities for name, entities in example.items() if name not in about}
    algorithm = ALGORITHMS[example["alteration"]]
    assert outcomes(algorithm, example["text"], **lists) == {*example["altered"]}


def assert_only_listed_replacements(conversation: str, altered: AlteredConversation) -> None:
    """Check that the listed replacements give the altered text, and that each replaces words."""
    assert altered.replacements
    rebuilt = []
    for number, line in enumerate(conversation.split("\n")):
        end, pieces = 0, []
        for replacement in altered.replacements:
            if replacement.utterance != number:
                continue
            assert replacement.start >= end
            assert replacement.old != replacement.new
            assert line[replacement.start :].startswith(replacement.old)
            assert not line[: replacement.start][-1:].isalnum()
            after = replacement.start + len(replacement.old)
            assert not (line[after : after + 1].isalnum() and replacement.old[-1:].isalnum())
            pieces += [line[end : replacement.start], replacement.new]
            end = after
        rebuilt.append("".join([*pieces, line[end:]]))
    assert "\n".join(rebuilt) == altered.text


@pytest.mark.parametrize(
    ("focus", "touched", "answers_can_change"),
    [
        ((), {"Noah", "Owen", "Jack", "Emma"}, None),
        (("Emma",), {"Noah", "Owen", "Jack"}, False),
        (("Emma", "Jack"), {"Noah", "Owen"}, False),
        (("Noah", "Owen", "Jack", "Emma"), {"Noah", "Owen", "Jack", "Emma"}, True),
    ],
)
def test_who_is_swapped_follows_algorithm_1(
    focus: tuple[str, ...], touched: set[str], answers_can_change: bool | None
) -> None:
    text = "A: Noah saw Owen, then Jack saw Emma."
    entities = Entities(("Noah", "Owen", "Jack", "Emma"), (), (), focus_agents=focus)
    seen = set()
    for seed in range(60):
        altered = apply(variable_swap, text, entities, seed)
        assert altered is not None
        assert altered.answers_can_change is answers_can_change
        assert len(altered.replacements) == 2
        seen |= {replacement.old for replacement in altered.replacements}
    assert seen == touched


def test_with_one_remaining_that_one_takes_part() -> None:
    text = "A: The chairs are in the truck.\nB: The lamps are in the van. I like rugs."
    entities = Entities((), ("chairs", "lamps", "rugs"), (), focus_objects=("chairs", "lamps"))
    for seed in range(40):
        swapped = apply(variable_swap, text, entities, seed)
        replaced = apply(variable_substitution, text, entities, seed)
        assert swapped is not None
        assert replaced is not None
        assert swapped.answers_can_change is replaced.answers_can_change is True
        assert "rugs" in {replacement.old for replacement in swapped.replacements}
        assert [replacement.new for replacement in replaced.replacements] == ["rugs"]


@pytest.mark.parametrize(
    "text",
    ["Noah and Owen left.", "Noah or Owen", "from Noah to Owen", "Noah, Owen", "Noah saw Owen"],
)
def test_nobody_is_mentioned_twice_in_a_sentence(text: str) -> None:
    agents = ["Noah", "Owen"]
    for altered in outcomes(variable_substitution, f"A: {text}", agents=agents):
        assert altered.count("Noah") + altered.count("Owen") == 1  # a third name stands in
    assert outcomes(variable_swap, f"A: {text.rstrip('.')}. Noah came back.", agents=agents)


NAMES = ("Noah", "Owen", "Emma", "Lily")
FRUIT = ("apples", "pear", "green peppers", "oranges")
PLACES = ("attic", "hall", "TV_room", "dining room")
FORMS = [form for noun in FRUIT for form in number_forms(noun)]
WORDS = """
the all some of them and or both either at one two 12 twelve twenty-one is are was there there's
isn't didn't not no any he she I'm it yes Yes, No. and, put in who said hundred , . ? ! — “so” 9:00
$5 do did were have has can if
"""
VOCABULARY = [
    *[*NAMES, *FORMS, *PLACES, *(word.upper() for word in FORMS), *(f"{name}'s" for name in NAMES)],
    *["a pear", "An orange", "an orange", "A GREEN PEPPER", "An apple’s", "the ORANGES’", "hands"],
    *WORDS.split(),
]
UTTERANCE = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=14).map(" ".join)
CONVERSATION = st.lists(UTTERANCE.map("A: {}".format), min_size=1, max_size=4).map("\n".join)
ONE_EACH = "\nB: " + " and then ".join([*NAMES, *FRUIT, *PLACES])  # so that everything is mentioned
# Names that no utterance has: where all others stand side by side, only these can be swapped.
SPARE = ["Mary", "Ruth"]


@settings(max_examples=40)
@given(CONVERSATION, st.integers(0, 1000))
def test_only_the_listed_replacements_are_made(conversation: str, seed: int) -> None:
    conversation += ONE_EACH
    entities = Entities(NAMES, FRUIT, PLACES)
    for name, algorithm in ALGORITHMS.items():
        altered = apply(algorithm, conversation, entities, seed)
        if altered:
            assert altered.alteration == name
            assert altered.text != conversation
            assert_only_listed_replacements(conversation, altered)
            assert altered == apply(algorithm, conversation, entities, seed)


@settings(max_examples=40)
@given(CONVERSATION, st.integers(0, 1000))
def test_a_swap_keeps_letter_case_and_swapping_twice_gives_the_conversation_back(
    conversation: str, seed: int
) -> None:
    # At the start of a sentence "TV_room" makes way for a capital, which it does not tell apart.
    conversation = f"{conversation}{ONE_EACH} and then {' and then '.join(SPARE)}".replace(
        "TV_room", "tea room"
    )
    entities = Entities((*NAMES, *SPARE), FRUIT, ("attic", "hall", "tea room", "dining room"))
    once = apply(variable_swap, conversation, entities, seed)
    assert once is not None
    for replacement in once.replacements:
        if len(replacement.old) > 2:
            assert replacement.new.isupper() == replacement.old.isupper()
            assert replacement.new[0].isupper() == replacement.old[0].isupper()
    twice = apply(variable_swap, once.text, entities, seed)
    assert twice is not None
    assert twice.text == conversation


def test_words_stay_words_and_commas_commas() -> None:
    spelt = {f"A: {number_words(number)} figs" for number in range(2, 25) if number != 12}
    assert outcomes(quantity_change, "A: twelve figs") == {"A: one fig", *spelt}
    round_numbers = {f"A: it costs ${number:,}" for number in range(100, 2401, 100)}
    assert outcomes(quantity_change, "A: it costs $1,200") == round_numbers - {"A: it costs $1,200"}


@pytest.mark.parametrize("text", ["5 apples are here.", "A: 499999 apples"])
def test_a_number_is_found_in_a_line_without_a_label_and_however_large_it_is(text: str) -> None:
    assert outcomes(quantity_change, text, seeds=1)


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("the figs are here", "the figs, which hum whenever someone laughs, are here"),
        ("I saw a fig.", "I saw a fig that hums whenever someone laughs."),
        ("the figs, too", "the figs, which hum whenever someone laughs, too"),
        ("THE FIGS ARE", "THE FIGS, WHICH HUM WHENEVER SOMEONE LAUGHS, ARE"),
        ("Where? In the figs", "Where? In the figs, which hum whenever someone laughs"),
    ],
)
def test_a_clause_against_common_sense(text: str, behind: str) -> None:
    found = outcomes(inconsistent_data, f"A: {text}", objects=["figs"])
    assert f"A: {behind}" in found
    assert len(found) > 3


@pytest.mark.parametrize(
    "text",
    ["are the figs here", "fig juice is", "no figs are here", "the figs' colour", "the figs fell", "any figs",
     "the figs in the den were red", "the figs to London left"],
)  # fmt: skip
def test_where_there_is_no_room_for_a_clause(text: str) -> None:
    for altered in outcomes(inconsistent_data, f"A: {text}", objects=["figs"]):
        assert altered.startswith(f"A: {text}, and ")  # a remark about something else


def test_singular_and_plural() -> None:
    lines = Path(__file__).with_name("plurals.txt").read_text(encoding="utf-8").splitlines()
    pairs = [tuple(line.split(", ")) for line in lines if not line.startswith("#")]
    wrong = [pair for pair in pairs if {*map(number_forms, pair)} != {pair}]
    assert len(wrong) <= 0.03 * len(pairs), wrong


def test_a_noun_that_is_not_counted_is_no_plural() -> None:
    nouns = "rice furniture luggage homework news information advice money milk music corn flu"
    assert [noun for noun in nouns.split() if is_plural(noun)] == []


def test_articles() -> None:
    vowels = ["apple", "hour", "onion", "uninvited", "honest", "heir", "8", "11", "18", "80", "MP3"]
    others = ["pear", "uniform", "one-way", "user", "European", "1", "12", "180", "TV", "hat"]
    assert [article(word) for word in vowels + others] == ["an"] * len(vowels) + ["a"] * len(others)


@given(st.integers(0, 999_999))
def test_numbers_in_words_are_read_back(number: int) -> None:
    assert read_number(number_words(number)) == read_number(str(number)) == number
    assert read_number(f"{number:,}") == number


def test_words_that_are_no_one_number() -> None:
    for text in ("nineteen eighty", "five fifty", "hundred", "two and", "a", "1.5", "9:00", ""):
        assert read_number(text) is None


def test_ordinals() -> None:
    words = ("third", "21st", "forty-second", "two", "thirdly", "")
    assert [*map(read_ordinal, words)] == [3, 21, 42, None, None, None]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return what runs `alter` on a conversation whose agents are all in focus."""

    def printed(text: str, agents: list[str], *options: str) -> str:
        conversation, entities = tmp_path / "my.txt", tmp_path / "my.json"
        conversation.write_text(text, encoding="utf-8")
        lists = {"agents": agents, "objects": [], "locations": [], "focus_agents": agents}
        entities.write_text(json.dumps(lists), encoding="utf-8")
        main(["alter", "--conversation", str(conversation), "--entities", str(entities), *options])
        return capsys.readouterr().out

    return printed


def test_what_is_printed(run: Callable[..., str]) -> None:
    text = "A: did Noah take apples?\r\nB: Owen did.\r\n"
    names = ["Noah", "Owen"]
    assert run(text, names, "--alteration", "variable swap", "Quantity Change") == (
        'Variable Swap (answers can change)\n  line 1: "Noah" -> "Owen"\n  line 2: "Owen" -> "Noah"\n\n'
        "A: did Owen take apples?\nB: Noah did.\n\n"
        "Quantity Change is not possible: there is no number that can be changed; choose another "
        "alteration\n"
    )
    everything = run(text, names, "--seed", "3")
    assert everything == run(text, names, "--seed", "3")
    assert [name for name in ALTERATIONS if name not in everything] == []


def test_an_alteration_has_choices_of_its_own(run: Callable[..., str]) -> None:
    text, seed = "A: Noah put two apples in the hall.\nB: He put five there.", ["--seed", "5"]
    quantity = run(text, ["Noah"], "--alteration", "Quantity Change", *seed)
    assert quantity in run(text, ["Noah"], *seed)


def test_explain_tells_why_entities_are_not_exchanged(run: Callable[..., str]) -> None:
    text, names = "A: where did Noah go\nB: he saw Mia, Wei and Lan", ["Noah", "Mia", "Wei", "Lan"]
    plain, explained = (run(text, names, *option).split("\n") for option in ([], ["--explain"]))
    assert [line for line in explained if line not in plain] == [
        "  5 pairs, such as Lan and Mia: the gender of one is not known; list it as 'female' or 'male'",
        "  1 pair, such as Mia and Noah: one is female and the other male, and the conversation has "
        "words for that",
    ]


def test_released_conversations_change_as_listed(released: Path) -> None:
    documents = read_split("manual", released / FILES["manual"].path)
    sample = released / "synthetic_sample.csv"
    documents += read_split("synthetic", sample) if sample.exists() else []
    counts = dict.fromkeys(ALTERATIONS, 0)
    conversations = {document.context for document in documents if document.is_original}
    for conversation in sorted(conversations):
        words = conversation.replace(".", " ").replace("?", " ").replace(",", " ").split()
        names = ("Noah", "Owen", "Emma", "Chloe", "Elizabeth", "Hunter", "Sophia", "Jack")
        fruit = ("grapes", "plums", "beans", "pumpkins", "peaches", "limes", "oranges", "apples")
        rooms = ("pantry", "garage", "office", "den", "attic", "porch", "cellar", "playroom")
        agents, objects, locations = (
            tuple(name for name in kind if name in words) for kind in (names, fruit, rooms)
        )
        entities = Entities(agents, objects, locations)
        for algorithm in ALGORITHMS.values():
            for seed in range(3 if os.environ.get("PRAGWORLD_LONG") else 1):
                altered = apply(algorithm, conversation, entities, seed)
                if altered:
                    counts[altered.alteration] += 1
                    assert_only_listed_replacements(conversation, altered)
                    for wrong in ("some the", "all some", "horor", "n't not", "didn't went "):
                        assert wrong not in altered.text or wrong in conversation
                    for label in ("Bob:", "Alice:"):
                        assert altered.text.count(label) == conversation.count(label)
    assert all(counts.values()), counts
