"""The two prompts of the PragWorld paper (Table 10), to the letter of the released code.

A third one tells the model first by which conventions the gold answers were given (section 4 and
appendix A). The paper's prompts leave them to be guessed.

Context and question go in as they are: the numbers before the synthetic split's utterances, the
`1. ` before some of its questions and the line breaks inside some of the manual split's questions
are part of what the published models read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pragworld_tasks.data.documents import YES_NO, Document
from pragworld_tasks.errors import InputError

_QUESTION = "\n\nNow based on your understanding of the conversation, answer the question below:\n"

_PROMPT_1 = (
    "Read this conversation between Bob and Alice:\n",
    "\n\nAnswer this with only a (yes) or (no) in the first line and then explain your answer "
    "from the next line onwards.\nYour answer:\n(",
)
_PROMPT_2 = (
    "Read this conversation between the two speakers:\n",
    "\n\nThe answer should only be a label i.e. either yes or no.\nLabel:",
)

_CONVENTIONS = (
    "Answer no to what the conversation neither says nor implies. "
    'Take "some" to mean some but not all. '
    'Take "A or B" to mean exactly one of the two without saying which, and answer no to a '
    "question about one of them alone.\n\n"
)


def evaluation_prompt(document: Document | Mapping[str, Any]) -> str:
    """Return Prompt 1, the paper's evaluation: an answer in the first line, then an explanation.

    A mapping in place of a document has a `context` and a `question`. Other labels take the place
    of yes and no, and a document's own `prompt` that of the whole.

    Examples:
        >>> document = {"context": "Alice: Hi.", "question": "Is Bob there?"}
        >>> evaluation_prompt(document).splitlines()[-1]
        '('
    """
    return _fill(_PROMPT_1, document)


def conventions_prompt(document: Document | Mapping[str, Any]) -> str:
    """Return Prompt 1 after the conventions of the benchmark, in three sentences.

    Examples:
        >>> document = {"context": "Alice: Hi.", "question": "Is Bob there?"}
        >>> conventions_prompt(document).endswith(evaluation_prompt(document))
        True
    """
    return _CONVENTIONS + evaluation_prompt(document)


def label_prompt(document: Document | Mapping[str, Any]) -> str:
    """Return Prompt 2, for entity tracking, fine-tuning and probing: only a label.

    Examples:
        >>> document = {"context": "Alice: Hi.", "question": "Is Bob there?"}
        >>> label_prompt(document).splitlines()[-1]
        'Label:'
    """
    return _fill(_PROMPT_2, document)


def label_completion(answer: str, chat_template: bool) -> str:
    """Return the text of a label behind Prompt 2, as lm-eval, sweeps and the trainer put it there.

    A space stands before it, unless a chat template makes it the beginning of a turn.
    """
    return answer if chat_template else f" {answer}"


def split_prompt(prompt: str) -> tuple[str, str]:
    """Return the context and the question of Prompt 1 or Prompt 2, as in released run files."""
    for head, tail in (_PROMPT_1, _PROMPT_2):
        if prompt.startswith(head) and prompt.endswith(tail):
            context, found, question = prompt[len(head) : -len(tail)].rpartition(_QUESTION)
            if found:
                return context, question
    raise InputError("the prompt is neither Prompt 1 nor Prompt 2 of the PragWorld paper")


def _fill(prompt: tuple[str, str], document: Document | Mapping[str, Any]) -> str:
    head, tail = prompt
    fields = document if isinstance(document, Mapping) else document.to_dict()
    if fields.get("prompt"):
        return str(fields["prompt"])
    labels = fields.get("labels") or YES_NO
    for form in ("({})", "{}"):
        tail = tail.replace(_either(form, YES_NO), _either(form, labels))
    return f"{head}{fields['context']}{_QUESTION}{fields['question']}{tail}"


def _either(form: str, labels: Sequence[str]) -> str:
    """Return labels as a choice, such as `(A), (B) or (C)`."""
    *others, last = map(form.format, labels)
    return f"{', '.join(others)} or {last}"
