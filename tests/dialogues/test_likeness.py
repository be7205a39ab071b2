"""Test the figures that compare generated documents with the manual split."""

import doctest
import math
from dataclasses import replace

import likeness
import pytest
from likeness import (
    Figure,
    alteration_figures,
    frame,
    question_figures,
    text_figures,
    utterances,
)

from pragworld_tasks.data.documents import Document
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings


@pytest.fixture(scope="module")
def generated() -> list[Document]:
    return list(documents(generate(GeneratorSettings(groups=30))))


def test_the_examples_of_the_benchmark_run_as_shown() -> None:
    assert doctest.testmod(likeness).failed == 0


@pytest.mark.parametrize(
    ("text", "other", "is_one_frame"),
    [
        ("Where are the pears?", "where are the bath_towels", True),
        ("Mia left five of the red boxes in the hall.", "Tom left 12 of the blue mats in the den", True),
        ("There are two or three.", "there are four or five", True),
        ("Some of them are in the hall.", "some of them are in the tv_room.", True),
        ("Where are the pears?", "Where were the pears?", False),
        ("Are all of them there?", "Are some of them there?", False),
        ("She left them there.", "She left them in the hall.", False),
        ("The pears and the plums.", "The pears or the plums.", False),
        ("Mia said they are there.", "She said they are there.", False),
    ],
)  # fmt: skip
def test_a_frame_leaves_open_the_names_numbers_colors_and_nouns_and_nothing_else(
    text: str, other: str, is_one_frame: bool
) -> None:
    names = {"mia", "tom"}
    assert (frame(text, names) == frame(other, names)) is is_one_frame


def test_a_line_without_a_label_goes_on_with_the_utterance_before(
    generated: list[Document],
) -> None:
    context = "Person 1: Where is\nthe tea?\nPerson 2: In the hall\nand the den."
    document = replace(generated[0], context=context)
    assert utterances(document) == ["Where is the tea?", "In the hall and the den."]
    document = replace(generated[0], context="A: : Is it late?\nB: an: It\u2019s five.")
    assert utterances(document) == ["Is it late?", "It's five."]


def test_a_figure_is_like_another_within_a_fifth_or_two_points() -> None:
    assert Figure("turns", 12, 10).is_like
    assert not Figure("turns", 12.1, 10).is_like
    assert not Figure("turns", 7.9, 10).is_like
    assert Figure("flips", 3, 1.5, "%").is_like
    assert not Figure("flips", 3.6, 1.5, "%").is_like
    assert Figure("flips", 41, 50, "%").is_like


def test_a_source_is_like_itself_and_its_shares_add_up(generated: list[Document]) -> None:
    texts = text_figures(generated, generated)
    questions = question_figures(generated, generated)
    alterations = alteration_figures(generated, generated)
    # The last figure of the texts compares the manual split with a part of itself.
    for name, ours, theirs, _ in (*texts[:-1], *questions, *alterations):
        assert ours == theirs, name
    assert math.fsum(figure.manual for figure in questions) == pytest.approx(100)
    assert math.fsum(figure.manual for figure in alterations[1:8]) == pytest.approx(100)
    turns, words, words_of_one = (figure.manual for figure in texts[:3])
    assert words == pytest.approx(turns * words_of_one)
