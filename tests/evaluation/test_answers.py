"""Yes and no out of free text: what models write, what is no answer, and the released reading."""

import json
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
        "No conclusion can be drawn.",
        "No definitive answer is possible.",
        "No lo sé con certeza.",
        "No se puede saber.",
        'The answer "yes" is wrong.',
        "The answer yes is incorrect.",
        "**Yes** is not correct.",
        "No is definitely not the right answer.",
        '"Yes" cannot be the answer.',
        '"Yes" is the wrong answer.',
        'The answer "yes" is not quite right.',
        "Yes won't be correct.",
        '"No" is not necessarily true.',
        "Hm.\nThe answer is: yes.\nThe answer is: no.",
    ],
)
def test_what_is_no_answer_is_not_guessed(response: str) -> None:
    assert read_answer(response) is None


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("There are no apples left, so (yes).", "yes"),
        ("Therefore: (No)", "no"),
        ("So (no)", "no"),
        ("Not enough information, so no.", "no"),
        ("I cannot determine. No.", "no"),
        ("Let me re-read.\n\nYes, Alice knows.", "yes"),
        ("Reasoning: x\n\nNo, she does not.", "no"),
        ("Based on the conversation, Alice does have the book, so yes.", "yes"),
        ("I would say no", "no"),
        ("In conclusion, yes, she has it", "yes"),
        ("Thus, no.", "no"),
        ("Well, yes.", "yes"),
        ("Definitely yes.", "yes"),
        ("Probably not.", "no"),
        ("Yes/No: Yes", "yes"),
        ("Does Alice have the book? No.", "no"),
        ("A: yes", "yes"),
        ("Assistant: No)", "no"),
        ("<|assistant|> yes", "yes"),
        ("[/INST] No)", "no"),
        ("Nope", "no"),
        ("Yep", "yes"),
        ('No apples were eaten by Bob, so the answer to "were apples left" is yes', "yes"),
        ("Yes... wait, no.", "no"),
        ("No)\nWait, I misread it. The correct answer is (yes).", "yes"),
        ("Answer: no\n\nQuestion: Is Bob there?\nAnswer: yes", "no"),
        ("No. Bob says the answer is yes.", "no"),
        ("Yes\nFinal answer: No", "no"),
        # Questions that the model asks itself on the way.
        ("Was Bob there? Yes. Did he move it? No. So the answer is no.", "no"),
        ("- Did Bob go? Yes\n- Did Alice go? No\nAnswer: no", "no"),
        ("Is the den mentioned? No.\nIs the attic mentioned? Yes.\nSo the answer is: yes", "yes"),
        # What is denied or doubted, and somebody else's answer.
        ("I don't believe the answer is yes.", None),
        ("It is not clear that the answer is yes.", None),
        ("No evidence suggests the answer is yes.", None),
        ("Bob's answer is no.", None),
        ("His reply: yes", None),
        ("Bob's answer was no, so they are in the den. The answer is yes.", "yes"),
        ("The conversation does not say it, but the answer is yes.", "yes"),
        # Conditions, questions and contradictions, however they are punctuated.
        ("Yes if", None),
        ("Yes, if Bob told the truth.", None),
        ("No, unless Bob lied.", None),
        ("If Bob is right, the answer is yes.", None),
        ("Yes?", None),
        ("yes or no?", None),
        ("Yes, but no", None),
        ("The answer is yes because he has it. The answer is no because he has not.", None),
        ("Alice said yes.", None),
        ("Alice: Is it there?\nBob: No, it is not.", None),
        ("Sure, I can help with that!", None),
        ('"No" would be wrong; yes.', "yes"),
        ("No is correct.", "no"),
        ("No, that is wrong.", "no"),
        ("Yes, it is not true that he left.", "yes"),
    ],
)
def test_answers_as_careful_people_read_them(response: str, answer: str | None) -> None:
    assert read_answer(response) == answer


def judged(name: str) -> list[tuple[str, str | None]]:
    """Responses with the answer that a person reads in them."""
    lines = (Path(__file__).parents[1] / "answers" / name).read_text(encoding="utf-8").splitlines()
    return [(record["response"], record["answer"]) for record in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("name", "least"), [("yes_no_development.jsonl", 0.99), ("yes_no_kept_aside.jsonl", 0.97)]
)
def test_judged_responses(name: str, least: float) -> None:
    """At least 97 % as a person judged, and none read as its opposite."""
    responses = judged(name)
    read = [(read_answer(response), answer) for response, answer in responses]
    assert sum(found == answer for found, answer in read) >= least * len(read)
    assert [pair for pair in read if set(pair) == {"yes", "no"}] == []


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


@given(st.text("bcdfgijklmpquvwxz aeh.,!?\n()*").filter(lambda text: "y" not in text))
def test_text_without_any_word_that_answers_is_unreadable(text: str) -> None:
    assert read_answer(text) is None


@settings(deadline=2000)  # milliseconds; a pattern that backtracks without end would take hours
@given(st.text(alphabet=".:*( \n\\<>/_yesnoaw r", min_size=1).map(lambda text: text * 300))
@example("<_>" * 60)
def test_reading_is_quick_whatever_is_repeated(text: str) -> None:
    read_answer(text)


PIECES = [
    "<think></think>",
    "yes, ",
    "so yes. ",
    "yes.",
    "no, wait, ",
    "the answer to ",
    "if ",
    "(",
]


@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_length(piece: str) -> None:
    read_answer(piece * 50_000)  # would take many minutes if it were quadratic


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


def test_where_both_readings_differ_on_the_released_responses_of_all_models(released: Path) -> None:
    """Three of 10,640: Table 3 counts them as yes, the released first-line reading does not."""
    differences = []
    for path in sorted((released / "responses").glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            ours, theirs = read_answer(record["response"]), read_answer_released(record["response"])
            if ours != theirs:
                differences.append((path.stem, record["row"], record["response"], ours))
    model = "entity_tracking_DeepSeek-Coder-V2-Lite-Instruct"
    assert differences == [(model, row, " Label: yes", "yes") for row in (24, 29, 49)]


def test_the_likelier_answer() -> None:
    nan = float("nan")
    assert likelier_answer(-1.0, -2.0) == "yes"
    assert likelier_answer(-2.0, -1.0) == "no"
    assert likelier_answer(-1.0, -1.0) is None
    assert likelier_answer(nan, nan) is None
