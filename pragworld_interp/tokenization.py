"""Prompts as token ids, and documents grouped with their prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pragworld_interp.decoder import Decoder
from pragworld_interp.prompt_texts import prompt_texts
from pragworld_interp.rope import longest_prompt
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.prompts import label_prompt


@dataclass(frozen=True)
class TokenizedPrompt:
    """The token ids of a prompt, and the positions of the dialogue if the tokenizer tells them."""

    ids: list[int]  # special tokens included
    dialogue: frozenset[int]  # without the instructions around it and the question


@dataclass(frozen=True)
class PromptGroup:
    """The documents of one group, their prompts as token ids, and the positions of the dialogue."""

    documents: tuple[Document, ...]
    prompts: tuple[list[int], ...]
    dialogues: tuple[frozenset[int], ...]

    @property
    def pairs(self) -> list[tuple[Document, list[int]]]:
        """Each document with its prompt."""
        return list(zip(self.documents, self.prompts, strict=True))


def tokenize_prompts(
    decoder: Decoder, documents: Sequence[Document], chat_template: bool
) -> list[TokenizedPrompt]:
    """Tokenize the prompt of each document: Prompt 2 of the PragWorld paper.

    Args:
        decoder: The model whose tokenizer is used.
        documents: The documents.
        chat_template: Whether each prompt becomes the turn of a user, with the assistant's begun.

    Raises:
        InputError: A prompt is longer than the model supports.
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
        if most is not None and len(ids) > most:
            raise InputError(
                f"split {document.split}, row {document.row}: the prompt has {len(ids)} tokens, "
                f"but the model supports {most}; use a model with a longer context"
            )
        start = text.find(document.context)  # -1 if a template has changed it
        end = start + len(document.context)
        offsets = encoded["offset_mapping"][number] if tokenizer.is_fast and start >= 0 else []
        dialogue = (
            position
            for position, (first, behind) in enumerate(offsets)
            if first < behind and start <= first and behind <= end
        )
        prompts.append(TokenizedPrompt(ids, frozenset(dialogue)))
    return prompts


def _without_ending(ids: list[int], text_ids: list[int]) -> list[int]:
    """Return the ids of a prompt up to the end of its text, without an EOS behind it."""
    for start in range(len(ids) - len(text_ids) + 1):
        if ids[start : start + len(text_ids)] == text_ids:
            return ids[: start + len(text_ids)]
    return ids


def label_texts(documents: Sequence[Document]) -> list[str]:
    """Return the text of each document's prompt, before any chat template."""
    return [label_prompt({"context": d.context, "question": d.question}) for d in documents]


def group_prompts(
    documents: Sequence[Document], prompts: Sequence[TokenizedPrompt]
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
                dialogues=tuple(prompt.dialogue for _, prompt in group),
            )
        )
    return groups
