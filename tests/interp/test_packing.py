"""Token trees, padding, and batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import LabelsOnly, small_model

from pragworld_interp.engine import packing
from pragworld_interp.engine.agreement import supports_trees, tree_obstacle
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.engine.packing import (
    build_tree,
    pack_trees,
    pad_prompts,
    token_batches,
)

PROMPTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=6)


@given(PROMPTS)
def test_a_tree_spells_its_prompts_and_has_every_beginning_once(prompts: list[list[int]]) -> None:
    tree = build_tree(prompts)
    assert [[tree.ids[node] for node in path] for path in tree.paths] == prompts
    beginnings = {tuple(prompt[:end]) for prompt in prompts for end in range(1, len(prompt) + 1)}
    assert len(tree.ids) == len(beginnings)
    for path in tree.paths:
        assert path == sorted(path)  # a node stands behind its parent


@given(st.lists(PROMPTS, min_size=1, max_size=3))
def test_in_a_packed_tree_every_token_sees_its_own_beginning_and_nothing_else(
    groups: list[list[list[int]]],
) -> None:
    trees = [build_tree(group) for group in groups]
    batch = pack_trees(trees, torch.float32)
    sees = batch.mask[:, 0] == 0
    number = 0
    for row, (tree, group) in enumerate(zip(trees, groups, strict=True)):
        for path, prompt in zip(tree.paths, group, strict=True):
            for depth, node in enumerate(path):
                assert sees[row, node].nonzero()[:, 0].tolist() == path[: depth + 1]
                assert batch.positions[row, node] == depth
            assert batch.ends[number].tolist() == [row, path[-1]]
            assert batch.ids[row, path].tolist() == prompt
            number += 1
        # Padding sees itself: a row that sees nothing has no softmax.
        assert sees[row].any(1).all()


@given(PROMPTS)
def test_the_history_of_a_token_is_the_same_packed_and_padded(prompts: list[list[int]]) -> None:
    tree = pack_trees([build_tree(prompts)], torch.float32)
    rows = pad_prompts(prompts)
    for number, prompt in enumerate(prompts):
        row, end = rows.ends[number].tolist()
        own = rows.history[row, end - len(prompt) + 1 : end + 1]
        path = build_tree(prompts).paths[number]
        assert own.tolist() == tree.history[0, path].tolist()
        assert rows.ids[row, end - len(prompt) + 1 : end + 1].tolist() == prompt
        assert rows.positions[row, end] == len(prompt) - 1
        assert rows.mask[row].sum() == len(prompt)


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


def test_a_model_that_ignores_the_mask_does_not_take_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = from_model(small_model("llama"), LabelsOnly())
    prompts = [[1, 2, 3, 4, 5], [1, 2, 3, 5, 4, 2]]
    assert supports_trees(decoder, prompts)
    plain = packing.additive_mask
    monkeypatch.setattr(
        packing,
        "additive_mask",
        lambda attends, dtype: plain(torch.ones_like(attends).tril(), dtype),
    )
    assert not supports_trees(decoder, prompts)


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
