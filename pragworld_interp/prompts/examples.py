"""What a sweep runs on: prompts with labels, made of documents or given by a caller."""

import hashlib
import json
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pragworld_interp.prompts.labels import prompt_texts, single_tokens
from pragworld_tasks.data.documents import OWN, Document, Effect, Split, has_alterations
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import InputError

_COLUMNS = {"yes": (0, 1), "no": (1, 0)}


@dataclass(frozen=True)
class Example:
    """A prompt whose next token is one of some labels.

    Attributes:
        row: The number of the document or the prompt.
        group: The number of its group; groups are independent of each other.
        is_original: Whether it is its group's original: of prompts of a caller, the first.
        answer: The label that is right.
        text: The prompt, before a chat template. That of a document is Prompt 2 of the paper.
        columns: Where the logits of its labels are among those of all labels, the right one first.
        labels: The labels of a caller's prompt; none for documents, whose labels are yes and no.
        context, question: Those of the document; empty for a caller's prompt.
        alteration, effect, split: As in `Document`.
    """

    row: int
    group: int
    is_original: bool
    answer: str
    text: str
    columns: tuple[int, ...]
    labels: tuple[str, ...] = ()
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
    """Return the example of each document.

    Args:
        documents: Some or all documents of one split. Variants may be without their original.

    Raises:
        InputError: They are of several splits, one occurs twice, or a group has several originals.
        KeyError: An answer is neither yes nor no.
    """
    _check_documents(documents)
    return [
        Example(
            row=document.row,
            group=document.group,
            is_original=document.is_original,
            answer=document.answer,
            text=label_prompt({"context": document.context, "question": document.question}),
            columns=_COLUMNS[document.answer],
            context=document.context,
            question=document.question,
            alteration=document.alteration,
            effect=document.effect,
            split=document.split,
        )
        for document in documents
    ]


def _check_documents(documents: Sequence[Document]) -> None:
    """Refuse documents whose groups would not be what they seem."""
    splits = sorted({document.split for document in documents})
    if len(splits) > 1:
        raise InputError(
            f"documents of splits {' and '.join(splits)}, but groups are numbered within a split; "
            "give those of one split"
        )
    place = f"split {splits[0]}"
    (row, count), *_ = Counter(document.row for document in documents).most_common(1)
    if count > 1:
        raise InputError(f"{place}, row {row}: the document occurs twice; give each document once")
    if not has_alterations(splits[0]):
        return
    originals = Counter(document.group for document in documents if document.is_original)
    for group, count in originals.most_common(1):
        if count > 1:
            raise InputError(
                f"{place}: group {group} has {count} originals; a group is one original and its "
                "altered variants, so give the others groups of their own"
            )


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
    """A caller's prompts, and for each its labels, its answer and its group; see `ablate`."""

    prompts: list[str]
    labels: list[list[str]]
    answers: list[str]
    groups: list[Hashable]

    def examples(
        self, tokenizer: Any, chat_template: bool
    ) -> tuple[list[Example], tuple[int, ...]]:
        """Return the examples, and the tokens of all labels.

        Raises:
            InputError: The labels of a prompt are not different tokens, or lack its answer.
        """
        texts = prompt_texts(tokenizer, self.prompts, chat_template)
        tokens = [
            _label_tokens(tokenizer, row, text, labels, answer, chat_template)
            for row, (text, labels, answer) in enumerate(
                zip(texts, self.labels, self.answers, strict=True)
            )
        ]
        all_tokens = sorted({token for own in tokens for token in own})
        numbers = {group: number for number, group in enumerate(dict.fromkeys(self.groups))}
        return [
            Example(
                row=row,
                group=numbers[group],
                is_original=group not in self.groups[:row],
                answer=answer,
                text=prompt,
                columns=tuple(map(all_tokens.index, own)),
                labels=tuple(labels),
            )
            for row, (prompt, labels, answer, group, own) in enumerate(
                zip(self.prompts, self.labels, self.answers, self.groups, tokens, strict=True)
            )
        ], tuple(all_tokens)


def read_own_prompts(
    prompts: Iterable[str] | None,
    labels: Iterable[str] | Iterable[Iterable[str]],
    answers: Iterable[str],
    groups: Iterable[Hashable] | None,
) -> OwnPrompts | None:
    """Return a caller's prompts with what belongs to them; None without any.

    Raises:
        InputError: There are not as many labels, answers or groups as prompts.
    """
    texts, given = list(prompts or ()), [*labels]
    rows = [[each] if isinstance(each, str) else list(each) for each in given]
    if given and isinstance(given[0], str):
        rows = [[label for row in rows for label in row]] * len(texts)
    numbers = range(len(texts)) if groups is None else groups
    own = OwnPrompts(texts, rows, list(answers), list(numbers))
    for name in ("labels", "answers", "groups"):
        if (count := len(getattr(own, name))) != len(texts):
            raise InputError(f"there are {len(texts)} prompts, but {count} {name}; give as many")
    return own if texts else None


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
    tokens = single_tokens(tokenizer, text, [f"{space}{label}" for label in ordered])
    if tokens is None:
        raise InputError(
            f"prompt {row}: the labels {', '.join(ordered)!r} must be different single tokens "
            "behind the prompt; choose other labels"
        )
    return tokens
