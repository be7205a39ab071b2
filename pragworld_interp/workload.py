"""The work of each command on documents, from a model's configuration and the prompts alone.

Prompts are packed as the commands pack them, so that tokens, and the FLOPs of matrix products, are
those of a run. Memory and time are estimates; docs/plan.md has the arithmetic.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from pragworld_interp.agreement import configured_obstacle, probe_prompts
from pragworld_interp.decoder import Decoder
from pragworld_interp.identities import OwnPrompt
from pragworld_interp.likelihoods import tree_batches
from pragworld_interp.model_costs import Cost, ModelCosts
from pragworld_interp.packing import (
    Batch,
    Tokens,
    build_tree,
    group_batch,
    pack_trees,
    work_units,
)
from pragworld_interp.patching import patching_batch, patching_pairs
from pragworld_interp.prompt_texts import prompt_texts
from pragworld_interp.tokenization import PromptGroup, group_prompts, tokenize_prompts
from pragworld_interp.tree_attention import spans
from pragworld_tasks.data.documents import Document, has_alterations
from pragworld_tasks.evaluation.prompts import evaluation_prompt, label_prompt

GENERATED_TOKENS = 200  # the most that the paper's evaluation lets a model write
# Of `pragworld-train`: those of the paper, and those of TRL.
EPOCHS, LORA_RANK = 3, 8
TRAINED_ROWS, LONGEST_ROW = 8, 1024
_TRAINED_TOKENS = 2  # of a row: the label, and the end of the text
# FLOPs of the backward pass of attention for each of its forward pass: fused kernels compute four
# products of the size of the forward's two, and one of those again.
_SCORES_BACKWARD = 2.5
# The bytes of a trained weight's gradient and of AdamW's two moments. They are in float32 as the
# weights are, which is pragworld-train's default, also in mixed precision.
_GRADIENT_AND_STATES = 12


@dataclass(frozen=True)
class Phase:
    """A part of a command's work.

    Attributes:
        flops: The FLOPs of its matrix products.
        read_bytes: The bytes of weights, keys and values that it reads from memory, where they are
            known to be many.
    """

    flops: int
    read_bytes: int = 0


@dataclass(frozen=True)
class Workload:
    """What a command does on some documents.

    Attributes:
        command: The command.
        tokens: The tokens that it gives to the model, padding included.
        block_tokens: The tokens that go through blocks, summed over blocks and branches.
        phases: Its parts, one after the other.
        held_bytes: The memory for weights, gradients and states of the optimizer, which several
            devices divide among them.
        working_bytes: The most memory for anything else, which each device needs.
        is_training: Whether it trains: in mixed precision, and with several devices at work at the
            same time, not one after the other.
    """

    command: str
    tokens: int
    block_tokens: int
    phases: tuple[Phase, ...]
    held_bytes: int
    working_bytes: int
    is_training: bool = False

    @property
    def flops(self) -> int:
        """The FLOPs of all phases."""
        return sum(phase.flops for phase in self.phases)


@dataclass(frozen=True)
class PlanInputs:
    """A model without weights, and the prompts of documents."""

    decoder: Decoder
    costs: ModelCosts
    groups: list[PromptGroup]  # with Prompt 2
    written: list[list[int]]  # the prompts after which a model writes its answer
    trees: bool  # whether the prompts of a group are packed as a tree
    budget: int  # the tokens that go through a layer at a time

    @property
    def prompts(self) -> list[list[int]]:
        """All prompts of the groups."""
        return [prompt for group in self.groups for prompt in group.prompts]

    @property
    def evaluation(self) -> str:
        """The command that evaluates the documents by the task in which the model writes."""
        return f"lm_eval pragworld_{self.groups[0].documents[0].split}"


def plan_inputs(
    decoder: Decoder,
    costs: ModelCosts,
    documents: Sequence[Document],
    budget: int,
    chat_template: bool = False,
) -> PlanInputs:
    """Tokenize the prompts of documents.

    Args:
        decoder: What `model_costs` returned, with a tokenizer.
        costs: What it costs.
        documents: The documents.
        budget: The tokens that go through a layer at a time.
        chat_template: Whether prompts go through the tokenizer's chat template.

    Raises:
        InputError: A prompt is longer than the model supports.
    """
    groups = group_prompts(documents, tokenize_prompts(decoder, documents, chat_template))
    texts = [
        (evaluation_prompt if has_alterations(document.split) else label_prompt)(document)
        for document in documents
    ]
    written = decoder.tokenizer(
        prompt_texts(decoder.tokenizer, texts, chat_template), add_special_tokens=not chat_template
    )["input_ids"]
    trees = configured_obstacle(decoder, [group.prompts for group in groups]) is None
    return PlanInputs(decoder, costs, groups, written, trees, budget)


def plan_commands(inputs: PlanInputs, batch_size: int) -> list[Workload]:
    """Return the work of each command.

    Args:
        inputs: The model and the prompts.
        batch_size: The prompts that lm-eval's `hf` evaluates at a time.
    """
    has_pairs = any(map(_altered, inputs.groups))
    return [
        plan_writing(inputs, batch_size),
        plan_likelihoods(inputs, batch_size),
        *([plan_tree_likelihoods(inputs)] if inputs.trees else []),
        plan_ablation(inputs),
        *([plan_patching(inputs), plan_attribution(inputs)] if has_pairs else []),
        plan_training(inputs, adapter=True),
        plan_training(inputs, adapter=False),
    ]


# Evaluation ---------------------------------------------------------------------------------------


def plan_writing(inputs: PlanInputs, batch_size: int) -> Workload:
    """Return the work of lm-eval's `hf` on a task in which the model writes `GENERATED_TOKENS`."""
    costs, steps = inputs.costs, GENERATED_TOKENS - 1  # the first token comes from the prompt
    batches = _padded(inputs.written, batch_size)
    tokens = sum(rows * length for rows, length in batches)
    before = sum(rows for rows, _ in batches) * costs.unembedding
    before += costs.flops(tokens, sum(rows * length**2 for rows, length in batches))
    read_before = sum(_read_bytes(costs, rows * length) for rows, length in batches)
    new = sum(rows for rows, _ in batches) * steps
    seen = sum(rows * sum(range(length + 1, length + steps + 1)) for rows, length in batches)
    after = costs.flops(new, seen) + new * costs.unembedding
    read_after = sum(steps * _read_bytes(costs, rows) for rows, _ in batches)
    rows, length = max(batches, key=lambda batch: batch[0] * batch[1])
    return Workload(
        inputs.evaluation,
        tokens + new,
        (tokens + new) * len(costs.blocks),
        (Phase(before, read_before), Phase(after, read_after + seen * costs.cache_bytes)),
        costs.weight_bytes,
        rows * ((length + steps) * costs.cache_bytes + length * costs.activation_bytes)
        + 2 * rows * length * costs.width * costs.item_bytes,
    )


def plan_likelihoods(inputs: PlanInputs, batch_size: int) -> Workload:
    """Return the work of lm-eval's `hf` on a task of the likelier label: a run for each prompt."""
    costs = inputs.costs
    batches = _padded(inputs.prompts, batch_size)
    tokens = sum(rows * length for rows, length in batches)
    flops = costs.flops(tokens, sum(rows * length**2 for rows, length in batches))
    flops += tokens * costs.unembedding  # at all positions
    most = max(rows * length for rows, length in batches)
    in_block = costs.activation_bytes + 2 * costs.width * costs.item_bytes
    return Workload(
        f"{inputs.evaluation}_mc",
        tokens,
        tokens * len(costs.blocks),
        (Phase(flops, sum(_read_bytes(costs, rows * length) for rows, length in batches)),),
        costs.weight_bytes,
        # Logits, and their logarithmic softmax.
        most * max(in_block, 2 * costs.vocabulary * costs.item_bytes),
    )


def plan_tree_likelihoods(inputs: PlanInputs) -> Workload:
    """Return the work of `hf-tree` on a task of the likelier label."""
    costs, prompts = inputs.costs, inputs.prompts
    total = Total(costs)
    for trees in tree_batches(prompts, inputs.budget):
        forest = [build_tree([prompts[number] for number in tree]) for tree in trees]
        batch = pack_trees(forest, torch.float32)
        shape = _Shape.of(batch, inputs.decoder)
        total.add_input(shape)
        total.add(shape)
        total.flops += len(batch.ends) * costs.unembedding
        total.need(shape.tokens * (costs.activation_bytes + 3 * total.residual) + shape.mask(costs))
    # There is a request for each of the two labels, and the three longest are tried.
    requests = [prompt for prompt in prompts for _ in range(2)]
    total.add_probe([sorted(requests, key=len)[-3:], [min(prompts, key=len)]])
    return total.work(f"{inputs.evaluation}_mc, hf-tree")


def _padded(prompts: Iterable[Tokens], batch_size: int) -> list[tuple[int, int]]:
    """Return the rows and the length of each batch of lm-eval's `hf`, the longest prompts first."""
    lengths = sorted(map(len, prompts), reverse=True)
    starts = range(0, len(lengths), batch_size)
    return [(len(lengths[start : start + batch_size]), lengths[start]) for start in starts]


def _read_bytes(costs: ModelCosts, tokens: int) -> int:
    """Return the bytes of weights that a run on some tokens reads: of experts, those chosen."""
    active = (sum(block.whole.token for block in costs.blocks) + costs.unembedding) // 2
    return min(tokens * active * costs.item_bytes, costs.weight_bytes)


# Sweeps -------------------------------------------------------------------------------------------


def plan_ablation(inputs: PlanInputs) -> Workload:
    """Return the work of `ablate` on every layer: see `ablation`."""
    costs, layers = inputs.costs, len(inputs.costs.blocks)
    total = Total(costs)
    for unit in work_units(inputs.groups, inputs.trees, inputs.budget):
        batch = group_batch(unit, inputs.trees, torch.float32)
        shape = _Shape.of(batch, inputs.decoder)
        total.add_input(shape)
        total.add(shape)
        for layer in range(layers):
            total.add_fork(shape, layer)
            total.add(shape, [layer], times=layer)
        # The branches; the plain run before and after a block; a fork, and what it got from the
        # plain run.
        residuals = (layers + 5) * total.residual
        total.need(shape.tokens * (residuals + costs.activation_bytes) + shape.mask(costs))
    total.add_probe([group.prompts for group in inputs.groups])
    return total.work("ablate")


def plan_patching(inputs: PlanInputs) -> Workload:
    """Return the work of `patch` on every layer: see `patching`."""
    costs, layers = inputs.costs, len(inputs.costs.blocks)
    total = Total(costs)
    cache = costs.cache_bytes // layers
    holds_positions = _embeds_positions(inputs.decoder)
    for unit in work_units(inputs.groups, inputs.trees, inputs.budget):
        prompts = [group.prompts for group in unit]
        pairs = [patching_pairs(group, "all") for group in unit]
        patching = patching_batch(prompts, pairs, inputs.trees, torch.float32)
        shape = _Shape.of(patching.batch, inputs.decoder)
        total.add_input(shape)
        total.add(shape)
        alignments = [pair.alignment for own in pairs for pair in own]
        stacked = gathered = 0
        for numbers in patching.units:
            # Elsewhere the first layer's patch changes nothing, and the run is the plain one.
            is_shifted = any(target != source for n in numbers for target, source in alignments[n])
            patched = range(int(not (holds_positions and is_shifted)), layers)
            suffixes = [patching.runs[number].suffix for number in numbers]
            rows, length = len(suffixes), max(len(suffix.columns) for suffix in suffixes)
            keys = length
            if inputs.trees:
                keys += max(1, *(len(suffix.prefix) for suffix in suffixes))
            scores = rows * length * keys
            end_scores = rows * keys if inputs.decoder.attention == "sdpa" else scores
            own = _Shape(rows, length, scores, rows, end_scores)
            for layer in patched:
                total.add(own, [layer], times=layer + 1 - patched.start)
            stacked += len(patched) * own.tokens * total.residual
            at_a_time = min(len(patched) * rows, max(1, inputs.budget // length))
            taken = at_a_time * length * costs.activation_bytes
            if inputs.trees:
                # Keys and values of the prefixes as gathered, and room for all.
                taken += (rows + at_a_time) * keys * cache
                if rows > 1:
                    taken += at_a_time * length * keys * costs.item_bytes
                stacked += scores * costs.item_bytes  # their mask
            gathered = max(gathered, taken)
        plain = shape.tokens * (3 * total.residual + costs.activation_bytes + cache)
        total.need(stacked + max(plain, gathered) + shape.mask(costs))
    total.add_probe([group.prompts for group in inputs.groups])
    return total.work("patch")


def _embeds_positions(decoder: Decoder) -> bool:
    """Return whether a model has embeddings of positions beside those of tokens."""
    within = {module for block in decoder.blocks for module in block.module.modules()}
    modules = [m for m in decoder.model.modules() if m not in within]
    return sum(isinstance(module, nn.Embedding) for module in modules) > 1


def plan_attribution(inputs: PlanInputs) -> Workload:
    """Return the work of `patch --method attribution` without its check on exact pairs."""
    costs = inputs.costs
    total = Total(costs)
    for group in inputs.groups:
        for prompt in group.prompts:
            shape = _Shape(1, len(prompt), len(prompt) ** 2)
            total.add_input(shape)
            total.add(shape)
        answers = {document.answer for document in _altered(group)}
        if answers:
            length = next(len(own) for document, own in group.pairs if document.is_original)
            scores = round(_SCORES_BACKWARD * length**2)
            total.flops += len(answers) * costs.flops(length, scores)
            # What the backward pass needs of each block.
            total.need(len(costs.blocks) * length * (costs.activation_bytes + 2 * total.residual))
    total.add_probe([group.prompts for group in inputs.groups])
    return total.work("patch --method attribution")


def _altered(group: PromptGroup) -> list[Document | OwnPrompt]:
    """Return the altered variants of a group; none if it has no original."""
    has_original = any(document.is_original for document in group.documents)
    return [document for document in group.documents if has_original and not document.is_original]


@dataclass(frozen=True)
class _Shape:
    """The shape of a batch.

    Attributes:
        rows, length: Its rows, and the columns of each.
        scores: The scores of queries and keys that a head computes.
        ends: The positions that go through most of the last block; None for all.
        end_scores: The scores of these.
    """

    rows: int
    length: int
    scores: int
    ends: int | None = None
    end_scores: int = 0

    @classmethod
    def of(cls, batch: Batch, decoder: Decoder) -> "_Shape":
        """Return the shape of a batch, with the scores that `tree_attention` computes."""
        rows, length = batch.ids.shape
        scores = length**2
        if batch.mask.ndim == 4 and decoder.attention == "sdpa":
            parts = spans(batch.mask[:, 0] == 0)
            scores = sum(
                (span.queries.stop - span.queries.start) * len(span.keys) for span in parts
            )
        most = int(batch.ends[:, 0].bincount().max())
        end_scores = most * length if decoder.attention == "sdpa" else scores
        return cls(rows, length, rows * scores, rows * most, rows * end_scores)

    @property
    def tokens(self) -> int:
        """The tokens of all rows, padding included."""
        return self.rows * self.length

    def mask(self, costs: ModelCosts) -> int:
        """Return the bytes of the mask of trees."""
        return self.rows * self.length**2 * costs.item_bytes


class Total:
    """Workload that adds up."""

    def __init__(self, costs: ModelCosts) -> None:
        self._costs = costs
        self.residual = costs.width * costs.item_bytes  # the bytes of a position's residuals
        self.tokens = self.block_tokens = self.flops = self.working_bytes = 0

    def add_input(self, shape: _Shape) -> None:
        """Count a batch that the model gets."""
        self.tokens += shape.tokens

    def add(
        self,
        shape: _Shape,
        layers: Iterable[int] | None = None,
        times: int = 1,
    ) -> None:
        """Count a run through some blocks, by default all.

        Args:
            shape: Its shape.
            layers: The blocks.
            times: How many such runs there are.
        """
        last = len(self._costs.blocks) - 1
        for layer in range(last + 1) if layers is None else layers:
            block = self._costs.blocks[layer]
            flops = block.whole.flops(shape.tokens, shape.scores)
            if layer == last and shape.ends is not None:
                alone = Cost(block.mlp.token + block.projection.token, block.whole.score)
                flops -= alone.flops(shape.tokens - shape.ends, shape.scores - shape.end_scores)
            self.flops += times * flops
            self.block_tokens += times * shape.tokens

    def add_fork(self, shape: _Shape, layer: int) -> None:
        """Count a run through a block whose attention and MLP do not run again."""
        block = self._costs.blocks[layer]
        rest: Cost = block.whole - block.attention - block.mlp
        self.flops += rest.flops(shape.tokens, shape.scores)
        self.block_tokens += shape.tokens

    def add_probe(self, groups: Sequence[Sequence[Tokens]]) -> None:
        """Count the runs that show whether prompts can be packed: see `agreement`."""
        probe = probe_prompts(groups)
        longest = max(map(len, probe))
        half = longest // 2
        tree = len(build_tree(probe).ids)
        shapes = [
            _Shape(1, tree, tree**2),
            *(_Shape(1, len(prompt), len(prompt) ** 2) for prompt in probe),
            _Shape(2, half, 2 * half**2),
            _Shape(2, longest - half, 2 * (longest - half) * longest),
        ]
        for shape in shapes:
            self.add_input(shape)
            self.add(shape)

    def need(self, working_bytes: int) -> None:
        """Take note of memory that is needed at some time."""
        self.working_bytes = max(self.working_bytes, working_bytes)

    def work(self, command: str) -> Workload:
        """Return the work."""
        costs = self._costs
        phases = (Phase(self.flops),)
        held = costs.weight_bytes
        return Workload(command, self.tokens, self.block_tokens, phases, held, self.working_bytes)


# Training -----------------------------------------------------------------------------------------


def plan_training(inputs: PlanInputs, adapter: bool) -> Workload:
    """Return the work of `pragworld-train` on the documents, with TRL's defaults.

    Rows are in an order of their own, so that the padding of a run differs a little.

    Args:
        inputs: The model and the prompts.
        adapter: Whether it trains the weights of LoRA (`--use_peft`), not those of the model.
    """
    costs = inputs.costs
    lengths = [min(len(prompt) + _TRAINED_TOKENS, LONGEST_ROW) for prompt in inputs.prompts]
    batches = []
    for epoch in range(EPOCHS):
        random.Random(epoch).shuffle(lengths)
        parts = [lengths[i : i + TRAINED_ROWS] for i in range(0, len(lengths), TRAINED_ROWS)]
        batches += [(len(part), max(part)) for part in parts]
    tokens = sum(rows * length for rows, length in batches)
    scores = sum(rows * length**2 for rows, length in batches)
    # Forward; again, because gradients are checkpointed; the gradients of the residuals; and those
    # of the weights, unless only an adapter's are trained. PyTorch does not repeat the last product
    # of a block if no gradient needs its result, so training all weights may take a little less.
    products = 3 if adapter else 4
    flops = costs.flops(products * tokens, round((2 + _SCORES_BACKWARD) * scores))
    added = LORA_RANK * costs.adapter_width if adapter else 0
    flops += 4 * 2 * added * tokens
    # On GPUs, TRL computes the logits of labels only, and computes them again for gradients.
    flops += products * EPOCHS * len(lengths) * _TRAINED_TOKENS * costs.unembedding
    most = max(rows * length for rows, length in batches)
    in_float32 = 4 * costs.activation_bytes // costs.item_bytes
    trained = added if adapter else costs.parameters
    return Workload(
        "train, LoRA" if adapter else "train, all weights",
        tokens,
        2 * tokens * len(costs.blocks),
        (Phase(flops),),
        4 * (costs.parameters + added) + _GRADIENT_AND_STATES * trained,
        most * (4 * len(costs.blocks) * costs.width + 2 * in_float32),
        is_training=True,
    )
