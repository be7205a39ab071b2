"""Labels from the data: where probes read them, and gradients of an independent plain loop."""

import random
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import ClassLabel, Dataset
from train_runs import (
    BOTH,
    EOS,
    assert_close,
    fresh_model,
    gradients,
    gradients_by_hand,
    make_trainer,
    plain_settings,
    refused,
    settings,
    small_tokenizer,
    trained,
)

from pragworld_train.probe_labels import check_labels

LETTERS = ["A", "B", "C", "D"]
LAST = (*LETTERS, "user", "assistant", "<think>", "</think>")  # the last words of the tokenizer
IDS = {word: 96 - len(LAST) + number for number, word in enumerate(LAST)}
TEMPLATE = (
    "{% for turn in messages %}{{ turn.role }} {% if turn.role == 'assistant' %}{% generation %}"
    "{{ turn.content }} </s> {% endgeneration %}{% else %}{{ turn.content }} </s> {% endif %}"
    "{% endfor %}{% if add_generation_prompt %}assistant {% endif %}"
)
THINKING = TEMPLATE.replace(
    "{{ turn.content }} </s> {% endg", "<think> </think> {{ turn.content }} </s> {% endg"
)

# A row as text, its ids, the first position with a loss, and its positions before labels.
Row = tuple[dict[str, Any], list[int], int, list[tuple[int, int]]]


@pytest.fixture
def tokenizer() -> Any:
    made = deepcopy(small_tokenizer(*LAST))
    made.chat_template = TEMPLATE
    return made


def words(generator: random.Random, low: int = 3, high: int = 12) -> list[int]:
    return [generator.randrange(7, 80) for _ in range(generator.randrange(low, high))]


def text(ids: Sequence[int]) -> str:
    names = {number: word for word, number in IDS.items()} | {5: "yes", 6: "no"}
    return " ".join(names.get(number, f"word{number}") for number in ids)


def classified(
    count: int, classes: Sequence[int], seed: int = 0, by_column: bool = False
) -> list[Row]:
    """Return prompts whose completions are classes, which a column may say instead."""
    generator = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        prompt, label = words(generator), number % len(classes)
        row: dict[str, Any] = {"prompt": text(prompt), "completion": f" {text([classes[label]])}"}
        row |= {"label": label} if by_column else {}
        ids = [*prompt, classes[label], EOS]
        rows.append((row, ids, len(prompt), [(len(prompt) - 1, label)]))
    return rows


def replayed(count: int, seed: int = 1, by_column: bool = False) -> list[Row]:
    """Return prompts whose completions are no classes, though some hold the word of one."""
    generator = random.Random(seed)
    rows: list[Row] = []
    for _ in range(count):
        prompt, completion = words(generator), [*words(generator), 6, *words(generator)]
        row: dict[str, Any] = {"prompt": text(prompt), "completion": f" {text(completion)}"}
        row |= {"label": None} if by_column else {}
        rows.append((row, [*prompt, *completion, EOS], len(prompt), []))
    return rows


def conversations(count: int, seed: int = 2) -> list[Row]:
    """Return conversations of three questions, of which the first and the last have labels."""
    generator = random.Random(seed)
    rows: list[Row] = []
    for number in range(count):
        turns: list[dict[str, str]] = []
        ids: list[int] = []
        answers = []
        for turn, answer in enumerate((5 + number % 2, 30, 6)):
            question = words(generator)
            turns += [{"role": "user", "content": text(question)}]
            turns += [{"role": "assistant", "content": text([answer])}]
            ids += [IDS["user"], *question, EOS, IDS["assistant"]]
            if turn != 1:
                answers.append((len(ids) - 1, answer - 5))
            ids += [answer, EOS]
        rows.append(({"messages": turns}, ids, 0, answers))
    return rows


THREE = ["word50", "word51", "word52"]
DATA: dict[str, tuple[list[Row], list[str] | None]] = {
    "three classes": (classified(8, [50, 51, 52]), THREE),
    "A to D": (classified(8, [IDS[letter] for letter in LETTERS], by_column=True), LETTERS),
    "replay": (classified(4, [5, 6]) + replayed(4), None),
    "replay by column": (
        classified(4, [5, 6], by_column=True) + replayed(4, by_column=True),
        None,
    ),
    "two labelled turns": (conversations(6), None),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "padded": {},
    "padding-free": {"padding_free": True, "max_length": None},
    "packed": {"packing": True, "max_length": 64},
    "packed in parts": {"packing": True, "max_length": 64, "packing_strategy": "bfd_split"},
    "accumulated": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
    "streamed": {},
}


def expected_of(
    rows: Sequence[Row], probes: Any
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Return the gradients of a plain loop over rows, by the trainer's names, and the losses."""
    tokens = []
    for _, ids, start, _ in rows:
        unseen = max(start, 1)  # nothing predicts the first token
        tokens.append({"input_ids": ids, "labels": [-100] * unseen + ids[unseen:]})
    answers = [answers for *_, answers in rows]
    return gradients_by_hand(fresh_model(), tokens, probes, answers=answers)


def trainer_of(folder: Path, tokenizer: Any, data: str, layout: str = "padded") -> Any:
    rows, classes = DATA[data]
    dataset: Any = Dataset.from_list([row for row, *_ in rows])
    if layout == "streamed":
        dataset = dataset.to_iterable_dataset()
    args = settings(folder, **BOTH, probe_classes=classes, **LAYOUTS[layout])
    return make_trainer(fresh_model(), args, dataset, processing_class=tokenizer)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", DATA)
def test_gradients_equal_those_of_a_plain_loop(
    tmp_path: Path, tokenizer: Any, data: str, layout: str
) -> None:
    trainer = trainer_of(tmp_path, tokenizer, data, layout)
    assert {probe.outer.out_features for probe in trainer.probes.values()} == {
        len(DATA[data][1] or "yn")
    }
    probes = deepcopy(trainer.probes)
    found = gradients(trainer)
    expected, losses = expected_of(DATA[data][0], probes)
    assert_close(found, expected, 1e-5)
    for name in ("loss", "ula_loss", "hls_loss"):
        assert trainer.state.log_history[0][name] == pytest.approx(losses[name], rel=1e-5)


def test_a_step_of_replay_rows_alone_has_no_amplification(tmp_path: Path, tokenizer: Any) -> None:
    rows = Dataset.from_list([row for row, *_ in replayed(2) + classified(2, [5, 6])])
    args = settings(tmp_path, **BOTH, per_device_train_batch_size=2, max_steps=2)
    trainer = trained(fresh_model(), args, rows, processing_class=tokenizer)
    first, second, _ = trainer.state.log_history
    assert "ula_loss" not in first
    assert first["loss"] == pytest.approx(first["loss"])  # a number
    assert second["ula_loss"] > 0


@pytest.mark.parametrize("labels", ["none", "some"])
def test_evaluation_data_needs_no_labels(tmp_path: Path, tokenizer: Any, labels: str) -> None:
    rows = replayed(4) + (classified(3, [5, 6]) if labels == "some" else [])
    held_out = Dataset.from_list([row for row, *_ in rows])
    trainer = trainer_of(tmp_path, tokenizer, "replay")
    metrics = trainer.evaluate(held_out)
    plain = make_trainer(
        fresh_model(), plain_settings(tmp_path), held_out, processing_class=tokenizer
    )
    plain_loss = plain.evaluate(held_out)["eval_loss"]  # summed over tokens in another order
    assert metrics["eval_loss"] == pytest.approx(plain_loss, rel=1e-6)
    assert ("eval_ula_loss" in metrics) == (labels == "some")
    if labels == "some":
        _, losses = expected_of(rows, deepcopy(trainer.probes))
        assert metrics["eval_ula_loss"] == pytest.approx(losses["ula_loss"], rel=1e-5)


def labelled(
    folder: Path, tokenizer: Any, rows: Any, classes: Sequence[str] = ("yes", "no")
) -> Any:
    """Return rows as the trainer tokenizes them, with their labels."""
    dataset = Dataset.from_list(rows) if isinstance(rows, list) else rows
    args = settings(folder, **BOTH, probe_classes=list(classes))
    return make_trainer(fresh_model(), args, dataset, processing_class=tokenizer).train_dataset


def labels_of(dataset: Any) -> list[list[tuple[int, int]]]:
    return [
        [(place, label) for place, label in enumerate(row["probe_labels"]) if label != -100]
        for row in dataset
    ]


@pytest.mark.parametrize(
    ("completion", "label"),
    [
        (" no", 1),
        ("no", 1),
        ("yes\nword9", 0),
        (" no, word9", 1),
        (" no</s>", 1),
        (" word9. word10 is no word11", None),
        (" word9", None),
        (" no word9", None),
        (" nothing", None),
        (" No", None),
    ],
)
def test_a_completion_has_the_label_that_it_begins_with(
    tmp_path: Path, tokenizer: Any, completion: str, label: int | None
) -> None:
    rows = [{"prompt": "word8\nword9 ", "completion": text} for text in (completion, " yes")]
    found = labels_of(labelled(tmp_path, tokenizer, rows))
    assert found == [[] if label is None else [(1, label)], [(1, 0)]]


def test_rows_with_a_label_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Once if they have several labels."""
    rows = [{"probe_labels": labels} for labels in ([-100, 1, 0], [0], [-100, -100])]
    check_labels(Dataset.from_list(rows * 7), ["yes", "no"])
    assert caplog.messages == ["train data: 14 of 21 rows have a label for probes"]


def test_the_longest_class_counts(tmp_path: Path, tokenizer: Any) -> None:
    rows = [{"prompt": "word8", "completion": " word9, word10"}]
    classes = ["word9", "word9, word10", "word10"]
    assert labels_of(labelled(tmp_path, tokenizer, rows, classes)) == [[(0, 1)]]


def test_rows_without_a_label_are_truncated_as_in_trl(tmp_path: Path, tokenizer: Any) -> None:
    rows = [row for row, *_ in classified(2, [5, 6]) + replayed(4)]
    for options in ({}, {"packing": True}):
        args = settings(tmp_path, **BOTH, max_length=16, **options)
        trainer = make_trainer(
            fresh_model(), args, Dataset.from_list(rows), processing_class=tokenizer
        )
        plain = make_trainer(
            fresh_model(),
            plain_settings(tmp_path, max_length=16, **options),
            Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        found, expected = trainer.train_dataset, plain.train_dataset
        assert list(found["input_ids"]) == list(expected["input_ids"])
        assert list(found["labels"]) == list(expected["labels"])
        lengths = [len(labels) for labels in found["probe_labels"]]
        assert lengths == [len(ids) for ids in found["input_ids"]]
        assert max(lengths) == 16
        assert sum(map(len, labels_of(found))) == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"label": "E"},
            "label 'E': must be one of A, B, C, D, or its number from 0 to 3, or None",
        ),
        ({"label": 4}, "label 4: must be one of"),
        ({"label": True}, "label True: must be"),
        ({"label": [0, 1]}, "2 labels and 1 answers"),
        ({"prompt": "", "completion": "A"}, "no prompt before the label"),
        ({"completion": "A, word8", "label": 0}, "the end of the prompt"),
    ],
)
def test_rows_that_probes_cannot_read_are_refused(
    tmp_path: Path, tokenizer: Any, row: dict[str, Any], said: str
) -> None:
    with refused(f"^train data, row 0: {said}"):
        labelled(tmp_path, tokenizer, [{"prompt": "word9", "completion": " A", **row}], LETTERS)


def test_a_column_of_other_classes_is_refused(tmp_path: Path, tokenizer: Any) -> None:
    rows = Dataset.from_list([{"prompt": "word9", "completion": " A", "label": 0}])
    rows = rows.cast_column("label", ClassLabel(names=["B", "A"]))
    with refused(r"its classes are \['B', 'A'\], and probe_classes are"):
        labelled(tmp_path, tokenizer, rows, ["A", "B"])


@pytest.mark.parametrize(
    "template", [THINKING, TEMPLATE.replace("}assistant {%", "}assistant <think> {%")]
)
def test_a_template_that_separates_prompts_from_answers_is_refused(
    tmp_path: Path, tokenizer: Any, template: str
) -> None:
    """Sweeps and lm-eval would read at another token."""
    tokenizer.chat_template = template
    with refused("^train data, row 0: the chat template puts '<think>"):
        labelled(tmp_path, tokenizer, [row for row, *_ in conversations(1)])


def test_templates_that_think_are_read_behind_what_the_prompt_holds(
    tmp_path: Path, tokenizer: Any
) -> None:
    """With such an option of the template, sweeps read behind the block as well."""
    tokenizer.chat_template = THINKING.replace(
        "}assistant {%", "}assistant {% if not thinks %}<think> </think> {% endif %}{%"
    )
    rows = [
        {
            "prompt": [{"role": "user", "content": "word9"}],
            "completion": [{"role": "assistant", "content": "no"}],
            "chat_template_kwargs": {"thinks": False},
        }
    ]
    (made,) = labelled(tmp_path, tokenizer, rows)
    ((place, label),) = labels_of([made])[0:1][0]
    assert label == 1
    behind = made["input_ids"][place - 1 : place + 2]
    assert behind == [IDS["<think>"], IDS["</think>"], 6]
