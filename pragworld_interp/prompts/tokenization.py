"""Prompts as token ids, and documents grouped with their prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from torch import Tensor

from pragworld_interp.engine.decoder import Decoder
from pragworld_interp.engine.rope import longest_prompt
from pragworld_interp.prompts.labels import prompt_texts
from pragworld_interp.prompts.parts import PromptParts, find_parts, select_positions
from pragworld_interp.run.inputs import OwnPrompt
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError


@dataclass(frozen=True)
class TokenizedPrompt:
    """The token ids of a prompt, and the positions of its parts if the tokenizer tells them."""

    ids: list[int]  # special tokens included
    parts: PromptParts


@dataclass(frozen=True)
class PromptGroup:
    """The documents of one group, their prompts as token ids, and the parts of the prompts."""

    documents: tuple[Document | OwnPrompt, ...]
    prompts: tuple[list[int], ...]
    parts: tuple[PromptParts, ...]

    @property
    def pairs(self) -> list[tuple[Document | OwnPrompt, list[int]]]:
        """Each document with its prompt."""
        return list(zip(self.documents, self.prompts, strict=True))


def tokenize_prompts(
    decoder: Decoder, documents: Sequence[Document | OwnPrompt], chat_template: bool
) -> list[TokenizedPrompt]:
    """Tokenize the prompt of each document; see `label_texts`.

    Args:
        decoder: The model whose tokenizer is used.
        documents: The documents.
        chat_template: Whether each prompt becomes the turn of a user, with the assistant's begun.

    Raises:
        InputError: A prompt is empty, or longer than the model supports.
    """
    tokenizer = decoder.tokenizer
    texts = prompt_texts(tokenizer, label_texts(documents), chat_template)
    # A chat template writes BOS itself if it wants one.
    encoded = tokenizer(
        texts,
        add_special_tokens=not chat_template,
        return_offsets_mapping=tokenizer.is_fast,
    )
    plain = tokenizer(texts, add_special_tokens=False)["input_ids"]
    most = longest_prompt(decoder.model)
    prompts = []
    for number, (document, text) in enumerate(zip(documents, texts, strict=True)):
        ids = _without_ending(list(encoded["input_ids"][number]), plain[number])
        if not ids:
            raise InputError(f"{place_of(document)}: the prompt is empty; give it a text")
        if most is not None and len(ids) > most:
            raise InputError(
                f"{place_of(document)}: the prompt has {len(ids)} tokens, "
                f"but the model supports {most}; use a model with a longer context"
            )
        parts = PromptParts()
        if isinstance(document, Document) and tokenizer.is_fast:
            offsets = encoded["offset_mapping"][number]
            parts = find_parts(text, document.context, document.question, offsets)
        prompts.append(TokenizedPrompt(ids, parts))
    return prompts


def _without_ending(ids: list[int], text_ids: list[int]) -> list[int]:
    """Return the ids of a prompt up to the end of its text, without an EOS behind it."""
    for start in range(len(ids) - len(text_ids) + 1):
        if ids[start : start + len(text_ids)] == text_ids:
            return ids[: start + len(text_ids)]
    return ids


def label_texts(documents: Sequence[Document | OwnPrompt]) -> list[str]:
    """Return the text of each prompt, before any chat template.

    That of a document is Prompt 2 of the PragWorld paper.
    """
    return [
        label_prompt({"context": document.context, "question": document.question})
        if isinstance(document, Document)
        else document.text
        for document in documents
    ]


def place_of(document: Document | OwnPrompt) -> str:
    """Return what an error calls a document or a prompt."""
    if isinstance(document, OwnPrompt):
        return f"prompt {document.row}"
    return f"split {document.split}, row {document.row}"


def gold_first(document: Document | OwnPrompt) -> tuple[int, ...]:
    """Return the columns of a document's labels among the logits, that of the gold answer first."""
    if isinstance(document, OwnPrompt):
        return document.columns
    return (0, 1) if document.answer == "yes" else (1, 0)


def gold_probabilities(
    logits: Tensor, documents: Sequence[Document | OwnPrompt]
) -> list[list[float]]:
    """Return the probability of gold answers, each against the likeliest other label.

    Args:
        logits: [runs, documents, labels] of all labels.
        documents: The documents.

    Returns:
        The probabilities of each document, one for each run.
    """
    logits = logits.cpu().double()
    probabilities = []
    for number, document in enumerate(documents):
        gold, *others = gold_first(document)
        own = logits[:, number]
        probabilities.append((own[:, gold] - own[:, others].amax(1)).sigmoid().tolist())
    return probabilities


def group_prompts(
    documents: Sequence[Document | OwnPrompt], prompts: Sequence[TokenizedPrompt]
) -> list[PromptGroup]:
    """Return documents and their prompts by group, in the order of the groups."""
    pairs = sorted(zip(documents, prompts, strict=True), key=lambda pair: pair[0].group)
    groups = []
    for _, members in groupby(pairs, key=lambda pair: pair[0].group):
        group = list(members)
        groups.append(
            PromptGroup(
                documents=tuple(document for document, _ in group),
                prompts=tuple(prompt.ids for _, prompt in group),
                parts=tuple(prompt.parts for _, prompt in group),
            )
        )
    return groups


def group_positions(group: PromptGroup, positions: str) -> list[frozenset[int]]:
    """Return the positions of each prompt of a group that a setting stands for.

    Args:
        group: The group.
        positions: A name in `positions.PARTS`, or a span.

    Raises:
        InputError: A prompt has no such positions, or its tokenizer does not tell them.
    """
    selected = [
        select_positions(positions, len(prompt), parts)
        for prompt, parts in zip(group.prompts, group.parts, strict=True)
    ]
    for (document, prompt), own in zip(group.pairs, selected, strict=True):
        if not own:
            raise InputError(f"{place_of(document)}: {_absence(document, len(prompt), positions)}")
    return selected


def _absence(document: Document | OwnPrompt, length: int, positions: str) -> str:
    """Return why a prompt has none of the positions that were asked for, and what to do."""
    if ":" in positions:
        return f"the prompt has {length} tokens, none of them in {positions}; choose another span"
    if isinstance(document, OwnPrompt):
        return (
            f"which positions hold the {positions} is unknown for prompts of your own; use "
            "positions all, last or a span"
        )
    return (
        f"the tokenizer or the chat template does not tell which positions hold the {positions}; "
        "use positions all, last or a span"
    )
