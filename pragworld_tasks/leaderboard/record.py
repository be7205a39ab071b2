"""Run records: one model on one split in a file that can be checked.

A record holds every answer, the metrics with their intervals, the model, how it ran, and the digest
of the documents. Metrics are always computed from the answers: a record whose figures do not follow
from its answers is refused, as is one whose answers do not follow from its responses. The ends of
intervals alone are not compared. They come from random draws, which another version of NumPy may
draw differently, and readers of a record use the computed ones.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pragworld_tasks.data.documents import Answer, Document, Split, documents_digest
from pragworld_tasks.data.splits import GENERATED, OWN
from pragworld_tasks.dialogues.settings import GeneratorSettings, TrackingSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.answers import read_answer, read_answer_released
from pragworld_tasks.evaluation.responses import Predictions
from pragworld_tasks.evaluation.runs import RunSource, task_and_date
from pragworld_tasks.evaluation.scoring import ScoreReport, score
from pragworld_tasks.files import read_json, write_whole
from pragworld_tasks.leaderboard.logged_requests import first_logged_prompt
from pragworld_tasks.leaderboard.private_values import public_text, public_values

Source = Literal["lm-eval", "responses", "published", "readings"]
SCHEMA_VERSION: Literal[1] = 1
RECORD = "record.json"  # in the folder of a submission
_TOLERANCE = 1e-6  # percent; files may round
# lm-eval's names of the model among its arguments, in the order in which it looks for them.
_NAMED_BY = ("delta", "pretrained", "model", "path", "engine")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ModelRecord(_Part):
    """The model that answered.

    Attributes:
        name: name on a hub; `./NAME` for one that was loaded from a folder.
        revision: the revision that was asked for, or the commit where it is known.
        adapter: name of the PEFT adapter.
        dtype: data type of the weights, such as `bfloat16`.
        quantization: how the weights were quantized, such as `4bit`.
        chat_template: whether a chat template was applied; None where it is not known.
        parameters: number of parameters.
    """

    name: str = Field(min_length=1)
    revision: str | None = None
    adapter: str | None = None
    dtype: str | None = None
    quantization: str | None = None
    chat_template: bool | None = None
    parameters: int | None = Field(default=None, gt=0, le=10**15)

    @field_validator("name", "adapter")
    @classmethod
    def _public_name(cls, name: str | None) -> str | None:
        return name and public_text(name)


class EnvironmentRecord(_Part):
    """How the model ran.

    Attributes:
        task: the lm-eval task.
        backend: lm-eval's kind of model, such as `hf` or `local-chat-completions`.
        model_args: lm-eval's arguments of the model, as `public_values` has them.
        generation: the settings of generation that were passed, likewise; empty where nothing is
            generated.
        system_instruction: the system prompt.
        first_prompt: the first prompt as the model got it, with system prompt and chat template.
            All others have the same around the task's own prompt.
        packages: versions by package.
        date: when the run began (ISO 8601, UTC).
        seconds: wall time of the whole run of lm-eval, which may have had other tasks too.
    """

    task: str | None = None
    backend: str | None = None
    model_args: dict[str, Any] = Field(default_factory=dict)
    generation: dict[str, Any] = Field(default_factory=dict)
    system_instruction: str | None = None
    first_prompt: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    date: str | None = None
    seconds: float | None = Field(default=None, ge=0)

    @field_validator("model_args", "generation")
    @classmethod
    def _public_settings(cls, settings: dict[str, Any]) -> dict[str, Any]:
        return public_values(settings)


class DataRecord(_Part):
    """The documents that were answered.

    Attributes:
        split: their split.
        documents, groups: number of each.
        digest: `documents_digest` of all documents in order.
        generator: settings of generated documents.
    """

    split: Split
    documents: int
    groups: int
    digest: str
    generator: dict[str, Any] | None = None


class AnswerRecord(_Part):
    """The answer to one document.

    Attributes:
        row: the document's row.
        answer: the answer as `read_answer` reads it; None where none can be read.
        released: the answer as the released scoring reads it.
        response: the response, where it is known.
        yes: the probability of yes among yes and no, where the likelier label answered.
    """

    row: int
    answer: Answer | None
    released: Answer | None
    response: str | None = None
    yes: float | None = Field(default=None, ge=0, le=1)


class ShareRecord(_Part):
    """A metric: how many are right, out of how many, and its 95 % interval, in percent."""

    right: int = Field(ge=0)
    total: int = Field(ge=0)
    percent: float | None = Field(ge=0, le=100)
    low: float | None = Field(ge=0, le=100)
    high: float | None = Field(ge=0, le=100)


class RunRecord(_Part):
    """One model on one split: what it answered, and everything that follows from it.

    Attributes:
        schema_version: version of this format.
        source: where the answers come from: lm-eval's results, a file of responses, a released run
            of the paper, or the readers of the labels.
        model, environment, data: what ran, how, and on what.
        intervals: how the intervals were computed.
        metrics, published: by our scoring and by the released one, as `ScoreReport` has them.
        breakdowns: accuracy by breakdown, class and gold answer.
        answers: one for each document, in the order of the rows.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    source: Source
    model: ModelRecord
    environment: EnvironmentRecord
    data: DataRecord
    intervals: str
    metrics: dict[str, ShareRecord]
    published: dict[str, ShareRecord]
    breakdowns: dict[str, dict[str, dict[Answer, ShareRecord]]]
    answers: list[AnswerRecord]

    @property
    def predictions(self) -> Predictions:
        """The answers as `score` takes them."""
        return Predictions(
            [answer.answer for answer in self.answers],
            [answer.released for answer in self.answers],
            self.data.digest,
            [answer.response for answer in self.answers],
            [answer.yes for answer in self.answers],
        )

    def report(self, documents: Sequence[Document]) -> ScoreReport:
        """Return the metrics of the run, computed from its answers and checked against the record.

        Args:
            documents: the documents that were answered.

        Raises:
            InputError: The record is on other documents, or it contradicts itself.
        """
        digest = documents_digest(documents)
        if digest != self.data.digest:
            raise InputError(
                f"{self.model.name}: the record is on other documents (digest "
                f"{self.data.digest:.12}) than the split {self.data.split} here ({digest:.12})"
            )
        self._check_answers(len(documents))
        report = score(documents, self.predictions)
        computed = report.to_json()
        for what, recorded_value, value in (
            ("split", self.data.split, report.split),
            ("documents", self.data.documents, len(documents)),
            ("groups", self.data.groups, report.groups),
            ("intervals", self.intervals, computed["intervals"]),
            ("breakdowns", set(self.breakdowns), set(computed["breakdowns"])),
        ):
            if recorded_value != value:
                raise InputError(
                    f"{self.model.name}: {what} of the record: {recorded_value!s:.80} instead of "
                    f"{value!s:.80}"
                )
        for part in ("metrics", "published"):
            _check_shares(self.model.name, part, getattr(self, part), computed[part])
        for breakdown, classes in computed["breakdowns"].items():
            if set(self.breakdowns[breakdown]) != set(classes):
                raise InputError(
                    f"{self.model.name}: breakdowns, {breakdown}: the record has other classes "
                    f"than {', '.join(classes)}"
                )
            for name, by_gold in classes.items():
                place = f"breakdowns, {breakdown}, {name}"
                recorded = self.breakdowns.get(breakdown, {}).get(name, {})
                _check_shares(self.model.name, place, recorded, by_gold)
        return report

    def check_common_documents(self) -> None:
        """Refuse a run on documents of one's own, which others do not have.

        Raises:
            InputError: The run is on the split `own`.
        """
        if self.data.split == OWN:
            raise InputError(
                f"{self.model.name}: a run on documents of your own, which nobody else can be "
                "compared on; submit a run on a released or generated split"
            )

    def _check_answers(self, documents: int) -> None:
        if [answer.row for answer in self.answers] != list(range(documents)):
            raise InputError(
                f"{self.model.name}: the record has not one answer for each of {documents} rows, "
                "in their order"
            )
        for answer in self.answers:
            if answer.response is not None:
                read = (read_answer(answer.response), read_answer_released(answer.response))
            elif answer.yes is not None and answer.yes != 0.5:
                read = ("yes" if answer.yes > 0.5 else "no",) * 2
            else:
                continue
            if read != (answer.answer, answer.released):
                raise InputError(
                    f"{self.model.name}, row {answer.row}: the record has the answers "
                    f"{answer.answer} and {answer.released}, but its response reads as {read[0]} "
                    f"and {read[1]}"
                )

    def to_bytes(self) -> bytes:
        """Return the record as a JSON file."""
        return (json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False) + "\n").encode()

    def write(self, path: Path) -> None:
        """Write the record as JSON.

        Raises:
            InputError: The file cannot be written.
        """
        write_whole(path, self.to_bytes())


def read_record(path: Path) -> RunRecord:
    """Read a run record, without recomputing its metrics; see `RunRecord.report`.

    Raises:
        InputError: The file cannot be read, or is not a run record of this version.
    """
    content = read_json(path)
    try:
        return RunRecord.model_validate(content)
    except ValidationError as error:
        raise InputError(
            f"{path}: not a run record of version {SCHEMA_VERSION}: {_first_of(error)}"
        ) from error


def model_and_adapter(model_args: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Return the names of the model and of the PEFT adapter that lm-eval's arguments load.

    Examples:
        >>> model_and_adapter({"pretrained": "someone/base", "peft": "someone/adapter"})
        ('someone/base', 'someone/adapter')
        >>> model_and_adapter({"model": "gpt-4o"})
        ('gpt-4o', None)
    """
    named = [str(model_args[key]) for key in _NAMED_BY if model_args.get(key)]
    adapter = model_args.get("peft")
    return (named[0] if named else None), (str(adapter) if adapter else None)


def to_record(source: RunSource, report: ScoreReport) -> RunRecord:
    """Return the record of a run that has been scored.

    Args:
        source: where the answers came from. Beside lm-eval's samples lies its results file, which
            says what ran and how.
        report: the metrics of the answers.

    Raises:
        InputError: The answers are to other documents, or lm-eval's results cannot be read.
    """
    predictions = report.predictions
    if report.responses_digest != report.documents_digest:
        raise InputError(
            f"{source.name}: given to other documents (digest {report.responses_digest:.12}) than "
            f"the split {report.split} here ({report.documents_digest:.12})"
        )
    content = report.to_json()
    results = _results_of(source)
    model, environment, generator = (
        _from_lm_eval(source.files[0], report.split, *results)
        if results
        else (None, EnvironmentRecord(), None)
    )
    kind: Source = "lm-eval" if model else "responses"
    name = source.name.removesuffix(".jsonl")
    if source.shipped:
        kind, name = ("readings", f"label readers ({source.name.removeprefix('readings:')})")
        if source.name.startswith("published:"):
            kind, name = "published", source.name.removeprefix("published:")
    blank: list[None] = [None] * len(report.documents)
    return RunRecord(
        source=kind,
        model=model or ModelRecord(name=name),
        environment=environment,
        data=DataRecord(
            split=report.split,
            documents=len(report.documents),
            groups=report.groups,
            digest=report.documents_digest,
            generator=generator,
        ),
        intervals=content["intervals"],
        metrics=content["metrics"],
        published=content["published"],
        breakdowns=content["breakdowns"],
        answers=[
            AnswerRecord(row=row, answer=ours, released=released, response=response, yes=yes)
            for row, (ours, released, response, yes) in enumerate(
                zip(
                    predictions.ours,
                    predictions.released,
                    predictions.responses or blank,
                    predictions.yes or blank,
                    strict=True,
                )
            )
        ],
    )


def _check_shares(
    name: str,
    place: str,
    recorded: Mapping[Any, ShareRecord],
    computed: Mapping[Any, Mapping[str, Any]],
) -> None:
    if set(recorded) != set(computed):
        raise InputError(
            f"{name}: {place} of the record has {', '.join(recorded) or 'nothing'} instead of "
            f"{', '.join(computed)}"
        )
    for metric, share in computed.items():
        found = recorded[metric].model_dump()
        for key, value in share.items():
            if key not in ("low", "high") and not _is_close(found[key], value):
                raise InputError(
                    f"{name}: {place}, {metric}: {key} is {found[key]} in the record, but its "
                    f"answers give {value}"
                )


def _is_close(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) <= _TOLERANCE


def _results_of(source: RunSource) -> tuple[str, dict[str, Any]] | None:
    """Return the task of a run's samples and lm-eval's results beside them; None without them."""
    for samples in source.files[:1]:
        task, date = task_and_date(samples)
        results = samples.with_name(f"results_{date}.json")
        if date and results.is_file():
            content = read_json(results)
            if not isinstance(content, dict) or not isinstance(content.get("config"), dict):
                raise InputError(
                    f"{results}: not a results file of lm-eval; pass the folder it wrote"
                )
            return task, content
    return None


def generator_settings(split: Split, metadata: Mapping[str, Any]) -> GeneratorSettings:
    """Return the settings of a generated split.

    Raises:
        InputError: As `GeneratorSettings.from_metadata`.
    """
    kind = GeneratorSettings if split == GENERATED else TrackingSettings
    return kind.from_metadata(metadata)


def _from_lm_eval(
    samples: Path, split: Split, task: str, content: Mapping[str, Any]
) -> tuple[ModelRecord, EnvironmentRecord, dict[str, Any] | None]:
    """Return model, environment and settings of documents from lm-eval's results beside samples.

    Raises:
        InputError: The results hold what a record cannot.
    """
    try:
        generator = None
        if split.startswith(GENERATED):
            metadata = content.get("configs", {}).get(task, {}).get("metadata") or {}
            generator = _as_json(asdict(generator_settings(split, metadata)))
        return _model_of(content), _environment_of(samples, task, content), generator
    except (ArithmeticError, AttributeError, TypeError, ValueError) as error:
        reason = _first_of(error) if isinstance(error, ValidationError) else error
        raise InputError(
            f"{samples}: the results of lm-eval beside it cannot be recorded: {reason}"
        ) from error


def _first_of(error: ValidationError) -> str:
    """Return the place of the first thing that is wrong, and what is."""
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file':.200}: {first['msg']}"


def quantization_of(arguments: Mapping[str, Any]) -> str | None:
    """Return the quantization that lm-eval's model arguments ask for, or None."""
    for name in ("4bit", "8bit"):
        if str(arguments.get(f"load_in_{name}")) == "True":
            return name
    return arguments.get("quantization")


def _model_of(content: Mapping[str, Any]) -> ModelRecord:
    config = content["config"]
    arguments = _model_arguments(config.get("model_args"))
    name, adapter = model_and_adapter(arguments)
    parameters = config.get("model_num_parameters")
    return ModelRecord(
        name=str(name or content.get("model_name") or config.get("model")),
        revision=config.get("model_sha") or config.get("model_revision") or None,
        adapter=adapter,
        dtype=str(config["model_dtype"]).removeprefix("torch.")
        if config.get("model_dtype")
        else None,
        quantization=quantization_of(arguments),
        chat_template=content.get("chat_template") is not None,  # "" where a server applies its own
        parameters=parameters if parameters and parameters > 0 else None,  # -1: lm-eval can't tell
    )


def _environment_of(samples: Path, task: str, content: Mapping[str, Any]) -> EnvironmentRecord:
    config = content["config"]
    settings = content.get("configs", {}).get(task, {})
    date = content.get("date")
    seconds = content.get("total_evaluation_time_seconds")
    return EnvironmentRecord(
        task=task,
        backend=config.get("model") if isinstance(config.get("model"), str) else None,
        model_args=_model_arguments(config.get("model_args")),
        generation={}
        if settings.get("output_type") == "multiple_choice"
        else _as_json(
            {
                **(settings.get("generation_kwargs") or {}),
                **_model_arguments(config.get("gen_kwargs")),
            }
        ),
        system_instruction=content.get("system_instruction"),
        first_prompt=first_logged_prompt(samples),
        packages={
            package: str(content[key])
            for package, key in (
                ("lm_eval", "lm_eval_version"),
                ("transformers", "transformers_version"),
            )
            if content.get(key)
        },
        date=datetime.fromtimestamp(date, UTC).isoformat(timespec="seconds")
        if isinstance(date, int | float)
        else None,
        seconds=float(seconds) if seconds else None,
    )


def _model_arguments(arguments: object) -> dict[str, Any]:
    """Return lm-eval's `model_args` as a dictionary that JSON can hold."""
    if isinstance(arguments, str):
        pairs = (part.partition("=") for part in arguments.split(",") if part)
        arguments = {name.strip(): value for name, _, value in pairs}
    if not isinstance(arguments, dict):
        return {}
    return _as_json(arguments)


def _as_json(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping as JSON gives it back."""
    plain: dict[str, Any] = json.loads(json.dumps(content, default=str))
    return plain
