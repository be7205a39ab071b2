"""The engine that intervenes at every layer in one pass through the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from pragworld_interp.engine.ablation import ablated_logits
from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.interventions import Ablation, PatchedLogits
from pragworld_interp.engine.packing import group_batch, work_units
from pragworld_interp.engine.patching import patched_logits
from pragworld_interp.prompts.alignment import PatchingPair
from pragworld_interp.prompts.tokenization import PromptGroup


@dataclass(frozen=True)
class OnePassEngine:
    """All layers in one pass; see `Engine` for the methods, and `sweep.py` for how.

    Attributes:
        decoder: The model.
        trees: Whether the prompts of a group are packed as a tree, which some models don't support
            (`agreement.tree_obstacle`), or padded to one length.
        positions: The positions of ablations, which decide what the prompts of a tree share.
    """

    decoder: Decoder
    trees: bool
    positions: str = "all"

    @property
    def layout(self) -> str:
        """How prompts go through the model."""
        return "trees" if self.trees else "rows"

    def units(self, groups: Sequence[PromptGroup], budget: int) -> list[list[PromptGroup]]:
        """Return groups of similar lengths together, the longest first."""
        return work_units(groups, self.trees, budget, self.positions)

    def ablated_logits(
        self, groups: Sequence[PromptGroup], ablation: Ablation, budget: int
    ) -> Tensor:
        """Return [1 + targets, prompts, labels] logits."""
        batch = group_batch(groups, self.trees, self.decoder.dtype, ablation.positions)
        return ablated_logits(self.decoder, batch, ablation, budget)

    def patched_logits(
        self,
        groups: Sequence[PromptGroup],
        pairs: Sequence[Sequence[PatchingPair]],
        budget: int,
    ) -> list[PatchedLogits]:
        """Return the logits of each group and its pairs."""
        prompts = [group.prompts for group in groups]
        return patched_logits(self.decoder, prompts, pairs, self.trees, budget)
