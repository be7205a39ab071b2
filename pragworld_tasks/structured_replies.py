"""Replies that are JSON objects of a pydantic model: how they are requested and read."""

import functools
import json
from typing import Any, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

Form = TypeVar("Form", bound=BaseModel)

_SHOWN = 5  # problems of a reply that a message lists


class StructuredReply(NamedTuple, Generic[Form]):
    """What `Connection.ask_structured` returns.

    Attributes:
        value: The reply, read.
        key: The key of the request that it answers: the repair's if there was one.
    """

    value: Form
    key: str


@functools.cache
def response_formats(form: type[BaseModel]) -> tuple[dict[str, Any] | None, ...]:
    """Return the values of `response_format` that ask for such a reply, the strictest first.

    Not every server knows every one; the last, None, stands for leaving it out.
    """
    import openai

    function = openai.pydantic_function_tool(form)["function"]  # the client's strict schema
    schema = {"name": function["name"], "strict": True, "schema": function["parameters"]}
    return {"type": "json_schema", "json_schema": schema}, {"type": "json_object"}, None


@functools.cache
def form_schema(form: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of a form, made once: each request depends on it."""
    return form.model_json_schema()


def form_instruction(form: type[BaseModel]) -> str:
    """Return what tells a model the form of its reply, where the server does not see to it."""
    schema = json.dumps(form_schema(form), ensure_ascii=False)
    return f"Reply with one JSON object that fits this JSON schema, and nothing else:\n{schema}"


def repair_message(user: str, reply: str, problem: str, form: type[BaseModel]) -> str:
    """Return a message that shows a model its malformed reply, and asks for another.

    Args:
        user: The message that it replied to.
        reply: Its reply.
        problem: What `read_reply` says about it.
        form: What the reply has to fit.
    """
    return (
        f"{user}\n\nYou replied:\n{reply}\n\nThat reply is malformed: {problem}. Correct it. "
        f"{form_instruction(form)}"
    )


def read_reply(reply: str, form: type[Form]) -> Form:
    """Return the one JSON object in a reply, within a code fence or between words if need be.

    Raises:
        ValueError: There is none, there are several, or it does not fit. The message says why.

    Examples:
        >>> class Count(BaseModel):
        ...     apples: int
        >>> read_reply('Sure! {"apples": 3} Anything else?', Count)
        Count(apples=3)
        >>> read_reply('{"pears": 3}', Count)
        Traceback (most recent call last):
        ValueError: apples: Field required
    """
    start, end = reply.find("{"), reply.rfind("}")
    if not 0 <= start < end:
        raise ValueError("it holds no JSON object")
    try:
        return form.model_validate_json(reply[start : end + 1])
    except ValidationError as error:
        problems = [
            ": ".join([*filter(None, [".".join(map(str, problem["loc"]))]), problem["msg"]])
            for problem in error.errors(include_url=False)
        ]
        raise ValueError("; ".join(problems[:_SHOWN])) from None
