"""The documents to train on, and the rows that TRL trains on."""

import json
from typing import Any

import pytest
from train_runs import refused

from pragworld_tasks.data.prompts import label_prompt
from pragworld_train.arguments import TrainArguments
from pragworld_train.data import DocumentSet, load_document_set, to_dataset


def chosen(name: str = "generated", groups: int | None = None, **settings: Any) -> DocumentSet:
    config = json.dumps({} if groups is None else {"groups": groups})
    return load_document_set(
        TrainArguments(**{"dataset_config": config, **settings}, dataset_name=name)
    )


def test_a_row_is_prompt_2_and_its_label() -> None:
    documents = chosen(groups=5).documents
    for document, row in zip(documents, to_dataset(documents), strict=True):
        assert row == {"prompt": label_prompt(document), "completion": f" {document.answer}"}


def test_a_row_for_a_chat_template_is_a_conversation() -> None:
    (document, *_) = chosen(groups=1).documents
    row = to_dataset([document], chat_template=True)[0]
    assert row["prompt"] == [{"role": "user", "content": label_prompt(document)}]
    assert row["completion"] == [{"role": "assistant", "content": document.answer}]


def test_the_held_out_alteration_is_not_trained_on_and_is_evaluated() -> None:
    training = chosen(groups=30, held_out_alteration="Negation")
    assert "Negation" not in {document.alteration for document in training.documents}
    test = chosen(groups=30, dataset_train_split="test", held_out_alteration="Negation")
    assert len({one.group for one in test.documents if one.alteration == "Negation"}) == 30
    assert training.other_split("validation").generator == {
        **(training.generator or {}),
        "groups": 3,
        "split": "validation",
    }


def test_originals_only() -> None:
    everything = chosen(groups=8).documents
    originals = chosen(groups=8, originals_only=True).documents
    assert originals == [document for document in everything if document.is_original]
    assert len(originals) == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "mannual"}, "^there is no released split 'mannual'; choose from manual, "),
        ({"dataset_config": "{"}, r"^dataset_config '\{': not a JSON object, such as "),
        ({"dataset_config": "[]"}, r"^dataset_config '\[\]': not a JSON object, such as "),
        ({"dataset_train_split": "trial"}, "^split: Input should be 'train', 'validation'"),
        ({"held_out_alteration": "Swap"}, "^alteration 'Swap' does not exist; choose from Negatio"),
    ],
)
def test_names_that_do_not_exist_are_refused(settings: dict[str, Any], message: str) -> None:
    with refused(message):
        chosen(**settings)


def test_a_released_split_has_no_other_to_evaluate_the_loss_on(sample_data: None) -> None:
    with refused(r"^manual: .* no other documents .* use --eval_strategy no$"):
        chosen("manual").other_split("validation")
