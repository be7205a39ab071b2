"""What is trained on: documents of a split, and the form in which TRL trains on them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.data.splits import GENERATED, named_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.prompts import label_prompt

# Settings of the generator that have options of their own.
_ELSEWHERE = {"split": "dataset_train_split", "held_out_alteration": "held_out_alteration"}
GROUPS = 2000  # of generated documents, unless told otherwise


@dataclass(frozen=True)
class Chosen:
    """Documents, and what they are.

    Attributes:
        documents: what is trained on, or evaluated.
        name: of their split.
        generator: the settings that generated ones were made with; None for released ones.
    """

    documents: list[Document]
    name: str
    generator: dict[str, Any] | None


def chosen(
    name: str,
    settings: str = "{}",
    split: str = "train",
    held_out_alteration: str | None = None,
    originals_only: bool = False,
) -> Chosen:
    """The documents of a split.

    Args:
        name: of a released split, or "generated".
        settings: of generated documents, a JSON object: groups, seed, domains.
        split: of generated documents.
        held_out_alteration: one that is left out. A generated split other than train and
            validation has it in every group.
        originals_only: whether altered documents are left out.

    Raises:
        InputError: there is no such split, setting or alteration, or nothing is left.
    """
    if held_out_alteration not in (None, *ALTERATIONS):
        raise InputError(
            f"no alteration {held_out_alteration!r}; there are {', '.join(ALTERATIONS)}"
        )
    if name == GENERATED:
        try:
            given = json.loads(settings)
        except ValueError as error:
            raise InputError(f"dataset_config {settings!r:.80}: not JSON ({error})") from error
        if isinstance(given, dict):
            for setting, option in _ELSEWHERE.items():
                if setting in given:
                    raise InputError(f"dataset_config: {setting} is named by --{option}")
            own = {"split": split, "held_out_alteration": held_out_alteration}
            given = {"groups": GROUPS, **given, **own}
        settings = json.dumps(given)
    found, generator = named_documents(name, settings, "dataset_config")
    if name != GENERATED and held_out_alteration:
        found = [one for one in found if one.alteration != held_out_alteration]
    if originals_only:
        found = [one for one in found if one.is_original]
    if not found:
        raise InputError(f"{name}: no documents are left to train on")
    return Chosen(found, name, generator)


def held_out(training: Chosen, split: str) -> Chosen:
    """Another generated split with the settings of one, and a tenth of its groups.

    Raises:
        InputError: the documents are not generated, so there is no other split of them.
    """
    if training.generator is None:
        raise InputError(
            f"{training.name}: no other documents to evaluate the loss on; take --eval_strategy no"
        )
    given = {**training.generator, "split": split}
    given["groups"] = max(1, given["groups"] // 10)
    found, generator = named_documents(GENERATED, json.dumps(given), "dataset_test_split")
    return Chosen(found, GENERATED, generator)


def to_dataset(documents: Sequence[Document], chat_template: bool = False) -> Dataset:
    """A data set in TRL's prompt-completion format: Prompt 2 and its label, a row a document.

    Args:
        documents: of any split.
        chat_template: whether rows are conversations, which TRL puts through the model's template:
            the prompt as the user's turn, "yes" or "no" as the assistant's. Otherwise they are
            texts, and the completions " yes" and " no".
    """
    prompts = [
        label_prompt({"context": one.context, "question": one.question}) for one in documents
    ]
    if not chat_template:
        completions = [f" {document.answer}" for document in documents]
        return Dataset.from_dict({"prompt": prompts, "completion": completions})
    return Dataset.from_dict(
        {
            "prompt": [[{"role": "user", "content": prompt}] for prompt in prompts],
            "completion": [
                [{"role": "assistant", "content": document.answer}] for document in documents
            ],
        }
    )
