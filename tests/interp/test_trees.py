"""Token trees and batches, and attention over trees, branch by branch."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import LabelsOnly, small_model
from torch.nn.functional import scaled_dot_product_attention

from pragworld_interp.engine import tree_attention
from pragworld_interp.engine.agreement import supports_trees, tree_obstacle
from pragworld_interp.engine.decoder import Decoder, from_model
from pragworld_interp.engine.packing import build_tree, pack_trees, pad_prompts, token_batches
from pragworld_interp.engine.tree_attention import Span, TreeAttention, spans

PROMPTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=6)


@given(st.lists(PROMPTS, min_size=1, max_size=3))
def test_a_tree_has_every_beginning_once_and_shows_each_token_its_own(
    groups: list[list[list[int]]],
) -> None:
    """Every token has the mark that it has in its prompt padded alone."""
    marks = [[[token % 3 - 1 for token in prompt] for prompt in group] for group in groups]
    trees = [build_tree(group, own) for group, own in zip(groups, marks, strict=True)]
    batch = pack_trees(trees, torch.float32)
    rows = pad_prompts([*chain(*groups)], [*chain(*marks)])
    sees = batch.mask[:, 0] == 0
    number = 0
    for row, (tree, group) in enumerate(zip(trees, groups, strict=True)):
        assert len(tree.ids) == len({tuple(p[:end]) for p in group for end in range(1, len(p) + 1)})
        for path, prompt in zip(tree.paths, group, strict=True):
            assert path == sorted(path)  # a node stands behind its parent
            for depth, node in enumerate(path):
                assert sees[row, node].nonzero()[:, 0].tolist() == path[: depth + 1]
                assert batch.positions[row, node] == depth
            assert batch.ids[row, path].tolist() == prompt
            assert batch.ends[number].tolist() == [row, path[-1]]
            own = slice(0, len(prompt))
            assert rows.ids[number, own].tolist() == prompt
            assert rows.ends[number].tolist() == [number, len(prompt) - 1]
            assert rows.mask[number].sum() == rows.mask[number, own].sum() == len(prompt)
            assert rows.marks[number, own].tolist() == batch.marks[row, path].tolist()
            number += 1
        # Padding sees itself: a row that sees nothing has no softmax.
        assert sees[row].any(1).all()


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 50)), max_size=20), st.integers(1, 200))
def test_batches_keep_the_budget_and_have_little_padding(
    sizes: list[tuple[int, int]], budget: int
) -> None:
    made = list(token_batches(sizes, budget))
    order = [position for batch in made for position in batch]
    assert sorted(order) == list(range(len(sizes)))
    assert order == sorted(order, key=lambda position: -sizes[position][1])
    for batch in made:
        rows = sum(sizes[position][0] for position in batch)
        tokens = rows * max(sizes[position][1] for position in batch)
        assert tokens <= budget or len(batch) == 1
        assert tokens <= 1.05 * sum(sizes[position][0] * sizes[position][1] for position in batch)


def test_trees_longer_than_a_window_of_columns_are_tried() -> None:
    """GPT-Neo applies its window to columns, so prompts that fit it may still lie beyond it."""
    decoder = from_model(small_model("gpt_neo"), LabelsOnly())
    assert decoder.window == 64
    groups = [[[1, *range(7, 31)]], [[1, token, *range(8, 30)] for token in range(40, 44)]]
    longest = max(len(build_tree(prompts).ids) for prompts in groups)
    assert longest > decoder.window > max(len(prompt) for prompts in groups for prompt in prompts)
    assert not supports_trees(decoder, groups[1])
    obstacle = tree_obstacle(decoder, groups, longest)
    assert obstacle == "its residuals in a tree are not those of each prompt"
    assert tree_obstacle(decoder, groups, decoder.window) is None
    other = from_model(small_model("gemma3_text"), LabelsOnly())
    assert other.window == 64
    assert tree_obstacle(other, groups, longest) is None


@pytest.mark.parametrize(
    ("architecture", "attention", "why"),
    [
        ("mistral", "sdpa", "its layers see 64 tokens, and the longest prompt has 70"),
        ("phi3, longrope", "sdpa", "its rotary embeddings are those of the longest prompt beyond"),
        ("qwen3_next", "sdpa", "its residuals in a tree are not those of each prompt"),
        ("qwen2", "flash", "flash does not support the mask of a tree"),
    ],
)
def test_why_a_model_takes_no_trees(
    architecture: str, attention: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Decoder, "attention", attention)
    decoder = from_model(small_model(architecture), LabelsOnly())
    obstacle = tree_obstacle(decoder, [[[1, *range(7, 76)], [1, 9, 8]]], 70)
    assert obstacle is not None
    assert obstacle.startswith(why)


def a_tree(branches: int, length: int = 60) -> list[list[int]]:
    return [[1] * length + [2 + branch] * length for branch in range(branches)]


def sees_of(*groups: list[list[int]]) -> torch.Tensor:
    batch = pack_trees([build_tree(group) for group in groups], torch.float32)
    return batch.mask[:, 0] == 0


@given(st.lists(PROMPTS, min_size=1, max_size=3))
def test_spans_hold_every_query_once_and_every_key_that_it_sees(
    groups: list[list[list[int]]],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree_attention, "SHORTEST", 1)
        patch.setattr(tree_attention, "LONGEST", 3)
        patch.setattr(tree_attention, "WORTHWHILE", 1.0)
        sees = sees_of(*groups)
        found = spans(sees)
    columns = list(range(sees.shape[1]))
    assert [column for span in found for column in columns[span.queries]] == columns
    for span in found:
        seen = sees[:, span.queries].any((0, 1)).nonzero()[:, 0].tolist()
        assert set(seen) <= set(span.keys.tolist()) <= set(columns)


def test_a_tree_of_many_branches_is_taken_branch_by_branch_where_that_saves_much() -> None:
    found = spans(sees_of(a_tree(5)))
    assert [span.queries for span in found] == [
        slice(start, start + 60) if start else slice(0, 120) for start in (0, 120, 180, 240, 300)
    ]
    assert [len(span.keys) for span in found] == [120] * 5
    for group in (a_tree(1), [list(range(600))]):
        (span,) = spans(sees_of(group))
        assert span.queries == slice(0, len(span.keys))


def test_other_attention_is_left_alone() -> None:
    found = [Span(slice(0, 3), torch.arange(3)), Span(slice(3, 5), torch.arange(5))]
    query, key = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
    with TreeAttention(found):
        causal = scaled_dot_product_attention(query, key, key, is_causal=True)
    expected = scaled_dot_product_attention(query, key, key, is_causal=True)
    torch.testing.assert_close(causal, expected, rtol=0, atol=0)
