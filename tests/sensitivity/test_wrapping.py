"""What models put around a text: removed where it can be told from the text, found elsewhere."""

import json
from pathlib import Path

import pytest
from chat_server import INSEPARABLE, WRAPPINGS
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.cli import main
from pragworld_tasks.sensitivity.open_questions import questions
from pragworld_tasks.sensitivity.paraphrases import find_fault, shipped_paraphrases
from pragworld_tasks.sensitivity.wrapping import find_wrapping, unwrap

TEXTS = [
    (question.prompt, paraphrase.text)
    for question in questions().values()
    for paraphrase in shipped_paraphrases(question.name)
    if '"' not in paraphrase.text
]
# Quotation marks within quotation marks are rejected.
ANY_TEXT = st.sampled_from(TEXTS)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@given(ANY_TEXT)
def test_a_text_is_unwrapped(wrapping: str, wording: tuple[str, str]) -> None:
    prompt, text = wording
    wrapped = wrapping.format(text)
    assert unwrap(wrapped, prompt) == text
    assert find_fault(prompt, wrapped) is not None


@given(ANY_TEXT, st.sampled_from(WRAPPINGS), st.sampled_from(WRAPPINGS + INSEPARABLE))
def test_nothing_wrapped_twice_or_inseparably_is_taken_for_a_paraphrase(
    wording: tuple[str, str], outer: str, inner: str
) -> None:
    prompt, text = wording
    for wrapped in (inner.format(text), outer.format(inner.format(text))):
        assert find_fault(prompt, wrapped) is not None
        unwrapped = unwrap(wrapped, prompt)
        assert unwrapped == text or find_fault(prompt, unwrapped) is not None


@pytest.mark.parametrize(
    "prompt",
    [
        "Translation: what would {pages} pages cost? I need a certified translator.",
        '"How far is {town}?" is what I was asked. What do I say?',
        "**Briefly**: how far is {town}? (Note the distance in miles.)",
        "Sure! How far is `{town}`?",
        "1. How far is {town}?",
    ],
)
def test_what_the_prompt_has_itself_is_part_of_the_text(prompt: str) -> None:
    assert unwrap(prompt, prompt) == prompt
    assert find_wrapping(prompt, prompt) is None
    longer = f"{prompt} Please tell me."
    assert unwrap(longer, prompt) == longer


@given(st.text(alphabet="{city} *`\"'#:\n()[]Note translation<>", max_size=80))
def test_unwrapping_ends_and_is_done_once(reply: str) -> None:
    text = unwrap(reply, "How far is {city}?")
    assert unwrap(text, "How far is {city}?") == text


def test_check_paraphrases_finds_wrapped_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    texts = [
        "Here is the translation: how long is the way from {city}?",
        "**From {city}** to Rome, what time is needed?",
        "```If I set out in {city}, when will I be there?```",
        "My home is {city}. Rome is how many hours off?",
    ]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    with pytest.raises(SystemExit) as ended:
        main(["check-paraphrases", str(path), "--prompt", "How long do I travel from {city}?"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.splitlines() == [
        f"1: a preface, a note or marks around the text: {texts[0]}",
        f"2: formatting or quotation marks: {texts[1]}",
        f"3: a preface, a note or marks around the text: {texts[2]}",
        "4 paraphrases, 3 faults",
    ]
