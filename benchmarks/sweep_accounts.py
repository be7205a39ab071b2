"""What `sweep.py --accounting` counts: the padding and the copies of sweeps over all layers.

The counts are the tokens that go through the model for each token of the trees, and the bytes of
residuals that are alive between calls of blocks for each byte of the branches of a sweep.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import torch
from sweep_engines import HIDDEN, SWEEPS, Task
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from pragworld_interp.engine import packing
from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.modules import replaced_forward
from pragworld_interp.run.observations import CPU_TOKENS

# The most tokens for each token of the trees, at these batch sizes, and copies of the branches.
PADDING, COPIES = 1.05, 1.5
BUDGETS = (512, 2048, 8192, 32_768)


class ResidualBytes(TorchFunctionMode):
    """A mode that counts the bytes of all tensors with the width of residuals.

    What lives within a call of a block only, such as norms and queries, does not count.

    Attributes:
        peak: The most bytes at a time.
        tokens: The positions that went through the last block.
    """

    def __init__(self, decoder: Decoder) -> None:
        """Set the model, whose own parameters do not count."""
        super().__init__()
        self.peak = self.tokens = 0
        self._within = False
        self._parameters = {
            parameter.untyped_storage().data_ptr() for parameter in decoder.model.parameters()
        }
        self._alive: WeakValueDictionary[int, torch.UntypedStorage] = WeakValueDictionary()

    def watch(self, forward: Callable[..., Any], is_last: bool) -> Callable[..., Any]:
        """Return the forward function of a block, watched."""

        def run(*args: Any, **kwargs: Any) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]
            self.tokens += is_last * hidden.shape[0] * hidden.shape[1]
            self._within = True
            output = forward(*args, **kwargs)
            self._within = False
            self._measure()
            return output

        return run

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Run a function, and count what it returns."""
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.ndim and tensor.shape[-1] == HIDDEN:
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self._parameters:
                    self._alive[storage.data_ptr()] = storage
        if not self._within:
            self._measure()
        return output

    def _measure(self) -> None:
        self.peak = max(self.peak, sum(storage.nbytes() for storage in self._alive.values()))


def check_accounts(task: Task) -> list[str]:
    """Print the padding at several batch sizes and the copies, and return broken limits."""
    broken = []
    trees = sum(len(packing.build_tree(group.prompts).ids) for group in task.groups)
    print(f"{len(task.groups)} trees of {trees:,} tokens")
    for budget in BUDGETS:
        units = packing.work_units(task.groups, True, budget)
        tokens = sum(packing.group_batch(unit, True, torch.float32).ids.numel() for unit in units)
        print(
            f"  --batch-tokens {budget}: {tokens:,} tokens in {len(units)} batches, "
            f"{tokens / trees:.3f} times the trees' (at most {PADDING:g})"
        )
        if tokens > PADDING * trees:
            broken.append(f"--batch-tokens {budget}: too much padding")
    unit = max(packing.work_units(task.groups, True, CPU_TOKENS), key=len)
    longest = max(task.groups, key=lambda group: max(map(len, group.prompts)))
    for kind, groups in (("ablation", unit), ("patching", [longest])):
        batch = packing.group_batch(groups, True, torch.float32)
        residuals = ResidualBytes(task.decoder)
        with ExitStack() as stack:
            for block in task.decoder.blocks:
                is_last = block is task.decoder.blocks[-1]
                forward = residuals.watch(block.module.forward, is_last)
                stack.enter_context(replaced_forward(block.module, forward))
            stack.enter_context(residuals)
            SWEEPS[kind]["sweep"](replace(task, groups=groups))
        branches = 4 * HIDDEN * (residuals.tokens - batch.ids.numel())
        # The plain run has its embeddings, and the residuals before and after a block.
        peak = residuals.peak - 3 * 4 * HIDDEN * batch.ids.numel()
        copies = peak / branches
        print(
            f"  {kind}: {peak:,} bytes of residuals besides the plain run's, {copies:.2f} times "
            f"the branches' (at most {COPIES:g})"
        )
        if copies > COPIES:
            broken.append(f"{kind}: too many copies")
    return broken
