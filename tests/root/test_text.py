"""Reasoning is stripped in one way, as no reader takes a thought for an answer; diffs; CSV."""

import csv
import io
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pragworld_tasks.files import from_cell, to_csv
from pragworld_tasks.text import diff_lines, markdown_table, strip_reasoning

MARKS = [
    ("<think>", "</think>"),
    ("<Thinking>", "</thinking>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<reflection>", "</reflection>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
]
text = st.text("abc xyz.\n", max_size=12)


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_blocks_are_removed_and_unfinished_ones_are_no_answer(opening: str, closing: str) -> None:
    assert strip_reasoning(f"{opening}yes{closing}\n\nno") == "\n\nno"
    assert strip_reasoning(f"no\n{opening}yes?{closing}") == "no\n"
    assert strip_reasoning(f"yes at first{closing}no") == "no"
    assert strip_reasoning(f"{opening}a{opening}b{closing}no") == "no"
    assert strip_reasoning(f"{opening}a{closing}{opening}yes") == ""
    assert strip_reasoning(f"{opening}yes") == ""


@pytest.mark.parametrize(
    ("response", "stripped"),
    [
        ("<think>a</think><think>b", ""),
        ("text </reflection>no", "no"),
        ("<thinking>a<reflection>b</reflection>c yes", ""),
        ("<thinking>a<reflection>b</reflection>c</thinking>no", "no"),
        ("<think>a</thinking>no", "no"),
        ("analysisThe user wants yes.assistantfinalno", "no"),
        ("analysisThe user wants yes", ""),
        ("Analysis: no", "Analysis: no"),
        ("nothing to strip", "nothing to strip"),
    ],
)
def test_special_cases(response: str, stripped: str) -> None:
    assert strip_reasoning(response) == stripped


@given(text, st.sampled_from(MARKS), text)
@example("\na\na", ("<Thinking>", "</thinking>"), "")  # no heading without brackets
def test_what_is_behind_the_reasoning_is_kept(
    thought: str, marks: tuple[str, str], answer: str
) -> None:
    opening, closing = marks
    assert strip_reasoning(f"{opening}{thought}{closing}{answer}") == answer
    assert strip_reasoning(f"{thought}{closing}{answer}") == answer
    assert strip_reasoning(f"{answer}{opening}{thought}") == answer


@pytest.mark.parametrize("unit", ["<think>", "</think>", "<think></think>"])
def test_time_is_proportional_to_length(unit: str) -> None:
    assert strip_reasoning(unit * 200_000) == ""  # would take hours if it were quadratic


@pytest.mark.parametrize(
    ("original", "altered"),
    [
        ("Alice: all of them\nBob: yes", "Alice: some of them\nBob: yes"),
        ("one\ntwo\nthree", "one\nthree"),
        ("one\nthree", "one\na quite different line\nand another\nthree"),
        ("", "anything"),
        ("the same", "the same"),
    ],
)
def test_a_word_diff_holds_both_texts(original: str, altered: str) -> None:
    lines = diff_lines(original, altered)
    for text, change in ((altered, "removed"), (original, "added")):
        kept = ["".join(piece.text for piece in line if piece.change != change) for line in lines]
        assert [line for line in kept if line] == [line for line in text.split("\n") if line]
    marked = [piece for line in lines for piece in line if piece.change != "same"]
    assert bool(marked) == (original != altered)


def test_a_cell_of_a_table_may_hold_anything() -> None:
    assert r"b?\|c" in markdown_table("Runs", ["run"], [["b\x1b|c"]])


@given(st.lists(st.text("'=+-@\t\r\n1.e x|", max_size=5), min_size=1))
@example(["=1+1", "+1", "-1", "-", "-x", "@x", "'=x", "\t=x", "\r=x"])
def test_a_spreadsheet_finds_no_formula_in_csv_and_its_texts_are_read_back(
    texts: list[str],
) -> None:
    table = to_csv([{"=name": text, "number": -1} for text in texts], "\r\n")
    head, *rows = csv.reader(io.StringIO(table, newline=""))
    assert head == ["'=name", "number"]
    assert [from_cell(cell) for cell, _ in rows] == texts
    harmless = re.compile(r"[^=+\-@\t\r\n].*|[+-]?[\d.,]*(e[+-]?\d+)?", re.DOTALL)
    assert all(harmless.fullmatch(cell) for cell, _ in rows)
    assert {number for _, number in rows} == {"-1"}
