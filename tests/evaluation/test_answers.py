"""Yes and no out of free text: what models write, what is no answer, and the released reading."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from json_lines import read_lines

from pragworld_tasks.evaluation.answers import read_answer, read_answer_released, unreadable_reason


def judged(name: str) -> list[tuple[str, str | None]]:
    """Responses with the answer that a person reads in them."""
    records = read_lines(Path(__file__).parents[1] / "answers" / name)
    return [(record["response"], record["answer"]) for record in records]


def test_answers_that_each_show_a_rule() -> None:
    """Forms that models write, what is no answer, and what only a careful person reads."""
    for response, answer in judged("yes_no_rules.jsonl"):
        assert read_answer(response) == answer, response
    for record in read_lines(Path(__file__).parents[1] / "answers" / "labels_rules.jsonl"):
        found = read_answer(record["response"], record["labels"])
        assert found == record["answer"], record
        assert bool(unreadable_reason(record["response"], None, record["labels"])) == (not found)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("yes_no_development.jsonl", 0.99),
        ("yes_no_kept_aside.jsonl", 0.97),
        ("yes_no_forms.jsonl", 0.98),
        ("yes_no_blind_kept_aside.jsonl", 0.98),
    ],
)
def test_judged_responses(name: str, least: float) -> None:
    """At least 97 % as a person judged, and none read as its opposite."""
    responses = judged(name)
    read = [(read_answer(response), answer) for response, answer in responses]
    assert sum(found == answer for found, answer in read) >= least * len(read)
    assert [pair for pair in read if set(pair) == {"yes", "no"}] == []


WRAPPED = [
    *("{}", "({})", "{})", "[{}]", "{{{}}}", '"{}"', "‘{}’", "**{}**", "*{}.*", "# {}", "`{}`"),
    *("{}.", "{}!", "（{}）", "【{}】", "Answer: {}", "Label:{}", "The answer is {}."),
    *("<answer>{}</answer>", "\\boxed{{{}}}", "<think>\nyes, no, maybe\n</think>\n\n{}"),
]
PIECES = [
    *("<think></think>", "yes, ", "so yes. ", "yes.", "no, wait, ", "the answer to ", "if ", "("),
    *("<|channel|>", "<foo>x</bar>", "a) yes b) no ", "| x | answer |\n---\n", "answer: no\n"),
    *("\n- yes", "A: b\n", "A 10%, ", "I don't know, ", "B, C or "),
]
answers = st.sampled_from(["yes", "no"])
full_width = str.maketrans(
    {chr(code): chr(code + 0xFEE0) for code in range(ord("!"), ord("~") + 1)}
)
Case = Callable[[str], str]
cases: st.SearchStrategy[Case] = st.sampled_from(
    [str.lower, str.upper, str.title, lambda word: word.translate(full_width)]
)


repeated = st.text(alphabet=".:*( \n\\<>/_yesnoaw r", min_size=1).map(lambda text: text * 300)


@settings(deadline=2000)  # milliseconds; a pattern that backtracks without end would take hours
@given(st.text() | repeated)
@example("<think>")
@example("<_>" * 60)
@example("Answer: " + "</_>" * 60)
@example("yes" + "(" * 5000)
def test_reading_never_raises_and_is_quick(text: str) -> None:
    assert read_answer(text) in ("yes", "no", None)
    assert read_answer_released(text) in ("yes", "no", None)


@given(answers, cases, st.sampled_from(WRAPPED))
def test_a_wrapped_answer_is_read_as_itself(answer: str, case: Case, wrapped: str) -> None:
    assert read_answer(wrapped.format(case(answer))) == answer


words = st.sampled_from(
    ["yes", "no", "(no)", "or", "and", "/", "Answer:", "label: yes", "\n", "**"]
)


@example("yes", str.lower, "{}", "(no)")
@given(answers, cases, st.sampled_from(WRAPPED), st.text() | st.lists(words).map(" ".join))
def test_an_explanation_never_changes_the_answer(
    answer: str, case: Case, wrapped: str, explanation: str
) -> None:
    # Reasoning that ends further down is no explanation, and a second label answers anew.
    explanation = re.sub(r"(?i)</|\s(label|answer):", "", explanation)
    assert read_answer(f"{wrapped.format(case(answer))}\nbecause {explanation} it is") == answer


separators = st.sampled_from([" ", ", ", ". ", "; ", ": ", "! ", " - ", " (", "\n"])
sentences = st.lists(
    st.sampled_from(["because", "Alice", "said", "so", "it", "is", "there", "or", "and"])
)


@given(answers, cases, separators, sentences)
def test_nor_does_an_explanation_on_the_same_line(
    answer: str, case: Case, separator: str, explanation: list[str]
) -> None:
    assert read_answer(case(answer) + separator + " ".join(explanation)) == answer


@given(
    st.text("bcdfgijklmpquvwxz aeh.,!?\n()*").filter(
        lambda text: not re.match(r"\W*(?:ja|da|ei)\b", text)  # other languages
    )
)
def test_text_without_any_word_that_answers_is_unreadable(text: str) -> None:
    assert read_answer(text) is None


@pytest.mark.parametrize("labels", [("yes", "no"), ("yes", "no", "don't know"), ("A", "B", "C")])
@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_length(
    piece: str, labels: tuple[str, ...]
) -> None:
    read_answer(piece * 20_000, labels)  # would take many minutes if it were quadratic


@pytest.mark.parametrize(
    ("response", "finish_reason", "reason"),
    [
        (None, None, "empty"),
        ("<think>Yes?</think>\n", None, "empty"),
        ("<seed:think>The answer is no. But", None, "unfinished reasoning"),
        ("thought\nThe answer is no. But", "length", "unfinished reasoning"),
        ("", "length", "cut off"),
        ("Bob went to the kitchen and then to the den, where he", None, "cut off"),
        ("I'm sorry, but I can't help with that.", "stop", "refusal"),
        ("", "content_filter", "refusal"),
        ("[ ] Yes [ ] No", "stop", "both"),
        ("It depends.", "stop", "no answer"),
        ("No.", "length", None),
        ([{"type": "thinking", "thinking": "No?"}, {"type": "text", "text": "Yes"}], None, None),
    ],
)
def test_why_none_is_read(response: Any, finish_reason: str | None, reason: str | None) -> None:
    assert unreadable_reason(response, finish_reason) == reason


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("(yes)\nbecause", "yes"),
        ("No)\nbecause", "no"),
        ("Yes, he did.", "yes"),
        ("no. He did not", "no"),
        ("**No**", None),
        ("Answer: yes", None),
        ("(Yes).", "yes"),
        ("", None),
    ],
)
def test_released_reading(response: str, answer: str | None) -> None:
    assert read_answer_released(response) == answer
