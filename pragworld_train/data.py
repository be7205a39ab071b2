"""Documents as TRL trains on them: Prompt 2, and its label as the completion."""

from collections.abc import Sequence

from datasets import Dataset

from pragworld_tasks.documents import Document
from pragworld_tasks.prompts import label_prompt


def to_dataset(documents: Sequence[Document], chat_template: bool = False) -> Dataset:
    """A data set in TRL's prompt-completion format, a row for each document.

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
