"""Run records: one model on one split, as `score --json` writes it for `board` and `verify`.

A record holds what was observed: every answer, the model, how it ran, and the digest of the
documents. The metrics are in it for people and other programs. Whoever reads a record computes them
again from its answers; only `verify` compares.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator

from pragworld_tasks.errors import InputError, Printable, first_problem
from pragworld_tasks.evaluation.responses import AnswerRecord, Predictions
from pragworld_tasks.evaluation.scoring import Share
from pragworld_tasks.evaluation.statistics import LEVEL, RESAMPLES
from pragworld_tasks.files import read_json, read_package_toml

RunKind = Literal["lm-eval", "responses", "published", "readings"]
_INTERVALS = f"{LEVEL:.0%}, percentile bootstrap over groups, {RESAMPLES} resamples"
# The arguments of lm-eval's models that a record keeps.
PUBLIC_ARGUMENTS = read_package_toml(__package__, "model_arguments.toml")["public"]
_PATH = re.compile(r"(?:[.~/\\]|[A-Za-z]:[/\\]).*", re.DOTALL)


def public_name(name: str) -> str:
    """Return a name on a hub as it is, and a path as the name of its last folder, `./NAME`.

    Examples:
        >>> public_name("developer/model"), public_name("~/models/mine")
        ('developer/model', './mine')
    """
    if not _PATH.fullmatch(name):
        return name
    return "./" + re.split(r"[/\\]", name.rstrip("/\\"))[-1]


_PublicName = Annotated[Printable, AfterValidator(public_name)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ModelRecord(_Part):
    """The model that answered.

    Attributes:
        name, adapter: names on a hub; `./NAME` for what was loaded from a folder.
        revision: the revision that was asked for, or the commit where it is known.
        chat_template: whether a chat template was applied; None where it is not known.
    """

    name: _PublicName = Field(min_length=1)
    revision: Printable | None = None
    adapter: _PublicName | None = None
    dtype: Printable | None = None
    quantization: Printable | None = None
    chat_template: bool | None = None
    parameters: int | None = Field(default=None, gt=0, le=10**15)


class EnvironmentRecord(_Part):
    """How the model ran.

    Attributes:
        backend: lm-eval's kind of model, such as `hf` or `local-chat-completions`.
        model_args: those of lm-eval's arguments of the model that are in `PUBLIC_ARGUMENTS`.
        date: when the run began (ISO 8601, UTC).
        seconds: wall time of the whole run of lm-eval, which may have had other tasks too.
    """

    task: Printable | None = None
    backend: Printable | None = None
    model_args: dict[str, Any] = {}
    generation: dict[str, Any] = {}
    system_instruction: str | None = None
    packages: dict[Printable, Printable] = {}
    date: Printable | None = None
    seconds: float | None = Field(default=None, ge=0)

    @field_validator("model_args")
    @classmethod
    def _public_arguments(cls, model_args: dict[str, Any]) -> dict[str, Any]:
        return {
            name: public_name(value) if isinstance(value, str) else value
            for name, value in model_args.items()
            if name in PUBLIC_ARGUMENTS and isinstance(value, str | int | float | None)
        }


class DataRecord(_Part):
    """The documents that were answered.

    Attributes:
        digest: `documents_digest` of all documents in order.
        responses_digest: the same of the documents that the model was given. It differs from
            `digest` where gold answers differ.
    """

    split: Printable  # or what scores by groups are called
    documents: int
    groups: int
    digest: str
    responses_digest: str
    texts_digest: str
    generator: dict[str, Any] | None = None


class RunRecord(_Part):
    """One model on one split: what it answered, and everything that follows from it.

    Attributes:
        metrics, released, breakdowns, unreadable_reasons: as `ScoreReport` has them.
        against: how another run compares, as `Comparison.to_json` returns it.
    """

    schema_version: Literal[2] = 2
    source: RunKind
    model: ModelRecord
    environment: EnvironmentRecord = EnvironmentRecord()
    data: DataRecord
    intervals: str = _INTERVALS
    metrics: dict[str, Share]
    released: dict[str, Share] = Field(alias="published")
    breakdowns: dict[str, dict[str, dict[str, Share]]]
    unreadable_reasons: dict[str, int] = {}
    answers: list[AnswerRecord]  # none where it is scored by groups
    against: dict[str, Any] | None = None

    @property
    def predictions(self) -> Predictions:
        """The answers as `score` takes them."""
        return Predictions(self.answers, self.data.responses_digest, self.data.texts_digest)

    def to_json(self) -> dict[str, Any]:
        """Return the record for JSON; null for what is not defined."""
        return self.model_dump(mode="json", by_alias=True)


def read_run_records(path: Path) -> dict[str, RunRecord]:
    """Read the run records in a file that `score --json` wrote, by the names of their runs.

    Their metrics are not compared with their answers. A record that is alone has no name: "".
    """
    content = read_json(path)
    runs = content.get("runs") if isinstance(content, dict) else None
    records = runs if isinstance(runs, dict) else {"": content}
    try:
        return {name: RunRecord.model_validate(record) for name, record in records.items()}
    except ValidationError as error:
        raise InputError(f"{path}: not a run record: {first_problem(error)}") from error
