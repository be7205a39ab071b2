"""The prompts, to the letter, and their inverse."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from json_lines import read_lines

from pragworld_tasks.data.prompts import (
    conventions_prompt,
    evaluation_prompt,
    label_prompt,
    split_prompt,
)
from pragworld_tasks.data.sources import FILES

DOCUMENT = {"context": "A: Hi\nB: {question}", "question": "Did A say hi?"}


def test_prompt_1_is_the_papers() -> None:
    assert evaluation_prompt(DOCUMENT) == (
        "Read this conversation between Bob and Alice:\n"
        "A: Hi\nB: {question}\n"
        "\n"
        "Now based on your understanding of the conversation, answer the question below:\n"
        "Did A say hi?\n"
        "\n"
        "Answer this with only a (yes) or (no) in the first line and then explain your answer "
        "from the next line onwards.\n"
        "Your answer:\n"
        "("
    )


def test_the_conventions_are_three_sentences_before_prompt_1() -> None:
    prompt = conventions_prompt(DOCUMENT)
    assert prompt.endswith("\n\n" + evaluation_prompt(DOCUMENT))
    conventions = prompt.removesuffix("\n\n" + evaluation_prompt(DOCUMENT))
    assert "\n" not in conventions
    said, some, either = conventions.removesuffix(".").split(". ")
    assert said == "Answer no to what the conversation neither says nor implies"
    assert "not all" in some
    assert "exactly one" in either
    assert "answer no" in either


def test_prompt_2_is_that_of_the_released_run_file(released: Path) -> None:
    for line in read_lines(released / FILES["entity_tracking"].path):
        prompt = line["prompt"]
        context, question = split_prompt(prompt)
        assert label_prompt({"context": context, "question": question}) == prompt


@given(st.text(), st.text().filter(lambda text: "answer the question below" not in text))
def test_split_prompt_undoes_both(context: str, question: str) -> None:
    document = {"context": context, "question": question}
    assert split_prompt(evaluation_prompt(document)) == (context, question)
    assert split_prompt(label_prompt(document)) == (context, question)
