"""The documents to train on, and the rows that TRL trains on."""

import re
from collections import Counter
from typing import Any

import pytest
from places import SAMPLES

from pragworld_tasks.data.prompts import label_prompt, split_prompt
from pragworld_tasks.errors import InputError
from pragworld_train.data import load_document_set, to_dataset


def test_a_row_is_prompt_2_and_its_label() -> None:
    documents = load_document_set("generated", '{"groups": 5}').documents
    dataset = to_dataset(documents)
    assert len(dataset) == len(documents)
    for document, row in zip(documents, dataset, strict=True):
        assert split_prompt(row["prompt"]) == (document.context, document.question)
        assert row["prompt"].endswith("\nLabel:")
        assert row["completion"] == f" {document.answer}"


def test_a_row_for_a_chat_template_is_a_conversation() -> None:
    (document, *_) = load_document_set("generated", '{"groups": 1}').documents
    row = to_dataset([document], chat_template=True)[0]
    record = {"context": document.context, "question": document.question}
    assert row["prompt"] == [{"role": "user", "content": label_prompt(record)}]
    assert row["completion"] == [{"role": "assistant", "content": document.answer}]


def test_the_held_out_alteration_is_not_trained_on_and_is_evaluated() -> None:
    training = load_document_set("generated", '{"groups": 30}', held_out_alteration="Negation")
    assert "Negation" not in {document.alteration for document in training.documents}
    evaluated = load_document_set("generated", '{"groups": 30}', "test", "Negation").documents
    by_group = Counter(
        document.group for document in evaluated if document.alteration == "Negation"
    )
    assert len(by_group) == 30
    assert training.other_split("validation").generator == {
        **(training.generator or {}),
        "groups": 3,
        "split": "validation",
    }


def test_the_held_out_alteration_of_a_released_split_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    everything = load_document_set("manual").documents
    names = {document.alteration for document in everything} - {None}
    name = sorted(map(str, names))[0]
    rest = load_document_set("manual", held_out_alteration=name).documents
    assert rest == [document for document in everything if document.alteration != name]
    assert len(rest) < len(everything)


def test_originals_only() -> None:
    everything = load_document_set("generated", '{"groups": 8}').documents
    originals = load_document_set("generated", '{"groups": 8}', originals_only=True).documents
    assert originals == [document for document in everything if document.is_original]
    assert len(originals) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mannual",), "^there is no released split 'mannual'; choose from manual, "),
        (("generated", "{"), r"^dataset_config '\{': not a JSON object, such as "),
        (("generated", "[]"), r"^dataset_config '\[\]': not a JSON object, such as "),
        (
            ("generated", '{"group": 3}'),
            "^setting 'group' does not exist; choose from groups, ",
        ),
        (
            ("generated", "{}", "trial"),
            "^there is no generated split 'trial'; use train, ",
        ),
        (
            ("generated", "{}", "train", "Swap"),
            "^alteration 'Swap' does not exist; choose from Negation, ",
        ),
        (
            ("manual", '{"groups": 3}'),
            "^manual: only the split generated has settings; leave them out$",
        ),
    ],
)
def test_names_that_do_not_exist_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError) as refused:
        load_document_set(*arguments)
    assert re.search(message, str(refused.value)), refused.value
    assert "\n" not in str(refused.value)


def test_a_released_split_has_no_other_to_evaluate_the_loss_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRAGWORLD_DATA", str(SAMPLES))
    with pytest.raises(
        InputError, match=r"^manual: .* no other documents .* use --eval_strategy no$"
    ):
        load_document_set("manual").other_split("validation")
