"""Attention over trees, computed branch by branch."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import LabelsOnly, small_model
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from pragworld_interp.engine import sweep, tree_attention
from pragworld_interp.engine.ablation import ablated_logits
from pragworld_interp.engine.decoder import from_model
from pragworld_interp.engine.interventions import Ablation
from pragworld_interp.engine.packing import build_tree, pack_trees
from pragworld_interp.engine.tree_attention import Span, TreeAttention, spans
from pragworld_tasks.layers.settings import every_layer


def a_tree(branches: int, length: int = 60) -> list[list[int]]:
    """Return prompts that share their first tokens."""
    return [[1] * length + [2 + branch] * length for branch in range(branches)]


def sees_of(*groups: list[list[int]]) -> torch.Tensor:
    batch = pack_trees([build_tree(group) for group in groups], torch.float32)
    return batch.mask[:, 0] == 0


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=6),
        min_size=1,
        max_size=3,
    )
)
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


def test_a_tree_of_many_branches_is_taken_branch_by_branch() -> None:
    found = spans(sees_of(a_tree(5)))
    assert [span.queries for span in found] == [
        slice(start, start + 60) if start else slice(0, 120) for start in (0, 120, 180, 240, 300)
    ]
    assert [len(span.keys) for span in found] == [120] * 5


def test_where_little_is_saved_there_is_one_span() -> None:
    for group in (a_tree(1), [list(range(600))]):
        sees = sees_of(group)
        (span,) = spans(sees)
        assert (span.queries, span.keys.tolist()) == (
            slice(0, sees.shape[1]),
            [*range(sees.shape[1])],
        )


def test_attention_is_the_same() -> None:
    sees = sees_of(a_tree(5), a_tree(4))
    query, key, value = torch.randn(3, 2, 2, sees.shape[1], 8)
    found = spans(sees)
    assert len(found) > 1
    mask = torch.zeros(sees.shape).masked_fill(~sees, -1e9)[:, None]
    for each in (mask, sees[:, None]):
        expected = scaled_dot_product_attention(query, key, value, attn_mask=each, scale=0.5)
        with TreeAttention(found):
            together = scaled_dot_product_attention(query, key, value, attn_mask=each, scale=0.5)
            of_one = scaled_dot_product_attention(
                query[1:], key[1:], value[1:], each[1:], scale=0.5
            )
        torch.testing.assert_close(together, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(of_one, expected[1:], rtol=0, atol=1e-5)


def test_other_attention_is_left_alone() -> None:
    found = [Span(slice(0, 3), torch.arange(3)), Span(slice(3, 5), torch.arange(5))]
    query, key = torch.randn(1, 1, 4, 8), torch.randn(1, 1, 4, 8)
    with TreeAttention(found):
        causal = scaled_dot_product_attention(query, key, key, is_causal=True)
    expected = scaled_dot_product_attention(query, key, key, is_causal=True)
    torch.testing.assert_close(causal, expected, rtol=0, atol=0)


class Scores(TorchFunctionMode):
    """A mode that counts the scores that attention computes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is scaled_dot_product_attention:
            query, key = args[:2]
            self.count += query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2]
        return function(*args, **(kwargs or {}))


def test_sweeps_go_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = from_model(small_model("qwen2"), LabelsOnly())
    batch = pack_trees([build_tree(a_tree(6, 35))], torch.float32)
    ablation = Ablation("mlp", every_layer(3))
    with Scores() as scores:
        logits = ablated_logits(decoder, batch, ablation, chunk=300)
    length = batch.ids.shape[1]
    everything = [Span(slice(0, length), torch.arange(length))]
    monkeypatch.setattr(sweep, "spans", lambda _: everything)
    with Scores() as plain_scores:
        plain = ablated_logits(decoder, batch, ablation, chunk=300)
    torch.testing.assert_close(logits, plain, rtol=0, atol=1e-4)
    assert scores.count < 0.4 * plain_scores.count
