"""The documents to train on, and the dataset that TRL trains on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasets import Dataset

from pragworld_tasks.data.document_files import read_documents
from pragworld_tasks.data.documents import GENERATED, OWN, Document, alteration_names
from pragworld_tasks.data.prompts import label_completion, label_prompt
from pragworld_tasks.data.splits import named_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import json_object
from pragworld_train.arguments import TrainArguments

# Settings of the generator that have options of their own.
_OWN_OPTIONS = {"split": "dataset_train_split", "held_out_alteration": "held_out_alteration"}
DEFAULT_GROUPS = 2000  # of generated documents


@dataclass(frozen=True)
class DocumentSet:
    """Documents to train on or to evaluate.

    Attributes:
        documents: The documents.
        name: Name of their split.
        generator: Settings that generated documents were made with; None for others.
    """

    documents: list[Document]
    name: str
    generator: dict[str, Any] | None

    def other_split(self, split: str) -> "DocumentSet":
        """Return another generated split, of the same settings but a tenth of the groups."""
        if self.generator is None:
            raise InputError(
                f"{self.name}: there are no other documents to evaluate the loss on; use "
                "--eval_strategy no"
            )
        groups = max(1, self.generator["groups"] // 10)
        settings = {**self.generator, "split": split, "groups": groups}
        documents, generator = named_documents(GENERATED, settings)
        return DocumentSet(documents, GENERATED, generator)


def load_document_set(arguments: TrainArguments) -> DocumentSet:
    """Load, generate or read the documents to train on.

    Raises:
        InputError: There is no such split, setting or alteration, the file is malformed, a setting
            has no effect, or no documents are left.
    """
    _check_effects(arguments)
    held_out = arguments.held_out_alteration
    own = [] if arguments.documents is None else read_documents(arguments.documents)
    names = alteration_names(document.alteration for document in own)
    if held_out not in (None, *names):
        raise InputError(f"alteration {held_out!r} does not exist; choose from {', '.join(names)}")
    generator = json_object(arguments.dataset_config, "dataset_config")
    name = title = arguments.dataset_name
    if arguments.documents is not None:
        name, title = OWN, arguments.documents
        documents, made_with = own, None
    else:
        if name == GENERATED:
            for setting, option in _OWN_OPTIONS.items():
                if setting in generator:
                    raise InputError(
                        f"dataset_config: {setting} has an option of its own, --{option}"
                    )
            generator = {"groups": DEFAULT_GROUPS, **generator, "held_out_alteration": held_out}
            generator["split"] = arguments.dataset_train_split
            held_out = None  # the generator leaves it out of the splits to train on
        documents, made_with = named_documents(name, generator)
    chosen = [
        document
        for document in documents
        if document.is_original or not (arguments.originals_only or document.alteration == held_out)
    ]
    if not chosen:
        raise InputError(f"{title}: no documents are left to train on; leave out fewer")
    return DocumentSet(chosen, name, made_with)


def _check_effects(arguments: TrainArguments) -> None:
    """Refuse settings that have no effect on documents of this kind."""
    source, unused = f"--dataset_name {arguments.dataset_name}", ["dataset_train_split"]
    if arguments.documents is not None:
        source, unused = "--documents", ["dataset_name", "dataset_config", "dataset_train_split"]
    elif arguments.dataset_name == GENERATED:
        unused = []
    for name in unused:
        if getattr(arguments, name) != getattr(TrainArguments, name):
            raise InputError(f"--{name}: has no effect on {source}; leave one of them out")


def to_dataset(documents: Sequence[Document], chat_template: bool = False) -> Dataset:
    """Return documents in TRL's prompt-completion format: Prompt 2 and its label in each row.

    Args:
        documents: Documents of any split.
        chat_template: Whether to make conversations, to which TRL applies the model's template:
            the prompt as the user's turn, "yes" or "no" as the assistant's. Otherwise rows are
            plain text, with the completions " yes" and " no".
    """
    rows: list[dict[str, Any]] = []
    for document in documents:
        prompt = label_prompt(document)
        completion = label_completion(document.answer, chat_template)
        if chat_template:
            rows.append(
                {
                    "prompt": [{"role": "user", "content": prompt}],
                    "completion": [{"role": "assistant", "content": completion}],
                }
            )
        else:
            rows.append({"prompt": prompt, "completion": completion})
    return Dataset.from_list(rows)
