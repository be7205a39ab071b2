"""Prompts as text, and the tokens of the labels that follow them."""

from collections.abc import Sequence
from typing import Any

from pragworld_tasks.data.documents import YES_NO
from pragworld_tasks.data.prompts import label_completion, label_prompt
from pragworld_tasks.errors import InputError

# The end of a prompt decides how the label behind it is tokenized, not its dialogue.
_ANY_PROMPT = label_prompt({"context": "Alice: Hi.", "question": "Is Bob there?"})


def prompt_texts(tokenizer: Any, prompts: Sequence[str], chat_template: bool) -> list[str]:
    """Return prompts as the model reads them, each as a user's turn with a chat template."""
    if not chat_template:
        return list(prompts)
    return [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
        )
        for prompt in prompts
    ]


def label_tokens(
    tokenizer: Any, chat_template: bool = False, labels: Sequence[str] = YES_NO
) -> tuple[int, ...]:
    """Return the ids of labels, as they are tokenized behind a prompt.

    lm-eval and the trainer put the same texts there; see `label_completion`.
    """
    (text,) = prompt_texts(tokenizer, [_ANY_PROMPT], chat_template)
    completions = [label_completion(label, chat_template) for label in labels]
    name = getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__
    return tuple(single_tokens(tokenizer, text, completions, f"tokenizer {name}"))


def single_tokens(tokenizer: Any, text: str, completions: Sequence[str], subject: str) -> list[int]:
    """Return the token of each completion, with its space, behind a text; else refuse them."""
    before, *behind = (
        tokenizer(text + completion, add_special_tokens=False)["input_ids"]
        for completion in ("", *completions)
    )
    added = [ids[len(before) :] for ids in behind if ids[: len(before)] == before]
    tokens = {ids[0] for ids in added if len(ids) == 1} - {getattr(tokenizer, "unk_token_id", None)}
    if len(tokens) < len(completions):
        raise InputError(
            f"{subject}: {', '.join(map(repr, completions))} must be different single tokens "
            "behind the prompt; use another model, or prompts with other labels"
        )
    return [ids[0] for ids in added]


def text_before_answer(
    tokenizer: Any, messages: Sequence[Any], answer: str, **template: Any
) -> str:
    """Return what a chat template puts between the prompt and the assistant's answer.

    Sweeps, lm-eval and probes read directly behind the prompt, where most templates put nothing.
    Those of models that think may put an empty `<think>` block there in conversations, or open
    one in prompts alone.
    """
    answered = [*messages, {"role": "assistant", "content": answer}]
    before, after = (
        tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=begun, **template
        )
        for turns, begun in ((list(messages), True), (answered, False))
    )
    shared = 0
    while shared < min(len(before), len(after)) and before[shared] == after[shared]:
        shared += 1
    between: str = before[shared:] or after[shared:].partition(answer.strip())[0]
    return between.strip() and between
