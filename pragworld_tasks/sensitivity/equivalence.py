"""Whether a paraphrase still asks for what the base prompt asks for, as a model judges it.

The paper shows a model both and keeps what it judges to "express the same underlying request"
(arXiv 2506.16584, section 4); it does not give its question, so this one is ours.
"""

from dataclasses import dataclass

from pragworld_tasks.endpoint import Connection
from pragworld_tasks.evaluation.answers import read_answer
from pragworld_tasks.request_journal import Request

SYSTEM = (
    "You compare two prompts written for an AI assistant. Words in braces are placeholders. "
    "Answer with yes or no, and nothing else."
)
QUESTION = """\
First prompt:
{prompt}

Second prompt:
{text}

Do the two prompts express the same underlying request? Answer yes or no."""


@dataclass(frozen=True)
class Equivalence:
    """The judge of paraphrases of one prompt.

    Attributes:
        prompt: the base prompt.
        model: which judges, at temperature 0.
    """

    prompt: str
    model: str

    async def __call__(self, connection: Connection, text: str) -> bool | None:
        """Whether both express the same underlying request; None where the verdict is unreadable.

        Raises:
            Unanswered, EndpointError: see `Connection.ask`.
        """
        verdict = await connection.ask(
            Request(
                label="judge",
                model=self.model,
                system=SYSTEM,
                user=QUESTION.replace("{prompt}", self.prompt).replace("{text}", text),
                temperature=0.0,
            )
        )
        answer = read_answer(verdict)
        return None if answer is None else answer == "yes"
