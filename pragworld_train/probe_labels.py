"""The labels that probes learn: a column of classes by token, and batches of it.

The column `probe_labels` is as long as `input_ids`. It has the index of a class at each position
that predicts a label, which is the token before the label's first, and -100 everywhere else. Rows
without a label, such as replay data, have -100 only.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import ClassLabel, Dataset
from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length

from pragworld_interp.prompts.labels import text_before_answer
from pragworld_tasks.errors import InputError

_logger = logging.getLogger(__name__)
NO_LABEL = -100  # as in `labels`
_COLUMN = "probe_labels"


@dataclass(frozen=True)
class RowLabels:
    """Finds the labels of rows that TRL has tokenized, for `Dataset.map` with indices.

    A row has a `prompt` and a `completion`, each as text or as messages, or it has `messages` of
    several turns, or only `text`. Its label is in the column `label`, if there is one: a class or
    its index, None for no label, and for `messages` a list with one for each turn of the
    assistant. Otherwise each completion or turn of the assistant that begins with a class, followed
    by nothing but punctuation or a new line, has that class as its label.

    Attributes:
        tokenizer: The tokenizer of the model.
        classes: The classes, as they are written in completions.
        name: What to call the data in messages: "train" or "eval".
        reads_text: Whether TRL tokenized the text of the rows; otherwise they had tokens before,
            and have labels only in a column `probe_labels`.
        chat_template: The chat template, if it is not that of the tokenizer.
        max_length: Length to which TRL truncates rows afterwards, if it does.
        truncated: Whether TRL truncates them by itself, not while packing them.
    """

    tokenizer: PreTrainedTokenizerBase
    classes: Sequence[str]
    name: str
    reads_text: bool
    chat_template: str | None
    max_length: int | None
    truncated: bool

    def __call__(self, row: Mapping[str, Any], number: int) -> dict[str, list[int]]:
        """Return the probe labels of a row.

        Raises:
            InputError: A label is not a class or does not follow the prompt, or the row has one
                and is too long. The message names the row.
        """
        ids = row["input_ids"]
        try:
            if self.reads_text:
                probe_labels = self._read(row, ids)
            else:
                probe_labels = row.get(_COLUMN) or [NO_LABEL] * len(ids)
                _check_tokens(ids, probe_labels, len(self.classes))
            is_labelled = any(label != NO_LABEL for label in probe_labels)
            if is_labelled and self.max_length is not None and len(ids) > self.max_length:
                raise InputError(
                    f"{len(ids)} tokens, and max_length is {self.max_length}; a row with a label "
                    "must not be truncated, so increase max_length"
                )
        except InputError as error:
            raise InputError(f"{self.name} data, row {number}: {error}") from error
        return {_COLUMN: probe_labels[: self.max_length] if self.truncated else probe_labels}

    def _read(self, row: Mapping[str, Any], ids: Sequence[int]) -> list[int]:
        answers = list(_answers(row, ids, self.tokenizer, self.chat_template))
        if "label" in row:
            found = _labels(row["label"], self.classes, len(answers))
        else:
            end = self.tokenizer.eos_token or ""
            found = [_class_of(answer.text.removesuffix(end), self.classes) for answer in answers]
        probe_labels = [NO_LABEL] * len(ids)
        for answer, label in zip(answers, found, strict=True):
            if label is not None:
                probe_labels[answer.position()] = label
        return probe_labels


def check_label_column(dataset: Any, classes: Sequence[str]) -> None:
    """Refuse a column of labels whose indices stand for other classes."""
    feature = (dataset.features or {}).get("label")
    if isinstance(feature, ClassLabel) and feature.names != list(classes):
        raise InputError(
            f"column label: its classes are {feature.names}, and probe_classes are "
            f"{list(classes)}; set probe_classes to the former"
        )


def check_labels(dataset: Any, classes: Sequence[str]) -> None:
    """Refuse training data without a label, and say how many rows have one, unless streamed."""
    if not isinstance(dataset, Dataset):
        return
    rows = dataset.with_format("numpy").select_columns([_COLUMN])
    labelled = sum(bool((row[_COLUMN] != NO_LABEL).any()) for row in rows)
    if not labelled:
        raise InputError(
            f"train data: no row has a label among {', '.join(classes)}; set probe_classes, or add "
            "the column probe_labels or label"
        )
    if labelled < len(dataset):
        _logger.warning("train data: %d of %d rows have a label for probes", labelled, len(dataset))


def _check_tokens(ids: Sequence[int], probe_labels: Sequence[int], classes: int) -> None:
    if len(probe_labels) != len(ids):
        raise InputError(
            f"{len(probe_labels)} probe_labels and {len(ids)} input_ids; there must be as many"
        )
    wrong = [label for label in probe_labels if label != NO_LABEL and not 0 <= label < classes]
    if wrong:
        raise InputError(
            f"probe label {wrong[0]}; there are {classes} probe_classes, so it must be from 0 to "
            f"{classes - 1}, or {NO_LABEL}"
        )


@dataclass(frozen=True)
class _Answer:
    """A text that may be a label, where it is in a row, and what it must follow.

    Attributes:
        text: The text.
        start: Number of tokens before it.
        cut: The end of the prompt that merges with it, which must be empty.
        between: What the chat template puts before it, which must be empty.
    """

    text: str
    start: int
    cut: str
    between: str

    def position(self) -> int:
        """Return the position that predicts the answer, where sweeps and lm-eval read as well."""
        if self.between:
            raise InputError(
                f"the chat template puts {self.between!r:.80} between prompt and answer, but "
                "sweeps and lm-eval read directly behind the prompt; use a template that does not"
            )
        if self.cut:
            raise InputError(
                f"the end of the prompt, {self.cut!r}, is not a token of its own before the "
                "completion; begin the completion with a space, or end the prompt with a new line"
            )
        if not self.start:
            raise InputError("no prompt before the label; put at least one token there")
        return self.start - 1


def _answers(
    row: Mapping[str, Any],
    ids: Sequence[int],
    tokenizer: PreTrainedTokenizerBase,
    chat_template: str | None,
) -> Iterator[_Answer]:
    """Yield the completion of a row, or the turns of the assistant after its prompt."""

    def answer(text: str, before: Sequence[int], between: str = "") -> _Answer:
        start = common_prefix_length(before, ids)
        return _Answer(text, start, tokenizer.decode(before[start:]), between)

    prompt = row.get("prompt") or []
    if isinstance(row.get("completion"), str):
        yield answer(row["completion"], tokenizer(prompt or "")["input_ids"])
        return
    template = {"chat_template": chat_template, **(row.get("chat_template_kwargs") or {})}
    messages = [*prompt, *(row.get("completion") or row.get("messages") or [])]
    for turn, message in enumerate(messages):
        if turn >= len(prompt) and message["role"] == "assistant":
            before = messages[:turn]
            begun = tokenizer.apply_chat_template(
                before, tokenize=True, return_dict=True, add_generation_prompt=True, **template
            )["input_ids"]
            between = text_before_answer(tokenizer, before, message["content"], **template)
            yield answer(message["content"], begun, between)


def _labels(column: Any, classes: Sequence[str], answers: int) -> list[int | None]:
    """Return the class of each answer, as a column says it; None for those without a label."""
    labels = column if isinstance(column, list) else [column]
    if not any(label is not None for label in labels):
        return [None] * answers
    if len(labels) != answers:
        raise InputError(
            f"{len(labels)} labels and {answers} answers; there must be one for each, or None"
        )
    return [_class_index(label, classes) for label in labels]


def _class_of(text: str, classes: Sequence[str]) -> int | None:
    """Return the class that a text begins with, and that punctuation or a new line follows."""
    text = text.lstrip()
    found = [
        number
        for number, name in enumerate(classes)
        if text.startswith(name) and text[len(name) :][:1] in ".,;:!?)\n"
    ]
    return max(found, key=lambda number: len(classes[number]), default=None)


def _class_index(label: Any, classes: Sequence[str]) -> int | None:
    if label is None:
        return None
    if isinstance(label, str) and label in classes:
        return classes.index(label)
    if isinstance(label, int) and not isinstance(label, bool) and 0 <= label < len(classes):
        return label
    raise InputError(
        f"label {label!r}: must be one of {', '.join(classes)}, or its number from 0 to "
        f"{len(classes) - 1}, or None"
    )


class ProbeLabelCollator:
    """A collator that adds probe labels to batches, padded or concatenated like `input_ids`.

    Batches have `probe_labels` [rows, length], and `probe_positions` [labels, 2], the row and the
    column of each label. These are found here, where no device has to wait for them. If sequences
    are concatenated, batches also have `probe_mask` [1, length], False for padding at the end:
    position ids don't tell that from sequences of one token.
    """

    def __init__(self, collate: Any) -> None:
        """Create a collator from one of other columns, which keeps the order of examples."""
        self._collate = collate

    def __call__(self, examples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return a batch of examples.

        Raises:
            InputError: The other collator leaves tokens out, or adds some.
        """
        others = [{name: row[name] for name in row if name != _COLUMN} for row in examples]
        batch: dict[str, Any] = self._collate(others)
        rows = [row.get(_COLUMN) or [NO_LABEL] * len(row["input_ids"]) for row in examples]
        labels = torch.tensor([label for row in rows for label in row])
        mask = batch.get("attention_mask")
        if mask is None:
            length = batch["input_ids"].shape[1]
            mask = batch["probe_mask"] = torch.arange(length)[None] < len(labels)
        if mask.sum() != len(labels):
            raise InputError(
                f"data_collator {type(self._collate).__name__}: its batches must have the tokens "
                "of their examples and padding; use one that leaves out and adds none"
            )
        padded = torch.full_like(batch["input_ids"], NO_LABEL)
        padded[mask.bool()] = labels
        return {**batch, _COLUMN: padded, "probe_positions": (padded != NO_LABEL).nonzero()}
