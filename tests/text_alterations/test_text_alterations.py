"""Tests of the seven alterations of plain text: examples of the paper, exceptions, properties."""

import json
import os
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.data.sources import FILES, read_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.text_alterations.alter import alter, altered_text
from pragworld_tasks.text_alterations.entities import Conversation, Entities, read_entities
from pragworld_tasks.text_alterations.inconsistency import inconsistent_data
from pragworld_tasks.text_alterations.inflection import (
    article,
    number_forms,
    number_words,
    read_number,
    read_ordinal,
)
from pragworld_tasks.text_alterations.negation import negation
from pragworld_tasks.text_alterations.quantifiers import connective_change, quantifier_change
from pragworld_tasks.text_alterations.quantities import quantity_change
from pragworld_tasks.text_alterations.swap import variable_substitution, variable_swap
from pragworld_tasks.text_alterations.tokens import AlteredConversation

Algorithm = Callable[[Conversation, random.Random], AlteredConversation | None]
ALGORITHMS: tuple[Algorithm, ...] = (
    negation,
    variable_substitution,
    quantity_change,
    variable_swap,
    quantifier_change,
    connective_change,
    inconsistent_data,
)
NOBODY = Entities((), (), ())


def apply(
    algorithm: Algorithm, text: str, entities: Entities = NOBODY, seed: int = 0
) -> AlteredConversation | None:
    return algorithm(Conversation(text, entities), random.Random(seed))


def results(algorithm: Algorithm, text: str, entities: Entities = NOBODY) -> set[str]:
    """Return all texts that an algorithm makes of a text, none if it leaves the text alone."""
    altered = [apply(algorithm, f"Bob: {text}", entities, seed) for seed in range(150)]
    return {conversation.text.removeprefix("Bob: ") for conversation in altered if conversation}


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


# Variable swap and substitution -------------------------------------------------------------------

OBJECTS = Entities((), ("oranges", "watermelons"), ())


def test_swap_of_the_paper_changes_both_sides() -> None:
    text = "A: Did you leave oranges in the garage?\nB: I left the watermelons there."
    altered = apply(variable_swap, text, OBJECTS)
    assert altered is not None
    assert altered.text == (
        "A: Did you leave watermelons in the garage?\nB: I left the oranges there."
    )
    assert [
        (replacement.utterance, replacement.old, replacement.new)
        for replacement in altered.replacements
    ] == [
        (0, "oranges", "watermelons"),
        (1, "watermelons", "oranges"),
    ]


def test_substitution_of_the_paper_changes_one() -> None:
    text = "A: Did you leave oranges in the garage?\nB: I left the watermelons there."
    found = {
        altered.text
        for seed in range(20)
        if (altered := apply(variable_substitution, text, OBJECTS, seed))
    }
    assert found == {text.replace("watermelons", "oranges"), text.replace("oranges", "watermelons")}


def test_locations_of_the_papers_example_are_swapped() -> None:
    text = "A: Are all the pumpkins in the kitchen?\nB: He was arranging the living room."
    entities = Entities((), (), ("kitchen", "living room"), focus_locations=("kitchen",))
    altered = apply(variable_swap, text, entities)
    assert altered is not None
    assert altered.text == (
        "A: Are all the pumpkins in the living room?\nB: He was arranging the kitchen."
    )
    assert altered.answers_can_change is True


THREE = "A: Noah, Owen, Jack and Emma were here."


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
    entities = Entities(("Noah", "Owen", "Jack", "Emma"), (), (), focus_agents=focus)
    seen = set()
    for seed in range(60):
        altered = apply(variable_swap, THREE, entities, seed)
        assert altered is not None
        assert altered.answers_can_change is answers_can_change
        assert len(altered.replacements) == 2
        seen |= {replacement.old for replacement in altered.replacements}
    assert seen == touched


def test_with_one_remaining_that_one_takes_part() -> None:
    text = "A: Noah left.\nB: Owen came.\nA: Jack slept."
    entities = Entities(("Noah", "Owen", "Jack"), (), (), focus_agents=("Noah", "Owen"))
    for seed in range(40):
        swapped = apply(variable_swap, text, entities, seed)
        replaced = apply(variable_substitution, text, entities, seed)
        assert swapped is not None
        assert replaced is not None
        assert swapped.answers_can_change is replaced.answers_can_change is True
        assert "Jack" in {replacement.old for replacement in swapped.replacements}
        assert [replacement.new for replacement in replaced.replacements] == ["Jack"]


@pytest.mark.parametrize(
    "entities",
    [NOBODY, Entities(("Noah",), (), ()), Entities(("Noah",), (), (), focus_agents=("Noah",))],
)
def test_nothing_to_swap_where_there_are_no_two(entities: Entities) -> None:
    assert apply(variable_swap, "A: Noah left.", entities) is None


@pytest.mark.parametrize(
    "text",
    ["Noah and Owen left.", "Noah or Owen", "from Noah to Owen", "Noah, Owen", "Noah saw Owen"],
)
def test_nobody_is_mentioned_twice_in_a_sentence(text: str) -> None:
    entities = Entities(("Noah", "Owen"), (), ())
    for altered in results(variable_substitution, text, entities):
        assert altered.count("Noah") + altered.count("Owen") == 1  # a third name stands in
    assert results(variable_swap, f"{text.rstrip('.')}. Noah came back.", entities)


def test_possessives_of_plurals_without_s() -> None:
    entities = Entities((), ("geese", "ducks"), ())
    assert results(variable_swap, "the geese's pond, the ducks' barn", entities) == {
        "the ducks' pond, the geese's barn"
    }


def test_a_longer_name_is_not_a_mention_of_the_shorter_one() -> None:
    entities = Entities((), ("peppers", "green peppers", "figs"), (), focus_objects=("peppers",))
    assert results(variable_swap, "green peppers, peppers, figs", entities) == {
        "figs, peppers, green peppers"
    }


def test_speakers_labels_are_never_altered() -> None:
    text = "1: Owens: did Owen leave?\n2: Noah's brother: Noah did."
    altered = apply(variable_swap, text, Entities(("Noah", "Owen"), (), ()))
    assert altered is None  # Noah is in a label, and "Noah: … Noah did" would be of somebody else
    text = text.replace("Noah's brother", "Mia")
    altered = apply(variable_swap, text, Entities(("Noah", "Owen"), (), ()))
    assert altered is not None
    assert altered.text == "1: Owens: did Noah leave?\n2: Mia: Owen did."


def test_a_name_with_a_capital_is_no_verb() -> None:
    entities = Entities(("Will", "May"), (), ())
    assert results(variable_swap, "I will see Will if May may come", entities) == {
        "I will see May if Will may come"
    }


NAMES = ("Noah", "Owen", "Emma", "Lily")
FRUIT = ("apples", "pear", "green peppers", "oranges")
PLACES = ("attic", "hall", "TV_room", "dining room")
FORMS = [form for noun in FRUIT for form in number_forms(noun)]
VOCABULARY = [
    *[*NAMES, *FORMS, *PLACES, *(word.upper() for word in FORMS), *(f"{name}'s" for name in NAMES)],
    *["a pear", "An orange", "an orange", "A GREEN PEPPER", "An apple’s", "the ORANGES’", "hands"],
    *re.findall(
        r"\S+", "the all some of them and or both either at one two 12 twelve twenty-one is"
    ),
    *re.findall(r"\S+", "are was there there's isn't didn't not no any he she I'm it yes Yes, No."),
    *re.findall(
        r"\S+", "and, put in who said hundred , . ? ! — “so” 9:00 $5 did do have has can if"
    ),
]
UTTERANCE = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=14).map(" ".join)
CONVERSATION = st.lists(UTTERANCE.map("A: {}".format), min_size=1, max_size=4).map("\n".join)
ALL = Entities(NAMES, FRUIT, PLACES)


ONE_EACH = "\nB: " + ", ".join([*NAMES, *FRUIT, *PLACES])  # so that everything is mentioned
# Names that no utterance has: where all others stand side by side, only these can be swapped.
SPARE = ["Mary", "Ruth"]


@settings(max_examples=40)
@given(CONVERSATION, st.integers(0, 1000))
def test_only_the_listed_replacements_are_made(conversation: str, seed: int) -> None:
    conversation += ONE_EACH
    for algorithm in ALGORITHMS:
        altered = apply(algorithm, conversation, ALL, seed)
        if altered:
            assert altered.alteration in ALTERATIONS
            assert altered.text != conversation
            assert_only_listed_replacements(conversation, altered)
            assert altered == apply(algorithm, conversation, ALL, seed)


@settings(max_examples=40)
@given(CONVERSATION, st.integers(0, 1000))
def test_swapping_twice_gives_the_conversation_back(conversation: str, seed: int) -> None:
    # At the start of a sentence "TV_room" makes way for a capital, which it does not tell apart.
    conversation = f"{conversation}{ONE_EACH}, {', '.join(SPARE)}".replace("TV_room", "tea room")
    entities = Entities((*NAMES, *SPARE), FRUIT, ("attic", "hall", "tea room", "dining room"))
    once = apply(variable_swap, conversation, entities, seed)
    assert once is not None
    twice = apply(variable_swap, once.text, entities, seed)
    assert twice is not None
    assert twice.text == conversation


@given(CONVERSATION, st.integers(0, 1000))
def test_letter_case_is_kept(conversation: str, seed: int) -> None:
    entities = Entities((*NAMES, *SPARE), FRUIT, PLACES)
    text = f"{conversation}{ONE_EACH}, {', '.join(SPARE)}"
    altered = apply(variable_swap, text, entities, seed)
    assert altered is not None
    for replacement in altered.replacements:
        if len(replacement.old) > 2 and "TV" not in replacement.old + replacement.new:
            assert replacement.new.isupper() == replacement.old.isupper()
            assert replacement.new[0].isupper() == replacement.old[0].isupper()


# Quantity -----------------------------------------------------------------------------------------


def test_quantity_of_the_paper_stays_in_its_range() -> None:
    found = results(quantity_change, "There are four apples in the kitchen.")
    words = ("two", "three", "five", "six", "seven", "eight")
    assert found == {
        "There is one apple in the kitchen.",
        *(f"There are {word} apples in the kitchen." for word in words),
    }


def test_digits_stay_digits_and_words_words() -> None:
    digits = results(quantity_change, "I have 12 figs and more")
    assert digits
    assert all(text.split()[2].isdigit() for text in digits)
    spelt = results(quantity_change, "twelve")
    assert spelt == {number_words(n) for n in range(1, 25) if n != 12}
    assert all("," in text.split()[1] or len(text.split()[1]) <= 3 for text in results(quantity_change, "pay 1,200 now"))  # fmt: skip


def test_a_number_at_the_start_of_a_line_without_a_label_is_found() -> None:
    assert apply(quantity_change, "5 apples are here.") is not None


def test_large_numbers_take_no_longer() -> None:
    assert apply(quantity_change, "A: 499999 apples") is not None


# Quantifiers --------------------------------------------------------------------------------------


# Connectives --------------------------------------------------------------------------------------


def test_no_connective_inside_an_entity() -> None:
    entities = Entities((), ("salt and vinegar crisps",), ())
    assert not results(connective_change, "the salt and vinegar crisps", entities)


# Negation -----------------------------------------------------------------------------------------


# Inconsistent data --------------------------------------------------------------------------------

FIGS = Entities((), ("figs",), ())


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
    found = results(inconsistent_data, text, FIGS)
    assert behind in found
    assert len(found) > 3


@pytest.mark.parametrize(
    "text",
    ["are the figs here", "fig juice is", "no figs are here", "the figs' colour", "the figs fell", "any figs"],
)  # fmt: skip
def test_where_there_is_no_room_for_a_clause(text: str) -> None:
    for altered in results(inconsistent_data, text, FIGS):  # a remark about something else
        assert altered.startswith(f"{text}, and ")


# Words --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("singular", "plural"),
    [
        ("apple", "apples"), ("peach", "peaches"), ("cherry", "cherries"), ("cookie", "cookies"),
        ("potato", "potatoes"), ("knife", "knives"), ("olive", "olives"), ("shoe", "shoes"),
        ("house", "houses"), ("bus", "buses"), ("glass", "glasses"), ("kiwi", "kiwis"),
        ("green pepper", "green peppers"), ("bag of apples", "bags of apples"), ("child", "children"),
        ("bookshelf", "bookshelves"), ("TV", "TVs"), ("asparagus", "asparagus"), ("lens", "lenses"),
        ("headache", "headaches"), ("vase", "vases"), ("box", "boxes"), ("broccoli", "broccolis"),
    ],
)  # fmt: skip
def test_singular_and_plural(singular: str, plural: str) -> None:
    assert number_forms(singular) == number_forms(plural) == (singular, plural)


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


@pytest.mark.parametrize(
    ("word", "number"),
    [
        ("third", 3),
        ("21st", 21),
        ("forty-second", 42),
        ("two", None),
        ("thirdly", None),
        ("", None),
    ],
)
def test_ordinals(word: str, number: int | None) -> None:
    assert read_ordinal(word) == number


# Files and the front door -------------------------------------------------------------------------

LISTS = {"agents": ["Noah"], "objects": ["apples"], "locations": ["hall"]}


def write(folder: Path, lists: object, text: str = "A: Noah put apples in the hall.") -> tuple[Path, Path]:  # fmt: skip
    conversation, entities = folder / "my.txt", folder / "my.json"
    conversation.write_text(text, encoding="utf-8")
    entities.write_text(lists if isinstance(lists, str) else json.dumps(lists), encoding="utf-8")
    return conversation, entities


def test_entities_are_read(tmp_path: Path) -> None:
    _, path = write(tmp_path, {**LISTS, "focus_agents": ["Noah"]})
    entities = read_entities(path)
    assert entities == Entities(("Noah",), ("apples",), ("hall",), focus_agents=("Noah",))
    assert (entities.remaining("agents"), entities.remaining("objects")) == ((), ("apples",))


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ("{", "not JSON"),
        ([], "not a JSON object"),
        ({**LISTS, "places": []}, "unknown list 'places'"),
        ({"agents": [], "objects": []}, "the list 'locations' is missing"),
        ({**LISTS, "agents": "Noah"}, "'agents' is not a list of strings"),
        ({**LISTS, "agents": [1]}, "'agents' is not a list of strings"),
        ({**LISTS, "agents": [" Noah"]}, "' Noah' in 'agents' does not begin and end"),
        ({**LISTS, "agents": ["Noah", "noah"]}, "'noah' in 'agents' is the same as one in 'agents'"),
        ({**LISTS, "objects": ["apple", "apples"]}, "'apples' in 'objects' is the same"),
        ({**LISTS, "locations": ["apple"]}, "'apple' in 'locations' is the same as one in 'objects'"),
        ({**LISTS, "focus_agents": ["Owen"]}, "'Owen' in 'focus_agents' is not in 'agents'"),
        ({**LISTS, "focus_agents": ["Noah", "Noah"]}, "'Noah' is twice in 'focus_agents'"),
        ({**LISTS, "agents": ["Owen"]}, "'Owen' in 'agents' does not occur in the conversation"),
        ({**LISTS, "agents": ["Owen"]}, "letter case; alterations are of English text"),
        ({**LISTS, "agents": ["A"]}, "'A' in 'agents' occurs in the conversation only as a speaker's label"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(lists: object, message: str, tmp_path: Path) -> None:
    conversation, entities = write(tmp_path, lists)
    with pytest.raises(InputError) as refused:
        altered_text(conversation, entities)
    assert message in str(refused.value)
    assert str(entities) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_other_input_that_is_refused(tmp_path: Path) -> None:
    conversation, entities = write(tmp_path, LISTS, text=" \n\n")
    with pytest.raises(InputError, match=r"my\.txt: the file is empty"):
        altered_text(conversation, entities)
    with pytest.raises(InputError, match="no alteration 'swap'; choose one of Negation"):
        alter("A: hello", NOBODY, "swap")
    with pytest.raises(InputError, match="'Noah' in 'agents' does not occur"):
        alter("A: hello", Entities(("Noah",), (), ()), "Negation")
    with pytest.raises(InputError, match="Quantity Change is not possible: there is no number"):
        alter("A: hello", NOBODY, "quantity change")


def test_lists_in_python_are_those_of_a_file() -> None:
    lists = {"agents": ["Noah", "Owen"], "objects": [], "locations": []}
    altered = alter("A: Noah saw Owen.", lists, "Variable Swap")
    assert (altered.text, altered.alteration) == ("A: Owen saw Noah.", "Variable Swap")
    with pytest.raises(InputError, match="'agents' is not a list of strings"):
        alter("A: Noah left.", {**LISTS, "agents": "Noah"}, "Negation")


def test_what_is_printed(tmp_path: Path) -> None:
    text = "A: did Noah take apples?\r\nB: Owen did.\r\n"
    lists = {"agents": ["Noah", "Owen"], "objects": [], "locations": []}
    paths = write(tmp_path, {**lists, "focus_agents": ["Noah", "Owen"]}, text)
    assert altered_text(*paths, ["variable swap", "Quantity Change"]) == (
        'Variable Swap (answers can change)\n  line 1: "Noah" -> "Owen"\n  line 2: "Owen" -> "Noah"\n\n'
        "A: did Owen take apples?\nB: Noah did.\n\n"
        "Quantity Change: not possible, as there is no number that can be changed"
    )
    everything = altered_text(*paths, seed=3)
    assert everything == altered_text(*paths, seed=3)
    assert [name for name in ALTERATIONS if name not in everything] == []


def test_an_alteration_has_choices_of_its_own(tmp_path: Path) -> None:
    paths = write(tmp_path, LISTS, "A: Noah put two apples in the hall.\nB: He put five there.")
    assert altered_text(*paths, ["Quantity Change"], seed=5) in altered_text(*paths, seed=5)


# The released conversations -----------------------------------------------------------------------


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
        for algorithm in ALGORITHMS:
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
