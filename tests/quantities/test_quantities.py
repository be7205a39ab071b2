"""Tests of reading the one final number out of a free-form answer."""

import itertools
import math
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.quantities.layout import Layout
from pragworld_tasks.quantities.mentions import find_numerals, find_quantities
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.quantities.units import parse_unit
from pragworld_tasks.quantities.wording import find_cues
from pragworld_tasks.sensitivity.open_questions import fill_slot, questions
from pragworld_tasks.text import ONES, TENS

ANSWERS = Path(__file__).parents[1] / "answers"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("$4,118 and US$12,500.50 or USD5,000", [4118, 12500.5, 5000]),
        ("1.200.000 or 1,50,000 or .5", [1_200_000, 150_000, 0.5]),
        ("2h30, 1 1/2 hours, 1/2", [2, 30, 1.5, 0.5]),
        ("three and a half days", [3.5]),
        ("one and a half million, half a million", [1.5e6, 0.5e6]),
        ("two dozen, half a dozen, a dozen", [24, 6, 12]),
        ("a couple of hours or a single truck", [2, 1]),
        ("two hundred and fifty, two thousand five hundred", [250, 2500]),
        ("twenty-five, two point five million, a hundred and twenty", [25, 2.5e6, 120]),
        ("three quarters of an hour, a quarter of an", [0.75, 0.25]),
        ("$15K, $1.1bn, $86.4M, 3 grand", [15e3, 1.1e9, 86.4e6, 3e3]),
        ("ten and fourteen thousand", [10, 14000]),
        ("fifty-five hundred, a pair of them", [5500, 2]),
        ("nine and three quarter, nine and a quarter", [9.75, 9.25]),
        ("I-93 is no number, 401(k) is one", [93, 401]),
    ],
)
def test_numbers_in_digits_and_words(text: str, values: list[float]) -> None:
    numbers = [
        number.value for number in find_numerals(to_plain_text(text)) if number.kind != "article"
    ]
    assert numbers[: len(values)] == pytest.approx(values)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("**5** to __6__ `hours`", "5 to 6 hours"),
        ("$3{,}000 + 2{,}080 = 5{,}080$ dollars", "3,000 + 2,080 = 5,080 dollars"),
        ("$10$–$20$ minutes", "10-20 minutes"),
        ("costs $35–$50, or $40 (about $5 off)", "costs $35-$50, or $40 (about $5 off)"),
        (r"\(\frac{7500}{30} \approx 250\text{ days}\)", "(7500) / (30) ≈ 250 days"),
        (r"\$11{,}600 \text{ per year}", "$11,600 per year"),
        ("3*4 = 12 and 1½", "3 * 4 = 12 and 1 1/2"),
        ("[$5](https://example.org/9) <b>6</b>", "$5 6"),
        ("20ish minutes, six-ish, Irish", "20 minutes, six, irish"),
        ("about\u00a05 hours, 12\u202f500 kg", "about 5 hours, 12,500 kg"),
        ("<think>7 hours</think>8 hours", "8 hours"),
        ("<think>7 hours", ""),
        ("5»6 hours, «7» \uffe4 8 or 9¦10", '5"6 hours, "7" 8 or 9 10'),
        ("ten¹ 2³", "ten^1 2^3"),
        ("about 5\r\nhours", "about 5 hours"),
        ("| a | $5<br>$6 |", "| a | $5; $6 |"),
        (r"3 \times 4 \leq 12 \quad \therefore \left(5\right)", "3 * 4 ≤ 12 therefore (5)"),
    ],
)
def test_markup_is_taken_off(markup: str, text: str) -> None:
    assert " ".join(to_plain_text(markup).text.split()) == text


def test_blanks_are_one_blank_except_for_indentation() -> None:
    # Patterns that allow blanks around a comma take quadratic time where there are many.
    for blanks in ("    ", "\t\t", "\u00a0 \t"):
        text = to_plain_text(f"a{blanks}b{blanks}\n  c{blanks}").text
        assert text == "a b \n  c "


def test_bold_and_boxed_are_remembered() -> None:
    answer = to_plain_text("So **5 kg**, or $\\boxed{\\text{6 kg}}$.\n**7\n8")
    assert [answer.text[slice(*span)] for span in answer.bold] == ["5 kg", "7"]
    assert [answer.text[slice(*span)] for span in answer.boxed] == ["6 kg"]


def test_lines_know_their_section_list_label_and_column() -> None:
    text = "# Cost\nParts:\n- Gas: $5\n- Tires: $6\n\n| Item | Sum |\n|---|---|\n| All | $11 |"
    layout = Layout(to_plain_text(text))
    gas, tires, total = (
        layout.place(layout.text.index(amount), layout.text.index(amount) + 2)
        for amount in ("$5", "$6", "$11")
    )
    places = (gas.label, gas.line.section, total.label, total.column)
    written = [layout.text[slice(*place)].strip() for place in places]
    assert written == ["gas:", "parts:", "all", "sum"]
    assert gas.line.kind == "item"
    assert gas.line.blocks.keys() == tires.line.blocks.keys() != total.line.blocks.keys()


def test_sentences_end_at_stops_but_not_at_abbreviations() -> None:
    layout = Layout(to_plain_text("It is approx. 5 hours, e.g. by car. Then 6."))
    start = layout.text.index("5")
    place = layout.place(start, start + 1)
    assert layout.text[place.start : place.end].strip() == "it is approx. 5 hours, e.g. by car."


@pytest.mark.parametrize(
    ("unit", "text", "values"),
    [
        ("hour", "| Total | 14 h 30 |", [14.5]),
        ("hour", "0:50 + 2:30 = 3:20", [5 / 6, 2.5, 10 / 3]),
        ("minute", "just short of an hour, 55 minutes or so", [60, 55]),
        ("hour", "a bit over a full day - roughly 27 hours", [24, 27]),
        ("hour", "an hour, 20 minutes", [4 / 3]),
        ("day", "a week, two days", [9]),
        ("hour", "2:00 PM + 3 hours = 5:00 PM", [3]),
        ("minute", "ETA = 17:30", []),
        ("truck", "I'd go with five to be safe", [5]),
        ("truck", "At 8:30 rental trucks open.", []),
        ("dollar", "From $20 to 5:30", [20]),
        ("million dollar", r"roughly $\$1.5$ million", [1.5]),
        ("dollar", "USD 3,500–5,500", [4500]),
        ("hour", "22 hours via LAX, 24 via Dubai, or 32 via London", [22, 24, 32]),
    ],
)
def test_quantities_are_found_as_they_are_written(
    unit: str, text: str, values: list[float]
) -> None:
    found = find_quantities(to_plain_text(text), parse_unit(unit))
    assert [(mention.low + mention.high) / 2 for mention in found] == pytest.approx(values)


def test_a_dollar_of_another_country_is_a_bare_number() -> None:
    (found,) = find_quantities(to_plain_text("A$20"), parse_unit("dollar"))
    assert not found.size


@pytest.mark.parametrize("unit", ["", " ", "/", "dollar /", "5 kg", "million"])
def test_what_is_no_unit_is_refused(unit: str) -> None:
    with pytest.raises(InputError, match="write the name of a unit"):
        read_quantity("5 kg", unit)


RULES = [row for _, row in read_json_lines(ANSWERS / "quantities_rules.jsonl")]


@pytest.mark.parametrize("example", RULES, ids=lambda example: example["rule"])
def test_a_value_is_read_as_its_rule_says(example: dict[str, Any]) -> None:
    value = read_quantity(example["response"], example["unit"], example.get("prompt", ""))
    assert value == (example["value"] and pytest.approx(example["value"]))


AMOUNTS = st.integers(min_value=2, max_value=999_999)


@given(AMOUNTS, st.integers(min_value=0, max_value=99))
def test_thousands_and_decimals_round_trip(whole: int, cents: int) -> None:
    value = whole + cents / 100
    for written in (f"{value:,.2f}", f"{value:.2f}", f"**{value:,.2f}**"):
        assert read_quantity(f"The answer is ${written}.", "dollar") == pytest.approx(value)


@given(AMOUNTS)
def test_words_round_trip(number: int) -> None:
    text = f"The answer is {_spelled(number)} trucks."
    assert read_quantity(text, "truck") == pytest.approx(number)


def _spelled(number: int) -> str:
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10 - 2] + (f"-{ONES[number % 10]}" if number % 10 else "")
    size, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    rest = f" {_spelled(number % size)}" if number % size else ""
    return f"{_spelled(number // size)} {name}{rest}"


@given(
    st.integers(min_value=1, max_value=999),
    st.sampled_from([("k", 1e3), ("K", 1e3), ("M", 1e6), (" million", 1e6), ("bn", 1e9)]),
)
def test_scales_round_trip(number: int, scale: tuple[str, float]) -> None:
    value = read_quantity(f"The answer is ${number}{scale[0]}.", "dollar")
    assert value == pytest.approx(number * scale[1])


@given(AMOUNTS, AMOUNTS)
def test_the_middle_of_a_range(first: int, second: int) -> None:
    low, high = sorted((first, second))
    for written in (f"{low}-{high} hours", f"{low:,} to {high:,} hours"):
        value = read_quantity(f"The answer is {written}.", "hour")
        assert value == pytest.approx((low + high) / 2)


MARKS = "$ $$ - – ** | # \\boxed{ } \\frac{ \\ : = . / ( ) _ <br> % ~ ±"
WORDS = "5 1,000 ½ 30 hours a half million per kg k total if trucks AM and to between"
FRAGMENTS = (*MARKS.split(), *WORDS.split(), " ", "\n", "# ", "- ")  # pieces of answers
UNITS = st.sampled_from([question.unit for question in questions().values()])
PIECES = st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join)


@settings(deadline=None, max_examples=150)
@given(st.text() | PIECES, UNITS, st.text(max_size=20) | PIECES)
@example("\\boxed{", "kg", "{")
@example("|", "kg", "|")
@example("1/0 5/3 hours", "hour", "")
def test_no_text_raises(response: str, unit: str, prompt: str) -> None:
    value = read_quantity(response, unit, prompt)
    assert value is None or (math.isfinite(value) and value >= 0)


def test_a_long_word_takes_little_memory() -> None:
    text = to_plain_text("\N{LATIN SMALL LIGATURE FI}" * 20_000)  # becomes 40,000 letters
    tracemalloc.start()
    find_cues(text)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10e6  # it was 800 MB when each beginning of the word was looked up


def test_neither_pint_nor_the_patterns_are_loaded_before_they_are_needed() -> None:
    code = "import sys, pragworld_tasks.quantities as q; sys.exit({'pint', f'{q.__name__}.wording'} & {*sys.modules} != set())"
    subprocess.run([sys.executable, "-c", code], check=True)


# What is asked, a verb about it, and values in the words of a unit.
STATED = {
    "health_weight": ("someone of your weight", "lose", "{} kg", (2, 3.5, 7)),
    "health_prednisone": ("a supply of this size", "last", "{} days", (25, 190, 333)),
    "health_hike": ("a hike of this length", "burn", "{:,} calories", (600, 1800, 4000)),
    "logistics_deliveries": ("a route with that many stops", "take", "{} minutes", (45, 90, 420)),
    "logistics_trucks": ("a load of this size", "need", "{} trucks", (2, 4, 9)),
    "logistics_shipping": ("a shipment of this size", "cost", "${:,}", (1500, 3200, 14000)),
    "finance_tax": ("a single filer with your income", "owe", "${:,}", (1700, 4200, 14000)),
    "finance_car": ("a commute of this length", "cost", "${:,} per year", (3200, 5400, 9700)),
    "finance_rent": ("a fair rent", "run to", "${:,} a month", (1450, 1900, 2600)),
    "social_planning_sidewalks": ("this investment", "save", "${} million", (3, 12.5, 40)),
    "social_planning_meals": ("a program of this kind", "cost", "${} million", (120, 260, 415)),
    "social_planning_transport": ("a program of this kind", "cost", "${} million", (18, 45, 90)),
    "travel_miami": ("the trip from {} to Miami", "take", "{} hours", (4, 7.5, 13)),
    "travel_sydney": ("the trip from {} to Sydney", "take", "{} hours", (22, 24, 30)),
    "travel_commute": ("a {}-mile commute", "take", "{} minutes", (15, 35, 90)),
}
SENTENCES = """
{what} usually {verb}s {value}.|{what} {verb}s {value}.|{what} typically {verb}s {low} to {value}.
{what} often {verb}s {value}.|{what} would {verb} {value}.|{what} will {verb} {low} to {value}.
In practice {what} {verb}s {value}.|Most sources say that {what} {verb}s {value}.|Figure {value}.
You can expect {what} to {verb} {value}.|{value} is what {what} usually {verb}s.|About {value}.
{what} {verb}s {value} according to most calculators.|{what}, I think, {verb}s {value}.
Given what you describe, {what} {verb}s {value}.|{what} {verb}s {value} under normal conditions.
{what} {verb}s {value}, though it varies.|{what} {verb}s no more than {value}.|It {verb}s {value}.
For {what}, {value} is a realistic figure.
"""


def test_a_plain_sentence_is_read_whatever_its_words_are() -> None:
    misread, count = [], 0
    for (name, (what, verb, form, values)), sentence in itertools.product(
        STATED.items(), SENTENCES.strip().replace("\n", "|").split("|")
    ):
        question = questions()[name]
        slot, value = question.values[count % 3], values[count // 2 % 3]
        low = values[0] / 2
        written = {"value": form.format(value), "low": form.partition(" ")[0].format(low)}
        text = sentence.format(what=what.format(slot), verb=verb, **written)
        expected = (low + value) / 2 if "{low}" in sentence else value
        read = read_quantity(text, question.unit, fill_slot(question.prompt, slot))
        misread += [] if read == pytest.approx(expected, rel=0.01) else [(text, read)]
        count += 1
    assert count == 300
    assert len(misread) <= 3, misread


# The files named `development` are those that the weights are fitted to. The others were scored once.
@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("quantities_development", 0.95),
        ("quantities_fresh_development", 0.92),
        ("quantities_blind_development", 0.92),
        ("quantities_kept_aside", 0.95),
        ("quantities_fresh_kept_aside", 0.92),
    ],
)
def test_answers_as_models_write_them(name: str, least: float) -> None:
    rows = [row for _, row in read_json_lines(ANSWERS / f"{name}.jsonl")]
    right = invented = 0
    for row in rows:
        question, expected = questions()[row["task"]], row["value"]
        prompt = fill_slot(question.prompt, row["slot"])
        value = read_quantity(row["response"], question.unit, prompt)
        if value is None or expected is None:
            right += value is expected
            invented += expected is None and value is not None
        else:
            right += value == pytest.approx(expected, rel=0.01)
    assert right >= least * len(rows)
    assert invented <= 0.01 * len(rows)
