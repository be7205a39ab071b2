"""What all reports of sweeps share: their files, which hold what was observed, and a text."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import check_output, read_text, write_whole
from pragworld_tasks.layers.settings import ModelIdentity

LAYERS, PATCHING, TOKENS = "pragworld-layers", "pragworld-patching", "pragworld-patched-tokens"
WRITERS = {  # the commands that write the files of each schema
    LAYERS: "pragworld-interp ablate",
    PATCHING: "pragworld-interp patch",
    TOKENS: "pragworld-interp patch --row",
}
VERSION = 3
DIGITS = 6  # of the probabilities in a file
Probability = Annotated[float, Field(ge=0, le=1)]

_HEAD = re.compile(r'\s*\{\s*"schema":\s*"([\w-]+)",\s*"version":\s*(\d+)')


class Report:
    """What reports of all kinds have: a file, and a text that notebooks show.

    Attributes:
        schema: One of the schemas in `WRITERS`.
        rows: The attribute that holds the observations, which a file has one a line.
    """

    schema: ClassVar[str]
    rows: ClassVar[str]
    model: ModelIdentity

    @property
    def sweep(self) -> Mapping[str, object]:
        """What reports have to share to be compared."""
        raise NotImplementedError

    def to_text(self) -> str:
        """Return Markdown tables."""
        raise NotImplementedError

    def _repr_markdown_(self) -> str:
        return self.to_text()

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a report from the file that a command or `write` wrote.

        Raises:
            InputError: The file cannot be read, is malformed, or holds something else.
        """
        text = read_text(path)
        head = _HEAD.match(text)
        if not head or (head[1], int(head[2])) != (cls.schema, VERSION):
            found = f"version {head[2]} of {head[1]}" if head else "no report"
            raise InputError(
                f"{path}: {found}, not version {VERSION} of {cls.schema}; give a file that this "
                f"pragworld's `{WRITERS[cls.schema]}` wrote"
            )
        try:
            return TypeAdapter(cls).validate_json(text)
        except ValidationError as error:
            raise InputError(f"{path}: {first_problem(error)}; write the file again") from error

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write what was observed to a JSON file.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        check_output(Path(path), overwrite)
        fields: dict[str, Any] = TypeAdapter(type(self)).dump_python(self, mode="json")
        lines = ",\n    ".join(json.dumps(row) for row in fields.pop(self.rows))
        content = {"schema": self.schema, "version": VERSION, **fields}
        head = "".join(f'  "{name}": {json.dumps(value)},\n' for name, value in content.items())
        text = f'{{\n{head}  "{self.rows}": [\n    {lines}\n  ]\n}}\n'
        write_whole(Path(path), text.encode())


_Report = TypeVar("_Report", bound=Report)


def by_title(reports: Iterable[_Report]) -> dict[str, _Report]:
    """Return reports by a short, unique title: that of their model, numbered if it recurs."""
    titled: dict[str, _Report] = {}
    for report in reports:
        title = report.model.title
        earlier = sum(other.model.title == title for other in titled.values())
        titled[f"{title} ({earlier + 1})" if earlier else title] = report
    return titled


def schema_of(path: str | Path) -> str | None:
    """Return the schema that a file names at its beginning; None if it names none."""
    head = _HEAD.match(read_text(path))
    return head[1] if head else None


def check_same_sweep(reports: Mapping[str, _Report]) -> _Report:
    """Return the first of reports by name, once all are of the same sweep but for the model."""
    if not reports:
        raise InputError("there are no reports; give at least one")
    (name, first), *others = reports.items()
    for other_name, other in others:
        for what, value in other.sweep.items():
            if value != first.sweep[what]:
                raise InputError(
                    f"{other_name} was swept with other {what} than {name}; use the same for both"
                )
    return first
