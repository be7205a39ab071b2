"""Examples as token ids, and grouped."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from torch import Tensor

from pragworld_interp.prompts.examples import Example
from pragworld_interp.prompts.labels import prompt_texts
from pragworld_interp.prompts.parts import PromptParts, find_parts, select_positions
from pragworld_tasks.errors import InputError


class TokenizedPrompt(NamedTuple):
    """The token ids of a prompt, and the positions of its parts if the tokenizer tells them."""

    ids: list[int]  # special tokens included
    parts: PromptParts


@dataclass(frozen=True)
class PromptGroup:
    """The examples of one group, their prompts as token ids, and the parts of the prompts."""

    examples: tuple[Example, ...]
    prompts: tuple[list[int], ...]
    parts: tuple[PromptParts, ...]

    @property
    def number(self) -> int:
        """The number of the group."""
        return self.examples[0].group


def tokenize_prompts(
    tokenizer: Any, examples: Sequence[Example], chat_template: bool, most: int | None = None
) -> list[TokenizedPrompt]:
    """Tokenize the prompt of each example, of at most so many tokens."""
    texts = prompt_texts(tokenizer, [example.text for example in examples], chat_template)
    # A chat template writes BOS itself if it wants one.
    encoded = tokenizer(
        texts,
        add_special_tokens=not chat_template,
        return_offsets_mapping=tokenizer.is_fast,
    )
    plain = tokenizer(texts, add_special_tokens=False)["input_ids"]
    prompts = []
    for number, (example, text) in enumerate(zip(examples, texts, strict=True)):
        ids = _without_ending(list(encoded["input_ids"][number]), plain[number])
        if not ids:
            raise InputError(f"{example.place}: the prompt is empty; give it a text")
        if most is not None and len(ids) > most:
            raise InputError(
                f"{example.place}: the prompt has {len(ids)} tokens, but the model supports "
                f"{most}; use a model with a longer context"
            )
        offsets = encoded["offset_mapping"][number] if tokenizer.is_fast else ()
        parts = find_parts(text, example.context, example.question, offsets)
        prompts.append(TokenizedPrompt(ids, parts))
    return prompts


def _without_ending(ids: list[int], text_ids: list[int]) -> list[int]:
    """Return the ids of a prompt up to the end of its text, without an EOS behind it."""
    for start in range(len(ids) - len(text_ids) + 1):
        if ids[start : start + len(text_ids)] == text_ids:
            return ids[: start + len(text_ids)]
    return ids


def gold_probabilities(logits: Tensor, examples: Sequence[Example]) -> list[list[float]]:
    """Return the probability of gold answers, each against the likeliest other label.

    Returns:
        The probabilities of each example, one for each run.
    """
    logits = logits.cpu().double()
    probabilities = []
    for number, example in enumerate(examples):
        gold, *others = example.columns
        own = logits[:, number]
        probabilities.append((own[:, gold] - own[:, others].amax(1)).sigmoid().tolist())
    return probabilities


def group_prompts(
    examples: Sequence[Example], prompts: Sequence[TokenizedPrompt]
) -> list[PromptGroup]:
    """Return examples and their prompts by group, in the order of the groups."""
    pairs = sorted(zip(examples, prompts, strict=True), key=lambda pair: pair[0].group)
    groups = []
    for _, members in groupby(pairs, key=lambda pair: pair[0].group):
        own, tokenized = zip(*members, strict=True)
        groups.append(PromptGroup(own, *zip(*tokenized, strict=True)))
    return groups


def group_positions(group: PromptGroup, positions: str) -> list[frozenset[int]]:
    """Return the positions of each prompt of a group that a setting stands for."""
    selected = [
        select_positions(positions, len(prompt), parts)
        for prompt, parts in zip(group.prompts, group.parts, strict=True)
    ]
    for example, prompt, own in zip(group.examples, group.prompts, selected, strict=True):
        if own:
            continue
        reason = (
            f"the prompt has {len(prompt)} tokens, none of them in {positions}; choose another span"
            if ":" in positions
            else "the text, the tokenizer or the chat template does not tell which positions "
            f"hold the {positions}; use positions all, last or a span"
        )
        raise InputError(f"{example.place}: {reason}")
    return selected
