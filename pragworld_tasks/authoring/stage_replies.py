"""A model's reply to a prompt, with where it comes from, or why there is none."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from pragworld_tasks.authoring.prompts import PromptText
from pragworld_tasks.authoring.records import Dropped, Objection, Origin, Stage
from pragworld_tasks.chat import Connection, Request, UnansweredError

Form = TypeVar("Form", bound=BaseModel)


@dataclass(frozen=True)
class StageReply(Generic[Form]):
    """A reply, or why there is none.

    Attributes:
        value: the reply; None if there is no usable one.
        origin: the model, the prompt and, unless the request failed, the request.
        problem: why there is none, the same words for each such case; empty if there is one.
        text: what shows the problem.
    """

    value: Form | None
    origin: Origin
    problem: str = ""
    text: str = ""

    def dropped(self, stage: Stage, number: int, objection: Objection | None = None) -> Dropped:
        """Return the record of what speaks against it; without an objection, of the problem."""
        reason, text = objection or (self.problem, self.text)
        return Dropped(stage=stage, number=number, reason=reason, text=text, origin=self.origin)


async def ask_model(
    connection: Connection,
    model: str,
    prompt: PromptText,
    form: type[Form],
    label: str,
    temperature: float,
    draw: int = 0,
) -> StageReply[Form]:
    """Ask a model for a reply of a form.

    Args:
        connection: the connection to its endpoint.
        model: the model's name there.
        prompt: the prompt.
        form: what the reply has to fit.
        label: for people who read the journal.
        temperature: the sampling temperature.
        draw: tells apart equal requests that are to be answered separately.

    Raises:
        InputError: The endpoint cannot be used.
    """
    request = Request(label, model, prompt.system, prompt.user, temperature, draw, form)
    origin = Origin(model=model, prompt=prompt.id, request=request.key)
    try:
        return StageReply(await connection.ask_structured(request, form), origin)
    except UnansweredError as error:
        if error.reply is None:
            origin = Origin(model=model, prompt=prompt.id)
            return StageReply(None, origin, "there is no reply", str(error))
        problem = str(error).partition(" (")[0]  # the same words for each such case
        return StageReply(None, origin, problem, error.reply)
