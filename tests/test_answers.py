"""Yes and no out of free text: what models write, what is no answer, and the released reading."""

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pragworld_tasks.data.sources import FILES
from pragworld_tasks.evaluation.answers import likelier_answer, read_answer, read_answer_released


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("(Yes)", "yes"),
        ("Yes)", "yes"),
        ("Yes)\nThe conversation says so.", "yes"),
        ("**No.**", "no"),
        ("__no__", "no"),
        ("`yes`", "yes"),
        ("Answer: yes", "yes"),
        ("label: No", "no"),
        ("**Answer:** No", "no"),
        ("Final answer:\n\n(no)", "no"),
        ("The answer is **yes**.", "yes"),
        ("The correct answer is (No).", "no"),
        ("So, the answer is: yes", "yes"),
        ("The answer to the question is no.", "no"),
        ("Answer - no", "no"),
        ("Final answer → no", "no"),
        ("I think the answer is yes.", "yes"),
        ("The most likely answer is no.", "no"),
        ("The answer is definitely yes.", "yes"),
        ("Conclusion: No", "no"),
        ('{"reasoning": "some are", "final_answer": "yes"}', "yes"),
        ("No watermelons are left in the garage, so the answer is yes.", "yes"),
        ("No apples were moved.\n\nFinal answer: yes", "yes"),
        ("No apples were moved.", "no"),
        ("No he did not.\n\nIs she sure?\nLabel: yes", "no"),
        ("<thought>yes</thought>\nno", "no"),
        ("<analysis>Yes, Bob said so.</analysis>\n<answer>no</answer>", "no"),
        ("<answer>no</answer><analysis>Yes, Bob said so.</analysis>", "no"),
        ("[THINK]yes[/THINK]No", "no"),
        ("◁think▷yes◁/think▷No", "no"),
        ("<|channel|>analysis<|message|>yes<|end|><|channel|>final<|message|>No", "no"),
        ("analysisWe need yesassistantfinalNo", "no"),
        ("### Answer\nNo, because he left", "no"),
        ("1. Yes", "yes"),
        ("2) No, he is not", "no"),
        ("So it is \\boxed{Yes}.", "yes"),
        ("No, no.", "no"),
        ("**No** **No**", "no"),
        ("Yes, yes.", "yes"),
        ("Answer: No. No.", "no"),
        ("No, and no one else is there.", "no"),
        ("Yes, and no one else was there", "yes"),
        ('{"answer": "yes"}', "yes"),
        ("```text\nno\n```", "no"),
        ("Answer (yes/no): no", "no"),
        ("yes, because Alice said no", "yes"),
        ("No, no apples are there", "no"),
        ("No\nAlice said yes or no", "no"),
        ("Yes\n\nAnswer: No", "yes"),
        ("NO", "no"),
        ("[yes]", "yes"),
        ("「no」", "no"),
        ("“Yes”", "yes"),
        ("> No", "no"),
        ("- yes", "yes"),
        ("Ｙｅｓ", "yes"),
        ("（Ｎｏ）。", "no"),
        ("\u200bYes\ufeff", "yes"),
        ("<answer>Yes</answer>", "yes"),
        ("$\\boxed{No}$", "no"),
        ("\\boxed{\\text{yes}}", "yes"),
        ("<think>Yes? No. Hmm.</think>\n\nNo", "no"),
        ("it was yes at first</think>no", "no"),
        ("Let me see.\n\nNo.", "no"),
        ("Based on the conversation, the answer is no.", "no"),
        ("The answer should only be a label i.e. either yes or no.\nLabel: yes", "yes"),
        ("(yes) or (no)\n(yes)", "yes"),
    ],
)
def test_answers_as_models_write_them(response: str, answer: str) -> None:
    assert read_answer(response) == answer


@pytest.mark.parametrize(
    "response",
    [
        "",
        "   \n",
        "Yes or no?",
        "(yes) or (no)",
        "yes/no",
        "(Yes) (No)",
        "Yes, no",
        "No and yes",
        "Answer: yes or no",
        "Choose one:\n(yes)\n(no)",
        "Neither yes nor no",
        "It is not clear",
        "Maybe yes",
        "I know nothing of yesterday",
        "If the answer is yes, then they are there",
        "No idea",
        "No-one knows",
        "No one knows.",
        "No problem! I shall look.",
        "The answer is no longer clear",
        "The answer is yes if Bob is right",
        "yes or no in the first line",
        "no way to tell",
        "<think>Yes, I think yes",
        "[THINK]Yes",
        "No mention of the oranges is made.",
        "Hm.\nThe answer is: yes.\nThe answer is: no.",
    ],
)
def test_what_is_no_answer_is_not_guessed(response: str) -> None:
    assert read_answer(response) is None


WRAPPED = [
    "{}",
    "({})",
    "{})",
    "[{}]",
    "{{{}}}",
    '"{}"',
    "‘{}’",
    "**{}**",
    "*{}.*",
    "# {}",
    "`{}`",
    "{}.",
    "{}!",
    "（{}）",
    "【{}】",
    "Answer: {}",
    "Label:{}",
    "The answer is {}.",
    "<answer>{}</answer>",
    "\\boxed{{{}}}",
    "<think>\nyes, no, maybe\n</think>\n\n{}",
]
answers = st.sampled_from(["yes", "no"])
full_width = str.maketrans(
    {chr(code): chr(code + 0xFEE0) for code in range(ord("!"), ord("~") + 1)}
)
Case = Callable[[str], str]
cases: st.SearchStrategy[Case] = st.sampled_from(
    [str.lower, str.upper, str.title, lambda word: word.translate(full_width)]
)


@given(st.text())
@example("<think>")
@example("<_>" * 60)
@example("Answer: " + "</_>" * 60)
@example("yes" + "(" * 5000)
def test_reading_never_raises(text: str) -> None:
    assert read_answer(text) in ("yes", "no", None)
    assert read_answer_released(text) in ("yes", "no", None)


@given(answers, cases, st.sampled_from(WRAPPED))
def test_a_wrapped_answer_is_read_as_itself(answer: str, case: Case, wrapped: str) -> None:
    assert read_answer(wrapped.format(case(answer))) == answer


words = st.sampled_from(
    ["yes", "no", "(no)", "or", "and", "/", "Answer:", "label: yes", "\n", "**"]
)


@given(answers, cases, st.sampled_from(WRAPPED), st.text() | st.lists(words).map(" ".join))
def test_an_explanation_never_changes_the_answer(
    answer: str, case: Case, wrapped: str, explanation: str
) -> None:
    # A reasoning block that ends further down is reasoning, not explanation.
    explanation = explanation.replace("</", "")
    assert read_answer(f"{wrapped.format(case(answer))}\n{explanation}") == answer


separators = st.sampled_from([" ", ", ", ". ", "; ", ": ", "! ", " - ", " (", "\n"])
sentences = st.lists(
    st.sampled_from(["because", "Alice", "said", "so", "it", "is", "there", "or", "and"])
)


@given(answers, cases, separators, sentences)
def test_nor_does_an_explanation_on_the_same_line(
    answer: str, case: Case, separator: str, explanation: list[str]
) -> None:
    assert read_answer(case(answer) + separator + " ".join(explanation)) == answer


@given(st.text().filter(lambda text: "yes" not in fold(text) and "no" not in fold(text)))
def test_text_without_either_word_is_unreadable(text: str) -> None:
    assert read_answer(text) is None


def fold(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).lower()
    return "".join(one for one in folded if unicodedata.category(one) != "Cf")


@settings(deadline=2000)  # milliseconds; a pattern that backtracks without end would take hours
@given(st.text(alphabet=".:*( \n\\<>/_yesnoaw r", min_size=1).map(lambda text: text * 300))
@example("<_>" * 60)
def test_reading_is_quick_whatever_is_repeated(text: str) -> None:
    read_answer(text)


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


@pytest.mark.parametrize("name", ["manual_gpt35_responses.jsonl", FILES["entity_tracking"].path])
def test_both_readings_agree_on_the_released_responses(released: Path, name: str) -> None:
    for line in (released / name).read_text(encoding="utf-8").splitlines():
        response = json.loads(line)["response"]
        assert read_answer(response) == read_answer_released(response) is not None


def test_the_likelier_answer() -> None:
    nan = float("nan")
    assert likelier_answer(-1.0, -2.0) == "yes"
    assert likelier_answer(-2.0, -1.0) == "no"
    assert likelier_answer(-1.0, -1.0) is None
    assert likelier_answer(nan, nan) is None
