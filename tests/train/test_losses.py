"""The losses of layer-regularized fine-tuning, compared with numbers computed by hand."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.errors import InputError
from pragworld_train.hooks import token_mask
from pragworld_train.losses import LabelProbe, at_ends, hls_loss, ula_loss

OUTPUT = torch.tensor([[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]], [[0.0, 1.0], [9.0, 9.0], [9.0, 9.0]]])
MASK = torch.tensor([[True, True, False], [True, False, False]])


def test_hls_is_the_mean_square_over_tokens_and_features() -> None:
    # (1 + 4) + (9 + 16) + (0 + 1) over three tokens, of two features each
    assert hls_loss(OUTPUT, MASK).item() == pytest.approx(31 / 3 / 2)
    assert hls_loss(OUTPUT, MASK, "norm").item() == pytest.approx(31 / 3)


def test_padding_does_not_count_in_hls_or_its_gradient() -> None:
    expected = torch.where(MASK[..., None], OUTPUT / 3, 0.0)
    for padding in (9.0, math.inf, math.nan):
        output = torch.where(MASK[..., None], OUTPUT, padding).requires_grad_()
        hls_loss(output, MASK).backward()  # type: ignore[no-untyped-call]
        assert output.grad is not None
        torch.testing.assert_close(output.grad, expected)


def test_without_a_mask_all_tokens_count_as_they_do_for_the_model() -> None:
    assert token_mask({"input_ids": torch.tensor([[0, 5], [7, 0]])}).all()
    concatenated = {"position_ids": torch.tensor([[0, 1, 2, 0, 1, 0, 0]])}
    assert token_mask(concatenated).tolist() == [[True] * 5 + [False] * 2]


def test_ula_is_the_mean_cross_entropy_over_layers_and_examples() -> None:
    logits = torch.tensor([[[0.0, 0.0], [math.log(3), 0.0]], [[0.0, 0.0], [0.0, math.log(7)]]])
    expected = (math.log(2) - math.log(1 / 4) + math.log(2) - math.log(7 / 8)) / 4
    assert ula_loss(logits, torch.tensor([0, 1])).item() == pytest.approx(expected)


def test_probes_read_the_last_tokens_of_prompts() -> None:
    found = at_ends(OUTPUT, torch.tensor([[0, 1], [1, 0], [0, 0]]))
    assert found.tolist() == [[3, 4], [0, 1], [1, 2]]


def test_a_probe_has_two_layers_in_its_own_precision() -> None:
    probe = LabelProbe(2, 3)
    by_hand = torch.relu(OUTPUT @ probe.inner.weight.T + probe.inner.bias)
    by_hand = by_hand @ probe.outer.weight.T + probe.outer.bias
    torch.testing.assert_close(probe(OUTPUT), by_hand)
    assert probe(OUTPUT.bfloat16()).dtype == torch.float32


def test_gradients_equal_finite_differences() -> None:
    torch.manual_seed(0)
    output = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    probe = LabelProbe(2, 3).double()
    ends, labels = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1, 0])

    def both(output: torch.Tensor) -> torch.Tensor:
        amplify = ula_loss(probe(at_ends(output, ends))[None], labels)
        return amplify + hls_loss(output, MASK)

    # Steps are large because the losses are in float32.
    assert torch.autograd.gradcheck(both, output, eps=1e-2, atol=1e-3)


def test_the_gradient_of_hls_keeps_nothing_but_the_output() -> None:
    """In lower precision too, where a copy in float32 would be twice as large."""
    output = torch.randn(4, 6, 32, dtype=torch.bfloat16, requires_grad=True)
    mask = torch.arange(6) < torch.tensor([6, 4, 5, 1])[:, None]
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, keep):
        hls_loss(output, mask)
    others = [item for item in kept if item.data_ptr() != output.data_ptr()]
    assert len(others) < len(kept)
    assert sum(item.nbytes for item in others) < output.nbytes / 10


def test_the_gradient_of_hls_in_lower_precision_is_that_of_float32_rounded() -> None:
    torch.manual_seed(0)
    output = (100 * torch.randn(2, 3, 8)).bfloat16().requires_grad_()
    precise = output.detach().float().requires_grad_()
    # Together with a loss scale, such factors are too small for float16 and too fine for bfloat16.
    for tensor in (output, precise):
        (1.1e-7 * hls_loss(tensor, MASK)).backward()  # type: ignore[no-untyped-call]
    assert output.grad is not None
    assert precise.grad is not None
    assert torch.equal(output.grad, precise.grad.bfloat16())


@given(st.integers(1, 3), st.integers(0, 2**31))
def test_parts_of_a_batch_add_up_to_the_whole(cut: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    output = torch.randn(4, 5, 3, generator=generator)
    mask = torch.rand(4, 5, generator=generator) < 0.7
    mask[:, 0] = True
    logits = torch.randn(2, 4, 2, generator=generator)
    labels = torch.randint(2, (4,), generator=generator)
    parts = (slice(0, cut), slice(cut, 4))
    suppress = [hls_loss(output[part], mask[part], tokens=mask.sum()) for part in parts]
    torch.testing.assert_close(sum(suppress), hls_loss(output, mask))
    amplify = [ula_loss(logits[:, part], labels[part], examples=4) for part in parts]
    torch.testing.assert_close(sum(amplify), ula_loss(logits, labels))


@pytest.mark.parametrize(("shape", "reduction"), [((1, 4), "mean"), ((2, 4), "means")])
def test_hls_refuses_a_mask_of_another_shape_and_unknown_reductions(
    shape: tuple[int, int], reduction: Any
) -> None:
    with pytest.raises(InputError, match="use mean or norm, and a mask of"):
        hls_loss(torch.ones(2, 4, 6), torch.ones(shape, dtype=torch.bool), reduction)
