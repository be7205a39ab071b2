"""Texts that a stranger submits: which a record may hold, and how they are printed.

They are shown on the leaderboard and in the log of the workflow that checks submissions. A name
that reads in two directions, or a line that a terminal or GitHub takes for a command, would show
something else than what was submitted. Responses are the model's and may be anything.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.run_record import RunRecord

# On the Hub or in an API, such as `Qwen/Qwen2.5-0.5B-Instruct` and `ft:gpt-4o-mini:lab::abc`.
_MODEL_NAME = re.compile(r"\w[\w.:@+-]*(/\w[\w.:@+-]*)*", re.ASCII)
_LONGEST_NAME = 200
_LONGEST_TEXT = 20_000
_MOST_PACKAGES = 20
# Control characters but for tabs and line breaks, and those that change the direction of text.
_UNSHOWN = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)


def check_texts(record: RunRecord, path: Path) -> None:
    """Refuse a record with a text that cannot be shown as it is.

    Args:
        record: the record of a submission.
        path: its file, for messages.

    Raises:
        InputError: A name is not one of a model, a text holds characters that are not shown or is
            too long, or the date is not ISO 8601.
    """
    model, environment = record.model, record.environment
    for name in filter(None, (model.name, model.adapter)):
        if not _MODEL_NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
            raise InputError(
                f"{path}: {name!r:.80} is not the name of a model; it must be as on the Hub or of "
                f"an API: letters, digits and -_.:@+/, at most {_LONGEST_NAME} characters"
            )
    for place, name in _names(record):
        if not name.isprintable() or len(name) > _LONGEST_NAME:
            raise InputError(
                f"{path}: {place}: {name!r:.80} must be printable, on one line and of at most "
                f"{_LONGEST_NAME} characters; write it again with `pragworld-tasks record`"
            )
    if len(environment.packages) > _MOST_PACKAGES:
        raise InputError(
            f"{path}: environment.packages: {len(environment.packages)} packages instead of at "
            f"most {_MOST_PACKAGES}; write it again with `pragworld-tasks record`"
        )
    for part in ("model_args", "generation", "system_instruction"):
        value = getattr(environment, part)
        text = value if isinstance(value, str) else "".join(_texts(value))
        if _UNSHOWN.search(text) or len(json.dumps(value, ensure_ascii=False)) > _LONGEST_TEXT:
            raise InputError(
                f"{path}: environment.{part}: must have no control characters, none that change "
                f"the direction of text, and at most {_LONGEST_TEXT} characters"
            )
    try:
        datetime.fromisoformat(environment.date or "2000-01-01")
    except ValueError as error:
        raise InputError(
            f"{path}: environment.date: {environment.date!r:.40} is not a date; it must be as in "
            "2026-01-31T12:00:00+00:00"
        ) from error


def escape_unprintable(text: str) -> str:
    r"""Return a text on one line, with `\n` and the like for what is not printable.

    Examples:
        >>> print(escape_unprintable("a\n::error::b\x1b[2J"))
        a\n::error::b\x1b[2J
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _names(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield each short text of a record that is not the name of a model, after its place."""
    for part, name in (
        *(("model", name) for name in ("revision", "dtype", "quantization")),
        *(("environment", name) for name in ("task", "backend", "date")),
    ):
        text = getattr(getattr(record, part), name)
        if text is not None:
            yield f"{part}.{name}", text
    for package, version in record.environment.packages.items():
        yield "environment.packages", package
        yield "environment.packages", version


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in JSON values, with the names in objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
