"""Documents by the name of their split: a released one, or generated ones with their settings."""

import json
from dataclasses import asdict, fields
from typing import Any, get_args

from pragworld_tasks.data.documents import Document, ReleasedSplit
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import json_object

GENERATED = "generated"
NAMES = (*get_args(ReleasedSplit), GENERATED)


def named_documents(
    name: str, metadata: str, option: str
) -> tuple[list[Document], dict[str, Any] | None]:
    """The documents of a split, and the settings that generated ones were made with.

    Args:
        name: one of `NAMES`.
        metadata: a JSON object with settings of the generator; of released splits it is empty.
        option: what the user calls it, for messages.

    Raises:
        InputError: there is no such split, or not on this machine, or a setting is impossible.
    """
    from pragworld_tasks.data import sources

    given = json_object(metadata, option)
    if name not in NAMES:
        raise InputError(f"no split {name!r}; there are {', '.join(NAMES)}")
    if name != GENERATED:
        if given:
            raise InputError(f"{option} is for the split {GENERATED}, not for {name}")
        return sources.load(name), None  # type: ignore[arg-type]
    from pragworld_tasks.dialogues.generate import GeneratorSettings, documents, generate

    known = [field.name for field in fields(GeneratorSettings)]
    if unknown := [setting for setting in given if setting not in known]:
        raise InputError(f"{option}: no setting {unknown[0]!r}; there are {', '.join(known)}")
    made = GeneratorSettings.from_metadata(given)
    return list(documents(generate(made))), json.loads(json.dumps(asdict(made)))
