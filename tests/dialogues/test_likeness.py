"""Test the figures that compare generated documents with the manual split."""

import doctest
import math
from dataclasses import replace

import likeness
import pytest
from likeness import Figure, Source, form_figures, frame, tables, told_apart, utterances

import pragworld_tasks as pt
from pragworld_tasks.data.documents import Document


@pytest.fixture(scope="module")
def generated() -> list[Document]:
    return pt.generate(groups=30)


def test_the_examples_of_the_benchmark_run_as_shown() -> None:
    assert doctest.testmod(likeness).failed == 0


@pytest.mark.parametrize(
    ("text", "other", "is_one_frame"),
    [
        ("Where are the pears?", "where are the bath_towels", True),
        ("Mia left five of the red boxes in the hall.", "Tom left 12 of the blue mats in the den", True),
        ("Some of them are in the hall.", "some of them are in the tv_room.", True),
        ("Where are the pears?", "Where were the pears?", False),
        ("Are all of them there?", "Are some of them there?", False),
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
    assert Figure("flips", 3, 1.5, "%").is_like
    assert Figure("flips", 41, 50, "%").is_like


def test_a_source_is_like_itself_and_its_shares_add_up(generated: list[Document]) -> None:
    figures = dict(tables(generated, generated))
    alterations = figures["alterations and answers"]
    # The last figure of the dialogues compares the manual split with a part of itself.
    for name, ours, theirs, *_ in (*figures["dialogues (originals)"][:-1], *alterations):
        assert ours == theirs, name
    for forms in ("forms of questions, originals", "forms of questions, variants"):
        assert math.fsum(figure.generated for figure in figures[forms][:-1]) <= 100.01
        assert figures[forms][-1].generated == pytest.approx(100)
    assert math.fsum(figure.manual for figure in alterations[:7]) == pytest.approx(100)


def test_questions_are_told_apart_by_their_forms_alone(generated: list[Document]) -> None:
    def asked(question: str) -> Source:
        return Source([replace(document, question=question) for document in generated])

    are, did = asked("Are the pears in the hall?"), asked("Did Mia put the plums in the den?")
    assert told_apart(are, asked("Are the plums in the den?")) == pytest.approx(50, abs=1)
    assert [figure[:3] for figure in form_figures(are, did)] == [
        *(("did NAME put the NOUN in the NOUN", 0, 100), ("are the NOUN in the NOUN", 100, 0)),
        ("all forms: shares in common", 0, 100),
    ]
