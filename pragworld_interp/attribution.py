"""Attribution patching: the effects of patching, estimated by a linear approximation.

Nanda (2023, "Attribution Patching: Activation Patching At Industrial Scale",
https://www.neelnanda.io/mechanistic-interpretability/attribution-patching) and Syed et al. (2023,
"Attribution Patching Outperforms Automated Circuit Discovery", arXiv:2310.10348) replace a patched
run for every layer by one gradient. The log-odds of the altered prompt's gold answer, against the
likeliest other label, are a function of the residuals at the input of a layer of the original run.
Their first-order change by a patch is

    sum over patched positions of (altered residual - original residual) · gradient.

So a pair takes two forward passes and one backward pass, however many layers there are.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from pragworld_interp.decoder import Decoder, label_rows_only
from pragworld_interp.packing import Tokens
from pragworld_interp.patching import PatchedLogits, PatchingPair
from pragworld_interp.rope import rope_of_each_row


def attributed_logits(
    decoder: Decoder,
    prompts: Sequence[Tokens],
    pairs: Sequence[PatchingPair],
    columns: Sequence[tuple[int, ...]],
) -> PatchedLogits:
    """Run the prompts of a group one by one, and estimate the log-odds of every patched run.

    Args:
        decoder: The model.
        prompts: The prompts.
        pairs: Pairs of these prompts.
        columns: The columns of each prompt's labels among the logits, its gold answer's first.

    Returns:
        The logits of the prompts. In place of the logits of patched runs, the estimated log-odds of
        the altered prompt's gold answer stand in its column, and zeros in the others.
    """
    plain = torch.zeros(len(prompts), len(decoder.labels))
    patched = torch.zeros(len(decoder.blocks), len(pairs), len(decoder.labels))
    left = set(range(len(prompts)))
    with _frozen(decoder.model), rope_of_each_row(decoder.model):
        for original in sorted({pair.original for pair in pairs}):
            own = [number for number, pair in enumerate(pairs) if pair.original == original]
            labels = {columns[pairs[number].altered] for number in own}
            plain[original], residuals, gradients = _gradients(decoder, prompts[original], labels)
            left.discard(original)
            for number in own:
                pair = pairs[number]
                with torch.inference_mode():
                    plain[pair.altered], altered = _run(decoder, prompts[pair.altered])
                left.discard(pair.altered)
                log_odds, gradient = gradients[columns[pair.altered]]
                changes = _changes(pair, residuals, altered, gradient)
                patched[:, number, columns[pair.altered][0]] = log_odds + changes
        for number in sorted(left):
            with torch.inference_mode():
                plain[number], _ = _run(decoder, prompts[number])
    return PatchedLogits(plain, patched)


def _changes(
    pair: PatchingPair,
    residuals: Sequence[Tensor],
    altered: Sequence[Tensor],
    gradient: Sequence[Tensor],
) -> Tensor:
    """Return the [layers] first-order changes of log-odds by patching a pair.

    Args:
        pair: The pair.
        residuals: [1, length, width] of each layer, in the original run.
        altered: The same, in the altered run.
        gradient: The gradient of the log-odds at `residuals`.
    """
    targets = [target for target, _ in pair.alignment]
    sources = [source for _, source in pair.alignment]
    changes = [
        ((there[0, sources] - here[0, targets]).float() * slope[0, targets].float()).sum()
        for there, here, slope in zip(altered, residuals, gradient, strict=True)
    ]
    return torch.stack([change.cpu() for change in changes])


_Gradient = tuple[Tensor, list[Tensor]]


def _gradients(
    decoder: Decoder, prompt: Tokens, labels: set[tuple[int, ...]]
) -> tuple[Tensor, list[Tensor], dict[tuple[int, ...], _Gradient]]:
    """Return logits and residuals of a prompt, and log-odds with their gradient, by labels.

    Args:
        decoder: The model.
        prompt: The prompt.
        labels: Columns of labels. Log-odds are those of the first against the likeliest other.
    """
    with torch.inference_mode(False), torch.enable_grad():
        logits, residuals = _run(decoder, prompt)
        gradients = {}
        for columns in sorted(labels):
            gold, *others = columns
            log_odds = logits[gold] - logits[others].amax()
            by_layer = torch.autograd.grad(log_odds, residuals, retain_graph=True)
            gradients[columns] = (log_odds.detach().cpu(), list(by_layer))
    return logits.detach().cpu(), [hidden.detach() for hidden in residuals], gradients


def _run(decoder: Decoder, prompt: Tokens) -> tuple[Tensor, list[Tensor]]:
    """Return the [labels] logits at the end of a prompt, and the inputs of all blocks.

    Where gradients are computed, they begin at the input of the first block.
    """
    residuals: list[Tensor] = []

    def record(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        if not residuals and torch.is_grad_enabled():
            hidden = hidden.detach().requires_grad_()
        residuals.append(hidden)
        return ((hidden, *args[1:]), kwargs) if args else (args, kwargs | {"hidden_states": hidden})

    ids = torch.tensor([prompt], device=decoder.device)
    with ExitStack() as stack:
        for block in decoder.blocks:
            handle = block.module.register_forward_pre_hook(record, with_kwargs=True)
            stack.callback(handle.remove)
        columns = stack.enter_context(label_rows_only(decoder.model, decoder.labels))
        output = decoder.model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False)
    logits: Tensor = output.logits[0, -1, columns].float()
    return logits, residuals


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Compute no gradients of a model's parameters within a `with` statement."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_()
