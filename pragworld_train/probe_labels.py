"""The labels that probes learn: a column of classes by token, and batches of it.

The column `probe_labels` is as long as `input_ids`. It has the index of a class at each position
that predicts a label, which is the token before the label's first, and -100 everywhere else. Rows
without a label, such as replay data, have -100 only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import ClassLabel, Dataset, IterableDataset
from transformers import PreTrainedTokenizerBase
from trl.data_utils import common_prefix_length

from pragworld_interp.prompts.labels import text_before_answer
from pragworld_tasks.errors import InputError
from pragworld_train.layer_settings import check_classes

NO_LABEL = -100  # as in `labels`
_COLUMN = "probe_labels"
_FORMATS = "prompt and completion, messages, or text"


@dataclass(frozen=True)
class RowOptions:
    """How rows are tokenized, as settings of TRL say.

    Attributes:
        completion_only_loss: Whether prompts have no loss, in rows of a prompt and a completion.
        assistant_only_loss: Whether the assistant's turns alone have a loss, in rows of messages.
        chat_template: The chat template, if it is not that of the tokenizer.
        max_length: Length to which TRL truncates rows afterwards, if it does.
        truncated: Whether TRL truncates them by itself, not while packing them.
    """

    completion_only_loss: bool = True
    assistant_only_loss: bool = False
    chat_template: str | None = None
    max_length: int | None = None
    truncated: bool = True


def add_probe_labels(
    dataset: Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    classes: Sequence[str],
    *,
    completion_only_loss: bool = True,
    assistant_only_loss: bool = False,
) -> Dataset | IterableDataset:
    """Return a dataset in TRL's format tokenized as TRL does, with its labels in `probe_labels`.

    The trainer does this itself with data that is not tokenized. Call it to look at the labels, or
    to join datasets of different formats.

    A row has a `prompt` and a `completion`, each as text or as messages, or it has `messages` of
    several turns, or only `text`. Its label is in the column `label`, if there is one: a class or
    its index, None for no label, and for `messages` a list with one for each turn of the
    assistant. Otherwise each completion or turn of the assistant that begins with a class, and
    goes on with punctuation or a new line if at all, has that class as its label.

    Args:
        dataset: The rows, which may be streamed. If they have `input_ids`, their `probe_labels`
            are checked.
        tokenizer: The tokenizer of the model.
        classes: The classes, as they are written in completions; `probe_classes` of the trainer.
        completion_only_loss: Whether prompts have no loss, in rows of a prompt and a completion.
        assistant_only_loss: Whether the assistant's turns alone have a loss, in rows of messages.

    Returns:
        The dataset with the columns `input_ids`, `labels` and `probe_labels` added.

    Raises:
        InputError: A row has none of these formats, or a label that is not a class or does not
            follow the prompt; the message names the row. Streamed rows are checked when they come.

    Examples:
        >>> from datasets import Dataset
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> from transformers import AutoTokenizer
        >>> tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
        >>> rows = [{"prompt": "Is the cat in the kitchen?", "completion": " no"}]
        >>> row = add_probe_labels(Dataset.from_list(rows), tokenizer, ["yes", "no"])[0]
        >>> position = row["probe_labels"].index(1)
        >>> tokenizer.decode(row["input_ids"][: position + 1])
        '<s>Is the cat in the kitchen?'
    """
    options = RowOptions(completion_only_loss, assistant_only_loss)
    return label_rows(dataset, tokenizer, classes, options)


def label_rows(
    dataset: Dataset | IterableDataset,
    tokenizer: PreTrainedTokenizerBase,
    classes: Sequence[str],
    options: RowOptions,
    name: str = "",
    processes: int | None = None,
) -> Dataset | IterableDataset:
    """Add probe labels to a dataset; see `add_probe_labels`.

    Args:
        dataset: The rows.
        tokenizer: The tokenizer of the model.
        classes: The classes.
        options: How rows are tokenized and truncated.
        name: What to call the data in messages: "train" or "eval".
        processes: Number of processes to work with.

    Raises:
        InputError: As for `add_probe_labels`, or a row with a label is too long.
    """
    check_classes(classes)
    feature = (dataset.features or {}).get("label")
    if isinstance(feature, ClassLabel) and feature.names != list(classes):
        raise InputError(
            f"column label: its classes are {feature.names}, and probe_classes are "
            f"{list(classes)}; set probe_classes to the former"
        )
    more = {"num_proc": processes, "desc": f"Labelling {name} dataset" if name else "Labelling"}
    return dataset.map(
        _label_row,
        with_indices=True,
        fn_kwargs={
            "tokenizer": tokenizer,
            "classes": list(classes),
            "options": options,
            "name": name,
        },
        **(more if isinstance(dataset, Dataset) else {}),
    )


def count_labels(dataset: Dataset) -> tuple[int, int]:
    """Return the number of rows with a label, and of all rows."""
    labelled = 0
    for table in dataset.select_columns([_COLUMN]).with_format("arrow").iter(1000):
        lists = table[_COLUMN].combine_chunks()
        present = np.asarray(pc.list_flatten(lists)) != NO_LABEL
        labelled += len(np.unique(np.asarray(pc.list_parent_indices(lists))[present]))
    return labelled, len(dataset)


def _label_row(
    row: Mapping[str, Any],
    number: int,
    tokenizer: PreTrainedTokenizerBase,
    classes: Sequence[str],
    options: RowOptions,
    name: str,
) -> dict[str, list[int]]:
    """Return the tokens of a row, their labels, and its probe labels."""
    columns: dict[str, list[int]] = {}
    try:
        if "input_ids" in row:
            ids = row["input_ids"]
            probe_labels = row.get(_COLUMN) or [NO_LABEL] * len(ids)
            _check_tokens(ids, probe_labels, len(classes))
        else:
            ids, columns["labels"], answers = _tokenize(row, tokenizer, options)
            found = _row_classes(row, tokenizer, classes, len(answers))
            columns["input_ids"], probe_labels = ids, [NO_LABEL] * len(ids)
            for answer, label in zip(answers, found, strict=True):
                if label is not None:
                    probe_labels[answer.position()] = label
        if any(label != NO_LABEL for label in probe_labels):
            if options.max_length is not None and len(ids) > options.max_length:
                raise InputError(
                    f"{len(ids)} tokens, and max_length is {options.max_length}; a row with a "
                    "label must not be truncated, so increase max_length"
                )
        elif options.truncated:  # TRL truncates the other columns
            probe_labels = probe_labels[: options.max_length]
    except InputError as error:
        place = f"{name} data, row {number}" if name else f"row {number}"
        raise InputError(f"{place}: {error}") from error
    return {**columns, _COLUMN: probe_labels}


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
    """Where an answer is in a row, and what its label must follow.

    Attributes:
        start: Number of tokens before it.
        cut: The end of the prompt that merges with it, which must be empty.
        between: What the chat template puts before it, which must be empty.
    """

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


def _tokenize(
    row: Mapping[str, Any], tokenizer: PreTrainedTokenizerBase, options: RowOptions
) -> tuple[list[int], list[int], list[_Answer]]:
    """Return the tokens of a row and their labels, as TRL makes them, and its answers."""
    if row.get("prompt") is not None and row.get("completion") is not None:
        prompt, completion = row["prompt"], row["completion"]
        if isinstance(prompt, str):
            ids = _text_ids(tokenizer, prompt + completion)
            answers = [_answer(tokenizer, _ids(tokenizer, prompt), ids, "")]
        else:
            ids, _, answers = _turns(row, [*prompt, *completion], tokenizer, options, len(prompt))
            if not answers:
                raise InputError("the completion has no turn of the assistant; add one")
        start = answers[0].start if options.completion_only_loss else 0
        return ids, [NO_LABEL] * start + ids[start:], answers
    if row.get("messages") is not None:
        return _turns(row, row["messages"], tokenizer, options, 0)
    if row.get("text") is not None:
        ids = _text_ids(tokenizer, row["text"])
        return ids, ids, []
    raise InputError(f"the columns {', '.join(sorted(row))}; it must have {_FORMATS}")


def _turns(
    row: Mapping[str, Any],
    messages: Sequence[Mapping[str, Any]],
    tokenizer: PreTrainedTokenizerBase,
    options: RowOptions,
    prompt: int,
) -> tuple[list[int], list[int], list[_Answer]]:
    """Return the tokens of a conversation, their labels, and the assistant's turns after some."""
    template = {"chat_template": options.chat_template, **(row.get("chat_template_kwargs") or {})}
    whole = tokenizer.apply_chat_template(
        list(messages),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=options.assistant_only_loss,
        **template,
    )
    ids = whole["input_ids"]
    labels = ids
    if options.assistant_only_loss:
        masked = zip(ids, whole["assistant_masks"], strict=True)
        labels = [token if own else NO_LABEL for token, own in masked]
    answers = []
    for turn, message in enumerate(messages):
        if turn >= prompt and message["role"] == "assistant":
            before = list(messages[:turn])
            begun = tokenizer.apply_chat_template(
                before, tokenize=True, return_dict=True, add_generation_prompt=True, **template
            )["input_ids"]
            between = text_before_answer(tokenizer, before, message["content"], **template)
            answers.append(_answer(tokenizer, begun, ids, between))
    return ids, labels, answers


def _answer(
    tokenizer: PreTrainedTokenizerBase, before: Sequence[int], ids: Sequence[int], between: str
) -> _Answer:
    start = common_prefix_length(before, ids)
    return _Answer(start, tokenizer.decode(before[start:]), between)


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    ids: list[int] = tokenizer(text)["input_ids"]
    return ids


def _text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    end = tokenizer.eos_token or ""
    return _ids(tokenizer, text if text.endswith(end) else text + end)


def _row_classes(
    row: Mapping[str, Any],
    tokenizer: PreTrainedTokenizerBase,
    classes: Sequence[str],
    answers: int,
) -> list[int | None]:
    """Return the class of each answer of a row; None for those without a label."""
    if "label" in row:
        labels = row["label"] if isinstance(row["label"], list) else [row["label"]]
        if not any(label is not None for label in labels):
            return [None] * answers
        if len(labels) != answers:
            raise InputError(
                f"{len(labels)} labels and {answers} answers; there must be one for each, or None"
            )
        return [_class_index(label, classes) for label in labels]
    end = tokenizer.eos_token or ""
    return [_class_of(text.removesuffix(end), classes) for text in _answer_texts(row)]


def _answer_texts(row: Mapping[str, Any]) -> Iterator[str]:
    if row.get("prompt") is not None and isinstance(row["completion"], str):
        yield row["completion"]
        return
    messages = row["completion"] if row.get("prompt") is not None else row.get("messages") or []
    for message in messages:
        if message["role"] == "assistant":
            yield message["content"]


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
