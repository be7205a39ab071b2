"""The fifteen questions, their shipped paraphrases, and the check of a set of paraphrases."""

import pytest
from json_lines import read_lines
from places import ROOT

from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity.open_questions import OpenQuestion, domain_of, questions, slot_of
from pragworld_tasks.sensitivity.paraphrases import (
    find_fault,
    list_faults,
    shipped_paraphrases,
)
from pragworld_tasks.sensitivity.world_model_tasks import prompt_records

PROMPT = (
    "I drive {miles} miles, five days a week, at 3.5 miles a liter. How much is $2,000 of that?"
)


@pytest.mark.parametrize("name", questions())
def test_fifty_paraphrases_without_faults_are_shipped(name: str) -> None:
    question = questions()[name]
    texts = shipped_paraphrases(name)
    assert len(texts) == len(set(texts)) == 50
    assert list_faults(question.prompt, texts) == []
    made = prompt_records(question, texts)
    assert len({one["prompt"] for one in made}) == len(made) == 150
    assert domain_of(name) != "own"
    for one in made:
        assert one["value"] in one["prompt"]
        assert "{" not in one["prompt"]
        assert question.values[one["intent"]] == one["value"]


def test_blind_readers_find_the_paraphrases_natural() -> None:
    """What they did not find natural is no longer shipped."""
    ratings = read_lines(ROOT / "tests" / "paraphrases" / "ratings.jsonl")
    ratings = [rating for rating in ratings if rating["sample"] == 2]
    assert len(ratings) == 150
    for reader in (0, 1):
        readings = [rating["readings"][reader] for rating in ratings]
        assert sum(reading["natural"] for reading in readings) >= 0.97 * len(readings)
        assert all(reading["keeps"] and not reading["adds"] for reading in readings)
    shipped = {(name, text) for name in questions() for text in shipped_paraphrases(name)}
    for rating in ratings:
        is_natural = all(reading["natural"] for reading in rating["readings"])
        assert ((rating["task"], rating["text"]) in shipped) == is_natural


@pytest.mark.parametrize(
    ("paraphrase", "expected"),
    [
        ("Driving {miles} miles on 5 days a week, 3.5 miles a liter: how much is $2000?", None),
        ("Driving {miles} miles on weekdays, 3.5 miles a liter: how much is $2k?", None),
        ("Driving miles on 5 days a week, 3.5 miles a liter: $2000?", "not exactly one {miles}"),
        ("Is {miles} or {miles} miles, 5 days, 3.5 a liter, $2000?", "not exactly one {miles}"),
        ("{Miles} miles, 5 days, 3.5 a liter, $2000?", "not exactly one {miles}"),
        ("{miles} miles, {days} 5 days, 3.5 a liter, $2000?", "not exactly one {miles}"),
        ("{miles} miles, 5 days, 3.5 a liter, $2000, for 12 months?", "adds the number 12"),
        ("{miles} miles, 5 days, 3.5 a liter, $2000, for twelve months?", "adds the number 12"),
        ("{miles} miles, 5 days a week, $2000?", "lacks the number 3.5"),
        ("{miles} miles,\n5 days, 3.5 a liter, $2000?", "line breaks or stray spaces"),
    ],
)
def test_faults_of_a_paraphrase(paraphrase: str, expected: str | None) -> None:
    assert find_fault(PROMPT, paraphrase) == expected


def test_braces_that_hold_no_slot_are_text() -> None:
    prompt = 'How far is {town}? Reply with JSON as {"km": {{number}}}, and {} if unknown.'
    assert slot_of(prompt) == "{town}"
    assert slot_of('{"town": {"name": {town}}}') == "{town}"
    with pytest.raises(InputError, match=r"has 0 slots; .*double braces"):
        slot_of("How far is {{town}}?")
    assert find_fault(prompt, prompt) is None
    changed = 'Reply with {"km": {{number}}} or {}: what is the way to {town}?'
    assert find_fault(prompt, changed) is None
    assert find_fault(prompt, changed.replace("{town}", "{{town}}")) == "not exactly one {town}"
    assert find_fault(prompt, changed.replace("{{number}}", "{number}")) == "not exactly one {town}"
    for lost in ("{{number}}", "{}"):
        assert find_fault(prompt, changed.replace(lost, "")) == "other words in braces"
    question = OpenQuestion("own", prompt, ("Oslo",), "km")
    (record,) = prompt_records(question, [prompt])
    assert record["prompt"] == (
        'How far is Oslo? Reply with JSON as {"km": {number}}, and {} if unknown.'
    )
