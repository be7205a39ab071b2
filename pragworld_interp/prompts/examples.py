"""What a sweep runs on: prompts with labels, made of documents or given by a caller."""

import hashlib
import json
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pragworld_interp.prompts.labels import prompt_texts, single_tokens
from pragworld_tasks.data.documents import OWN, YES_NO, Document, Effect, Split
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.scoring import check_documents


@dataclass(frozen=True)
class Example:
    """A prompt whose next token is one of some labels: a document's, or one of a caller."""

    row: int
    group: int  # independent of the others
    is_original: bool  # of prompts of a caller, the first of a group is
    answer: str  # the label that is right
    text: str  # before a chat template; of a document, Prompt 2 of the paper
    columns: tuple[int, ...]  # its labels' logits among those of all labels, the right one first
    labels: tuple[str, ...] = ()  # none for documents whose labels are yes and no
    context: str = ""
    question: str = ""
    alteration: str | None = None
    effect: Effect | None = None
    split: Split = OWN

    @property
    def place(self) -> str:
        """What an error calls the example."""
        kind = f"split {self.split}, row" if self.context else "prompt"
        return f"{kind} {self.row}"


def document_examples(documents: Sequence[Document]) -> list[Example]:
    """Return the example of each document of one split."""
    check_documents(documents)
    labels = documents[0].labels
    columns = {
        label: (place, *(other for other in range(len(labels)) if other != place))
        for place, label in enumerate(labels)
    }
    return [
        Example(
            row=document.row,
            group=document.group,
            is_original=document.is_original,
            answer=document.answer,
            text=label_prompt(document),
            columns=columns[document.answer],
            labels=labels if labels != YES_NO else (),
            context=document.context,
            question=document.question,
            alteration=document.alteration,
            effect=document.effect,
            split=document.split,
        )
        for document in documents
    ]


def fingerprint(examples: Sequence[Example]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of examples.

    Equal fingerprints mean that two models were evaluated on the same prompts and labels. Chat
    templates differ between models, so the prompts are those before a template is applied.
    """
    digest = hashlib.sha256()
    for example in examples:
        labels = [sorted(example.labels)] if example.labels else []
        facts = [example.split, example.row, example.group, example.answer]
        record = [*facts, example.alteration, example.effect, example.text, *labels]
        digest.update(json.dumps(record).encode() + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True)
class OwnPrompts:
    """A caller's prompts, with what belongs to them, as `ablate` takes them."""

    prompts: Iterable[str] | None
    labels: Iterable[str] | Iterable[Iterable[str]]
    answers: Iterable[str]
    groups: Iterable[Hashable] | None

    def examples(
        self, tokenizer: Any, chat_template: bool
    ) -> tuple[list[Example], tuple[int, ...]]:
        """Return the examples, and the tokens of all labels; none without prompts."""
        prompts, answers = list(self.prompts or ()), list(self.answers)
        groups = list(range(len(prompts)) if self.groups is None else self.groups)
        labels: list[Any] = list(self.labels)
        if labels and isinstance(labels[0], str):
            labels = [labels] * len(prompts)
        for name, given in (("labels", labels), ("answers", answers), ("groups", groups)):
            if len(given) != len(prompts):
                raise InputError(
                    f"there are {len(prompts)} prompts, but {len(given)} {name}; give as many"
                )
        texts = prompt_texts(tokenizer, prompts, chat_template)
        by_prompt = [tuple(own) for own in labels]
        tokens = [
            _label_tokens(tokenizer, row, *own, chat_template)
            for row, own in enumerate(zip(texts, by_prompt, answers, strict=True))
        ]
        all_tokens = sorted({token for own in tokens for token in own})
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        return [
            Example(
                row=row,
                group=numbers[groups[row]],
                is_original=groups.index(groups[row]) == row,
                answer=answers[row],
                text=prompt,
                columns=tuple(map(all_tokens.index, tokens[row])),
                labels=by_prompt[row],
            )
            for row, prompt in enumerate(prompts)
        ], tuple(all_tokens)


def _label_tokens(
    tokenizer: Any, row: int, text: str, labels: Sequence[str], answer: str, chat_template: bool
) -> list[int]:
    """Return the tokens of a prompt's labels, that of the right one first."""
    if answer not in labels or len(labels) < 2 or len({*labels}) < len(labels):
        raise InputError(
            f"prompt {row}: the answer is {answer!r}, the labels are {', '.join(labels)!r}; "
            "there must be at least two different labels, each once, and the answer must be one of "
            "them"
        )
    ordered = [answer, *(label for label in labels if label != answer)]
    space = "" if chat_template or text[-1:].isspace() or text[-1:] in ("", *"([{") else " "
    return single_tokens(tokenizer, text, [f"{space}{label}" for label in ordered], f"prompt {row}")
