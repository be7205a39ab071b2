"""Paraphrases as participants of a survey write them (arXiv 2506.16584, appendices C and D).

A model is given a scenario, and told to write the prompt that it would send to a chatbot.
"""

from dataclasses import dataclass

from pragworld_tasks.endpoint import Connection
from pragworld_tasks.request_journal import Request
from pragworld_tasks.sensitivity.paraphrases import Paraphrase

# The paper's words, of which it ends all its surveys' with a topic, whatever they are about.
_SYSTEM = "You are simulating a survey participant who needs to write a question to an AI assistant"
TOPIC = " about transportation and travel"
_TASK = """\
Scenario:
{scenario}

Your Task:
Imagine you are using an AI chatbot.
In your own words, craft a single question you would ask the AI to help you.
Do not copy the scenario verbatim\u2014rephrase it naturally.
{placeholder}
Now, please write your prompt. Submit only one prompt."""


def system_text(topic: str = TOPIC) -> str:
    """What the model is told to be: with the paper's topic, another (` about …`), or none."""
    return f"{_SYSTEM}{topic}."


def task(scenario: str, slot: str) -> str:
    """What a participant reads.

    Args:
        scenario: what the participant wants to know. Its last line may say how to use the slot, as
            that of `Question.survey` does; where it does not, such a line is added.
        slot: with its braces.
    """
    told, line_break, last = scenario.strip().rpartition("\n")
    if not line_break or slot not in last:
        told = scenario.strip()
        last = (
            f"When referring to what stands for it, use the placeholder {slot} instead of a "
            "specific name or number."
        )
    return _TASK.replace("{scenario}", told.strip()).replace("{placeholder}", last)


@dataclass(frozen=True)
class Survey:
    """The method: the same scenario, given to one participant for each candidate.

    Attributes:
        system: see `system_text`.
        task: see `task`.
        model: which takes part.
        temperature: at which it does. At 0 all its candidates are the same.
    """

    system: str
    task: str
    model: str
    temperature: float

    async def __call__(self, connection: Connection, number: int) -> Paraphrase:
        """What participant `number` writes.

        Raises:
            Unanswered, EndpointError: see `Connection.ask`.
        """
        text = await connection.ask(
            Request(
                label=f"survey participant {number}",
                model=self.model,
                system=self.system,
                user=self.task,
                temperature=self.temperature,
                draw=number,
            )
        )
        return Paraphrase(text, f"survey; model {self.model}")
