"""Documents by the name of their split: a released one, generated ones, or a user's own file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, get_args

from pragworld_tasks.data.documents import GENERATED, OWN, Document, ReleasedSplit, Split
from pragworld_tasks.data.sources import is_released, load_split
from pragworld_tasks.errors import InputError

SPLIT_NAMES = (*get_args(ReleasedSplit), GENERATED)


def generate_documents(**settings: Any) -> list[Document]:
    """Generate documents: dialogues with a question each, and altered variants.

    The same version, seed and settings give the same documents on every machine.

    Args:
        settings: fields of `GeneratorSettings`: `groups` (200), `seed` (0), `split` (`test`),
            `domains` (all), `held_out_alteration` (none), `alterations` (all),
            `flips` (0.34) and `undetermined` (`keep`).

    Raises:
        InputError: A setting does not exist, or its value is impossible.

    Examples:
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=2, seed=7)
        >>> sum(document.is_original for document in documents)
        2
        >>> documents == pt.generate(groups=2, seed=7)
        True
    """
    from pragworld_tasks.dialogues.settings import GeneratorSettings

    known = [field.name for field in fields(GeneratorSettings)]
    if unknown := [name for name in settings if name not in known]:
        raise InputError(f"setting {unknown[0]!r} does not exist; choose from {', '.join(known)}")
    return split_documents(GENERATED, settings)


def split_documents(split: Split, metadata: Mapping[str, Any]) -> list[Document]:
    """Return the documents of any split.

    Of lm-eval's `--metadata`, generated splits take their settings, and `own` the file of a
    user's own as `documents`, and its `labels` and `prompt`.
    """
    if is_released(split):
        return load_split(split)
    if split == OWN:
        from pragworld_tasks.data.document_files import read_documents

        if not isinstance(path := metadata.get("documents"), str):
            raise InputError(
                "pragworld_own: no 'documents'; name a file of documents, as in --metadata "
                '\'{"documents": "mine/documents.jsonl"}\''
            )
        return read_documents(path, metadata)
    from pragworld_tasks.dialogues.generate import documents, generate
    from pragworld_tasks.dialogues.settings import GeneratorSettings, TrackingSettings
    from pragworld_tasks.dialogues.tracking import tracking_documents

    if split == GENERATED:
        return list(documents(generate(GeneratorSettings.from_metadata(metadata))))
    return list(tracking_documents(TrackingSettings.from_metadata(metadata)))


def generator_settings(split: Split, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a generated split, for JSON; other keys of `metadata` are ignored."""
    from pragworld_tasks.dialogues.settings import GeneratorSettings, TrackingSettings

    kind = GeneratorSettings if split == GENERATED else TrackingSettings
    settings: dict[str, Any] = json.loads(json.dumps(asdict(kind.from_metadata(metadata))))
    return settings


def named_documents(
    name: str, settings: Mapping[str, Any]
) -> tuple[list[Document], dict[str, Any] | None]:
    """Return the documents of one of `SPLIT_NAMES`, and all settings of generated ones."""
    if name == GENERATED:
        return generate_documents(**settings), generator_settings(GENERATED, settings)
    if settings:
        raise InputError(f"{name}: only the split {GENERATED} has settings; leave them out")
    return load_split(name), None
