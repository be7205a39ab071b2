"""The prompts in lm-eval's samples: plain text, or the messages of a chat."""

import json
from collections.abc import Mapping


def logged_prompt(logged: object) -> str | None:
    """Return the prompt of a logged request as text; None where it is not one of lm-eval's.

    Each message of a chat begins with its role.

    Args:
        logged: text, a list of messages, or these as JSON, which lm-eval puts into a list of one.

    Examples:
        >>> logged_prompt("Is it?")
        'Is it?'
        >>> logged_prompt([{"role": "user", "content": "Is it?"}])
        'user: Is it?'
    """
    if isinstance(logged, list) and len(logged) == 1 and isinstance(logged[0], str):
        logged = logged[0]
    if isinstance(logged, str):
        try:
            messages = json.loads(logged) if logged.startswith("[{") else logged
        except (ValueError, RecursionError):
            return logged
        logged = messages
    if isinstance(logged, str):
        return logged
    if not isinstance(logged, list) or not all(map(_is_message, logged)):
        return None
    return "\n".join(f"{message['role']}: {message['content']}" for message in logged)


def _is_message(message: object) -> bool:
    return (
        isinstance(message, Mapping)
        and set(message) == {"role", "content"}
        and all(isinstance(text, str) for text in message.values())
    )
