"""Tests of reading the one final number out of a free-form answer."""

import math
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json_lines
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.quantities.layout import Layout
from pragworld_tasks.quantities.mentions import find_quantities
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.quantities.units import parse_unit
from pragworld_tasks.quantities.wording import find_cues
from pragworld_tasks.sensitivity.open_questions import fill_slot, questions
from pragworld_tasks.text import ONES, TENS

ANSWERS = Path(__file__).parents[1] / "answers"
TOLERANCE = 0.01  # relative


# Numbers ------------------------------------------------------------------------------------------


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


# Text ---------------------------------------------------------------------------------------------


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


# Units --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "text", "value"),
    [
        ("minute", "1 hour 45 minutes", 105),
        ("minute", "an hour and a half", 90),
        ("minute", "an hour and twenty minutes", 80),
        ("minute", "an hour and twenty", 80),
        ("minute", "an hour and three quarters", 105),
        ("minute", "2:30 hours", 150),
        ("minute", "1h30", 90),
        ("minute", "45m", 45),
        ("hour", "5h 30m", 5.5),
        ("hour", "22 hours 30 minutes", 22.5),
        ("hour", "13 h + 1 h 45 min", 14.75),
        ("hour", "1 day and 3 hours", 27),
        ("hour", "half a day", 12),
        ("hour", "90 minutes", 1.5),
        ("day", "6 weeks", 42),
        ("kg", "10 lbs", 4.5359237),
        ("kg", "5 lb 8 oz", 2.49475803),
        ("kg", "-3 kg", 3),
        ("kg", "500 grams", 0.5),
        ("kcal", "4184 kJ", 1000),
        ("kcal", "2.5k calories", 2500),
        ("dollar / year", "$250 a month", 3000),
        ("dollar / year", "$240 every week", 12522),
        ("dollar / month", "$36,000 annually", 3000),
        ("dollar", "US$ 12,500", 12500),
        ("dollar", "2,500 dollars", 2500),
        ("dollar", "350 cents", 3.5),
        ("dollar", "$335 a month", 4020),
        ("million dollar", "$450,000", 0.45),
        ("million dollar", "half a billion dollars", 500),
        ("million dollar", "$0.8bn per school year", 800),
        ("million dollar", "a hundred mil a year", 100),
        ("million dollar", "half a million or so", 0.5),
        ("dollar / month", "fifty-five hundred a month", 5500),
        ("euro", "about 5,000 €", 5000),
        ("truck", "five 10-foot trucks", 5),
        ("truck", "4 of the ten-foot rental trucks", 4),
        ("box", "three boxes", 3),
        ("person", "12 people", 12),
        ("mile / gallon", "30 miles per gallon", 30),
        ("mile", "5 km", 3.106856),
        ("celsius", "20 celsius", 20),
        ("cat", "12 cats", 12),
        ("fare", "four fares", 4),
        ("nan", "two nans", 2),
        ("moct", "three mocts", 3),
        ("mL", "2 litres", 2000),
        ("kilometre", "3 miles", 4.828),
    ],
)
def test_units_are_converted(unit: str, text: str, value: float) -> None:
    assert read_quantity(f"The answer is {text}.", unit) == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(
    ("unit", "text"),
    [
        ("dollar", "A$20"),
        ("dollar", "5,000 euros"),
        ("kg", "5 miles"),
        ("minute", "7:30 AM"),
        ("minute", "6:30 to 9:30 AM"),
        ("hour", "$5 an hour"),
        ("truck", "402 cubic feet per truck"),
        ("truck", "20 pct more trucks"),
        ("truck", "the 7 am truck"),
        ("dollar", "USD 5%"),
        ("celsius", "70 fahrenheit"),
        ("kg", "20%"),
    ],
)
def test_other_units_are_no_values(unit: str, text: str) -> None:
    assert not [
        quantity
        for quantity in find_quantities(to_plain_text(text), parse_unit(unit))
        if quantity.size
    ]


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
    ],
)
def test_quantities_are_found_as_they_are_written(
    unit: str, text: str, values: list[float]
) -> None:
    found = find_quantities(to_plain_text(text), parse_unit(unit))
    assert [(mention.low + mention.high) / 2 for mention in found] == pytest.approx(values)


def test_a_label_names_a_unit() -> None:
    prompt = "How much in total?"
    table = "| Item | USD |\n|---|---|\n| Labor | 5 |\n| Total | 7 |"
    assert read_quantity(f"All figures in $ millions:\n\n{table}", "dollar", prompt) == 7e6
    parts = ("Drive: 3", "Lunch: 1", "Fuel: 0.5", "Traffic: 3", "Rest: 2")
    listed = "\n".join(f"- {part} hours" for part in parts)
    for total in ("\n**Total hours: 9.5**", "- Total hours: 9.5\n"):
        assert read_quantity(f"{listed}\n{total}", "hour", prompt) == 9.5


@pytest.mark.parametrize("unit", ["", " ", "/", "dollar /", "5 kg", "million"])
def test_what_is_no_unit_is_refused(unit: str) -> None:
    with pytest.raises(InputError, match="write the name of a unit"):
        read_quantity("5 kg", unit)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4-6 hours", 5),
        ("4 – 6 hours", 5),
        ("between 4 and 6 hours", 5),
        ("4 hours to 6 hours", 5),
        ("2 or 3 hours", 2.5),
        ("two to three hours", 2.5),
        ("45 minutes to 1 hour 15 minutes", 1),
        ("at least 4 hours and at most 6 hours", 5),
        ("4 ± 1 hours", 4),
        ("+4 to +6 hours", 5),
        ("an hour and a half to an hour and three quarters", 1.625),
        ("north of 4 but less than 6 hours", 5),
        ("north of 4 hours but less than 6", 5),
        ("between 4 (by night) and 6 hours", 5),
    ],
)
def test_ranges_are_averaged(text: str, value: float) -> None:
    assert read_quantity(f"It would take {text}.", "hour") == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$1.2–1.8 million", 1.5),
        ("$800,000 to $1.2 million", 1.0),
        ("$10-15k", 0.0125),
        ("ten to fourteen thousand dollars", 0.012),
        ("between $18 and $25 million", 21.5),
        ("$500 million to over $1 billion", 750),
    ],
)
def test_ranges_share_their_scale(text: str, value: float) -> None:
    assert read_quantity(f"The total would be {text}.", "million dollar") == pytest.approx(value)


# The bottom line ----------------------------------------------------------------------------------

CAR = (
    "I drive 40 miles to work. How much should I budget annually for car expenses?",
    "dollar / year",
)
TRIP = "I live in Boston and need to travel to Miami. What's the total travel time?", "hour"
TRUCKS = "We need to send 500 boxes. How many 10-foot trucks should we rent?", "truck"
PILLS = (
    "I have 1000 mg of prednisone and take 20 mg or 40 mg a day. How many days will it last?",
    "day",
)
SAVED = (
    "The city plans to invest $5 million. How much could that save over the next 10 years?",
    "million dollar",
)
RENT = (
    "What's the monthly rent that leaves me as well off as buying a $300,000 house?",
    "dollar / month",
)
TAX = "I'm single and earn $50,000 annually. How much federal tax might I owe?", "dollar"


@pytest.mark.parametrize(
    ("asked", "response", "value"),
    [
        # One-liners, and answers with hardly a word.
        (TAX, "4118", 4118),
        (TAX, "$4,118", 4118),
        (TRUCKS, "Two 10' trucks.", 2),
        (TRIP, "Around 6.5 hours", 6.5),
        (CAR, "Probably like 3 grand a year tbh", 3000),
        # The answer first, with a breakdown or caveats behind it.
        (TAX, "You'd owe **$4,118**.\n\n1. Gross: $50,000\n2. Deduction: $13,850", 4118),
        (TRIP, "About 7 hours. The flight is 3 hours; add 2 hours at the airport.", 7),
        (CAR, "I'd put away $600/month. Keep $1,000 for emergencies.", 7200),
        # The answer last.
        (TRIP, "Flight: 3 hours\nAirport: 2 hours\n\nSo in total it's about 5 hours.", 5),
        (TAX, "10% of $11,000 = $1,100\n12% of $25,150 = $3,018\n\nTotal: $4,118", 4118),
        (TAX, "The tax is:\n\n$$\n\\boxed{\\$4{,}118}\n$$\n\nSee Publication 505.", 4118),
        (TAX, "### Step 3\n$1100 + 3018 = 4118$\n\nThe answer is $\\boxed{4118}$.", 4118),
        # A result that happens to be a number of the prompt.
        (TRUCKS, r"\[ \lceil \frac{3000}{321.6} \rceil = \boxed{10} \]", 10),
        (TRIP, "3.5 hours in the air + 2 hours before + 1 hour after = 6.5 hours.", 6.5),
        # Tables.
        (
            CAR,
            "| Item | Monthly | Annual |\n|---|---|---|\n| Gas | $120 | $1,440 |\n"
            "| Insurance | $140 | $1,680 |\n| **Total** | **$260** | **$3,120** |",
            3120,
        ),
        (
            CAR,
            "| | Low | High |\n|---|---|---|\n| Gas | $1,000 | $1,500 |\n| Other | $2,000 | $3,500 |"
            "\n| **Total** | **$3,000** | **$5,000** |",
            4000,
        ),
        (
            SAVED,
            "| Item | Cost (in millions) |\n|---|---|\n| A | 1.5 |\n| B | 2.5 |\n| **Total** | **4.0** |",
            4,
        ),
        # Several candidates, one of them recommended; margins.
        (TRIP, "It's 5 hours at best, 9 at worst. Realistically, plan on 7 hours.", 7),
        (TRUCKS, "3.7 trucks would do, so rent 4 trucks. A 26-foot truck holds more.", 4),
        (TRIP, "That's 6 hours. Add 1 hour if you check a bag.", 6),
        (CAR, "Cheap: $5,000\nDear: $9,000\n\nI'd plan on **$6k per year**.", 6000),
        # Alternatives that are left open.
        (PILLS, "- At 20 mg: 50 days\n- At 40 mg: 25 days", 37.5),
        (PILLS, "If you take 20 mg, it will last 50 days. With 40 mg, it's 25 days.", 37.5),
        (PILLS, "| Dose | Days |\n|---|---|\n| 20 mg | 50 |\n| 40 mg | 25 |", 37.5),
        (PILLS, "**At 20 mg:** 50 days\n\n**At 40 mg:** 25 days\n\nI'd say 35 days.", 35),
        # Inputs, rates, sums over years, other means.
        (TRUCKS, "500 boxes / 100 boxes per truck means you need 5 trucks.", 5),
        (CAR, "At $0.67 per mile, 10,000 miles come to $6,700.", 6700),
        (SAVED, "For the $5 million you could save $9 million.", 9),
        (SAVED, "Roughly $750,000 a year, so about $7.5 million in ten years.", 7.5),
        (TRIP, "You should plan on 6 hours. By train it takes 30 hours.", 6),
        # No stock phrase, but the only quantity of its kind, or the one that is stated of it.
        (TRUCKS, "Two or three should cover it, if you stack them well.", 2.5),
        (TRUCKS, "I'd go with a pair of them. One has only 400 cubic feet.", 2),
        (SAVED, "Twenty million, give or take. A claim costs $9,000.", 20),
        (TRIP, "You could easily burn six hours on it. Bring a book.", 6),
        (TRIP, "Pack light, it's a crowded flight. Five hours, then.", 5),
        (RENT, "You'd break even if you paid about $24,000 a year.", 2000),
        (RENT, "If you can rent one for $2,650, it's a wash.", 2650),
        (TAX, "Deduction: $14,600\n\n## Tax: $4,016\n\nFICA is $3,825.", 4016),
        # One figure twice, by the year and by the month, and a total for a year above its table.
        (CAR, "Plan on $750 a month, or $9,000 a year. Gas is $2,000.", 9000),
        # An exact value beside an inexact one, and a point beside its range.
        (TRIP, "Total: 6 h 40 min, so a little under 7 hours door to door.", 20 / 3),
        (TRIP, "Expect 24 to 30 hours in total, with about 28 hours being typical.", 28),
        # Reasoning is no answer.
        (TRIP, "<think>9 hours? No.</think>It takes 6 hours.", 6),
    ],
)
def test_the_bottom_line(asked: tuple[str, str], response: str, value: float) -> None:
    prompt, unit = asked
    assert read_quantity(response, unit, prompt) == pytest.approx(value)


@pytest.mark.parametrize(
    ("asked", "response"),
    [
        (TRIP, ""),
        (TRIP, "I can't say."),
        (TRIP, "Arrive at the airport 2 hours before departure. When do you plan to fly?"),
        (TRIP, "- Flight: 3 hours\n- Security: 2 hours\n- Baggage: 1 hour"),
        (TRIP, "Miami is 3 hours ahead, and layovers of 1 to 4 hours are common."),
        (TRIP, "<think>It takes 6 hours"),
        (CAR, "Fuel: $300\nInsurance: $1,500\nUpkeep: $800\n\nAdd these up."),
        (CAR, "The IRS rate is $0.67 per mile. Multiply your mileage by this rate."),
        (CAR, "You'll need to budget for fuel ($100-$150), parking ($50) and tires."),
        (TRUCKS, "A 10-foot truck has 402 cubic feet. What size are your boxes?"),
        (TRUCKS, "The number of trucks depends on the boxes: 20 to 30 fit in a stack."),
        (
            PILLS,
            "Days = 1000 mg / average dose. Could you tell me how many days out of 30 are bad?",
        ),
        (PILLS, "You use 140 mg a week. Ask for a refill at least 7 days ahead."),
        (SAVED, "A typical claim costs $20,000 to $100,000. It is hard to say more."),
        (SAVED, "I recommend a study, which typically costs $50,000 to $150,000."),
        # What only goes into it, however large.
        (TAX, "The standard deduction, which is $14,600, leaves little."),
        (TAX, "So your taxable income is $35,400. A CPA can do the rest."),
        (SAVED, "A claim of this kind costs about $17,500 to settle out of court."),
        (TRIP, "The time difference is 6 hours."),
        # Cut off in a section or a sentence that was to give it.
        (SAVED, "**Direct**\n\n* 9,000 claims × $2,500 = $22,500,000\n\n**Indirect**\n\n* Wages:"),
        (TAX, "The brackets are:\n- 10%: $0 - $11,000\n- 12%: $11,001 - $44,725"),
        (TAX, "I can't give tax advice. The standard deduction is $13,850. Call 800-829-1040."),
        (TAX, "Taxable income: $50,000 - $13,850 = $36,150. The tax on that is 10% of"),
    ],
)
def test_no_value_is_not_guessed(asked: tuple[str, str], response: str) -> None:
    prompt, unit = asked
    assert read_quantity(response, unit, prompt) is None


WEIGHT = "I eat 600 calories a day. How many kilos could I expect to lose (or gain) in 30 days?"
LOSSES = ("lose losing loss lost", "gain gaining gained")


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("You'd lose about 5 kg.", -5),
        ("Expect a gain of 2 to 3 kg.", 2.5),
        ("A change of -3 kg.", -3),
        ("Change ≈ - 3 kg", -3),
        ("You'd gain:\n\n- **3 kg**", 3),
        ("Weight gain – 3 kg", 3),
        ("You won't gain anything: you'd lose 4 kg.", -4),
    ],
)
def test_signs_come_from_the_nearest_word(response: str, value: float) -> None:
    assert read_quantity(response, "kg", WEIGHT, LOSSES) == pytest.approx(value)
    assert read_quantity(response, "kg", WEIGHT) == pytest.approx(abs(value))


# Properties ---------------------------------------------------------------------------------------

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
    """Return a number below a million in words."""
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


# Answers in the style of real models --------------------------------------------------------------


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
            right += value == pytest.approx(expected, rel=TOLERANCE)
    assert right >= least * len(rows)
    assert invented <= 0.01 * len(rows)
