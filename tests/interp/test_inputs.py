"""What goes into a sweep: layers, examples, and positions of prompts and of pairs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_reports import make_documents

from pragworld_interp.prompts.alignment import (
    align_altered,
    align_tokens,
    align_utterances,
    counterpart_pairs,
    counterparts,
    patching_pairs,
    position_kinds,
)
from pragworld_interp.prompts.examples import document_examples, fingerprint
from pragworld_interp.prompts.parts import PromptParts, find_parts, select_positions
from pragworld_interp.prompts.tokenization import PromptGroup
from pragworld_interp.run.inputs import choose_targets
from pragworld_tasks import generate
from pragworld_tasks.layers.settings import Target, check_positions

TOKENS = st.lists(st.integers(0, 5), max_size=20)
DOCUMENTS = document_examples(generate(groups=1))[:2]


@pytest.mark.parametrize(
    "layers", [np.array([1, 0]), [np.int64(1), [np.int32(0)]], iter([1, 0]), [(1,), 0]]
)
def test_numbers_of_any_kind_are_layers(layers: Any) -> None:
    targets = choose_targets(layers, 3)
    assert targets == (Target((1,)), Target((0,)))
    assert {type(layer) for target in targets for layer in target.layers} == {int}


def test_a_fingerprint_is_of_everything_in_the_prompts() -> None:
    examples = document_examples(make_documents([2, 2]))
    last = examples[-1]
    changes: list[dict[str, Any]] = [
        {"text": f"{last.text} "},
        {"row": 9},
        {"group": 9},
        {"alteration": "other"},
        {"effect": "other"},
        {"answer": "other"},
        {"split": "synthetic"},
        {"labels": ("a", "b")},
    ]
    others = [[*examples[:3], replace(last, **change)] for change in changes]
    found = {fingerprint(own) for own in (examples, examples[:3], *others)}
    assert len(found) == 2 + len(changes)
    assert fingerprint(examples) == fingerprint(document_examples(make_documents([2, 2])))
    assert all(len(one) == 64 for one in found)


def test_a_prompt_without_the_dialogue_as_it_is_has_no_parts() -> None:
    assert find_parts("HI YOU. Who?", "Hi you.", "Who?", [(0, 2), (2, 7), (8, 12)]) == PromptParts()


@given(
    length=st.integers(1, 12),
    start=st.none() | st.integers(-15, 15),
    stop=st.none() | st.integers(-15, 15),
)
def test_a_span_is_a_slice(length: int, start: int | None, stop: int | None) -> None:
    span = f"{'' if start is None else start}:{'' if stop is None else stop}"
    check_positions(span)
    expected = list(range(length))[start:stop]
    assert sorted(select_positions(span, length, PromptParts())) == expected


ORIGINAL = [1, 20, 21, 22, 9, 30, 31, 32, 9, 40, 41]
ALTERED = [1, 20, 25, 26, 9, 30, 31, 33, 32, 9, 40, 42]
#          BOS  altered          inserted          question, last
PARTS_OF_ORIGINAL = PromptParts(
    (frozenset({1, 2, 3, 4}), frozenset({5, 6, 7}), frozenset({8})), frozenset({9})
)
PARTS_OF_ALTERED = PromptParts(
    (frozenset({1, 2, 3, 4}), frozenset({5, 6, 7, 8}), frozenset({9})), frozenset({10})
)


@pytest.mark.parametrize(
    ("positions", "expected"),
    [
        ("all", [(0, 0), (1, 1), (4, 4), (5, 5), (6, 6), (7, 8), (8, 9), (9, 10)]),
        ("dialogue", [(1, 1), (4, 4), (5, 5), (6, 6), (7, 8), (8, 9)]),
        ("question", [(9, 10)]),
        ("last", [(10, 11)]),  # whatever the tokens are
        ("altered", [(2, 2), (3, 3), (10, 11)]),
        ("utterance", [(1, 1), (4, 4), (5, 5), (6, 6), (7, 8)]),
        ("8:", [(8, 9), (9, 10)]),
        ("-3:", [(8, 9), (9, 10)]),
        (":5", [(0, 0), (1, 1), (4, 4)]),
        ("7:8", []),  # 7 is aligned with 8
    ],
)
def test_positions_of_a_pair(positions: str, expected: list[tuple[int, int]]) -> None:
    documents = [replace(DOCUMENTS[0], is_original=False), replace(DOCUMENTS[1], is_original=True)]
    group = PromptGroup(
        tuple(documents), (ALTERED, ORIGINAL), (PARTS_OF_ALTERED, PARTS_OF_ORIGINAL)
    )
    (pair,) = patching_pairs(group, positions)
    assert (pair.target, pair.source) == (1, 0)
    assert sorted(pair.alignment) == expected
    (reverse,) = patching_pairs(group, positions, into="altered")
    assert (reverse.target, reverse.source) == (0, 1)
    assert sorted(reverse.alignment) == sorted((source, at) for at, source in expected)
    assert counterpart_pairs(group, positions) == [reverse, pair]
    assert counterparts(group) == [1, 0]
    # rest, dialogue, question, altered, last
    assert position_kinds(group)[1] == [0, 1, 3, 3, 1, 1, 1, 1, 1, 2, 4]


def test_replaced_stretches_are_paired_from_the_right() -> None:
    assert align_altered([1, 2, 3, 4, 9], [1, 8, 9]) == [(3, 1)]
    assert align_altered([1, 2, 9], [1, 6, 7, 8, 9]) == [(1, 3)]
    assert align_altered([1, 9], [1, 5, 9]) == align_altered([1, 5, 9], [1, 9]) == []


@given(original=TOKENS, altered=TOKENS)
def test_altered_tokens_and_aligned_ones_are_apart(original: list[int], altered: list[int]) -> None:
    aligned, differing = align_tokens(original, altered), align_altered(original, altered)
    assert all(original[target] == altered[source] for target, source in aligned)
    both = sorted(aligned + differing)
    assert [source for _, source in both] == sorted({source for _, source in both})
    assert len({target for target, _ in both}) == len(both)
    if len(original) == len(altered) and not aligned:
        assert both == [(place, place) for place in range(len(original))]


@given(original=TOKENS, altered=TOKENS)
def test_the_rest_of_utterances_is_aligned(original: list[int], altered: list[int]) -> None:
    lines = [
        PromptParts((frozenset(range(len(own) // 2)), frozenset(range(len(own) // 2, len(own)))))
        for own in (original, altered)
    ]
    rest = align_utterances(original, altered, *lines)
    assert set(rest) <= set(align_tokens(original, altered))
    assert align_utterances(original, original, lines[0], lines[0]) == []
