"""Existing responses: files of them, read into answers.

The files are JSON lines: a released `outputs.jsonl`, `{"row": n, "response": "..."}`, or lm-eval's
`samples_*.jsonl` (with generated responses or with log-likelihoods of the labels). Samples also
hold the documents they are answers to.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pragworld_tasks.data.documents import YES_NO, AskedTexts, Document, texts_digest
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.answers import (
    UnreadableReason,
    likelier_answer,
    read_answer,
    read_answer_released,
    unreadable_reason,
    yes_share,
)
from pragworld_tasks.files import Where, read_json_lines
from pragworld_tasks.text import null_if_nan


class AnswerRecord(BaseModel):
    """The answer to one document.

    Attributes:
        answer: the answer as `read_answer` reads it; None where none can be read, for a `reason`.
        released: the answer as the released scoring reads it.
        response: the response as text; None for one that an API refused, or for likelihoods.
        yes: the probability of yes among yes and no, where the likelier label answered.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    row: int
    answer: str | None
    released: str | None
    response: str | None = None
    yes: float | None = Field(default=None, ge=0, le=1)
    reason: UnreadableReason | None = None

    @classmethod
    def of_text(
        cls,
        row: int,
        response: str | None,
        finish_reason: str | None = None,
        labels: Sequence[str] = YES_NO,
    ) -> Self:
        """Read a response, which ended for a reason; None is one that an API refused to give."""
        answer = read_answer(response, labels)
        return cls(
            row=row,
            answer=answer,
            released=read_answer_released(response or "", labels),
            response=response,
            reason=None if answer else unreadable_reason(response, finish_reason, labels),
        )

    @classmethod
    def of_likelihoods(
        cls, row: int, likelihoods: Sequence[float], labels: Sequence[str] = YES_NO
    ) -> Self:
        """Take the likeliest answer, by the log-likelihoods of the labels."""
        answer = likelier_answer(likelihoods, labels)
        yes = null_if_nan(yes_share(*likelihoods)) if tuple(labels) == YES_NO else None
        return cls(row=row, answer=answer, released=answer, yes=yes)


@dataclass(frozen=True)
class Predictions:
    """The answers to all documents of a split.

    Attributes:
        answers: an answer to each document, in the order of the rows.
        documents_digest, texts_digest: those of the documents that were answered, if they are
            known. Only documents with the same texts, in the same order, can be scored.
        logged: the documents that lm-eval logged with them.
    """

    answers: list[AnswerRecord] = field(repr=False)
    documents_digest: str | None = None
    texts_digest: str | None = None
    logged: list[Document] | None = field(default=None, repr=False)

    @classmethod
    def from_responses(cls, responses: Iterable[str | None]) -> Self:
        """Read the answers of responses; None is a response that an API refused to give."""
        return cls([AnswerRecord.of_text(row, text) for row, text in enumerate(responses)])

    def read_against(self, labels: Sequence[str]) -> Self:
        """Return the answers of the same responses among other labels than yes and no."""
        if tuple(labels) == YES_NO:
            return self
        read = [
            answer
            if answer.response is None
            else AnswerRecord.of_text(answer.row, answer.response, labels=labels)
            for answer in self.answers
        ]
        return replace(self, answers=read)

    @property
    def ours(self) -> list[str | None]:
        """The answers by `read_answer`; None where none can be read."""
        return [answer.answer for answer in self.answers]

    @property
    def released(self) -> list[str | None]:
        """The answers by `read_answer_released`, which the paper's tables rest on."""
        return [answer.released for answer in self.answers]

    def check_documents(self, documents: Sequence[Document], name: str = "the run") -> None:
        """Refuse documents that are not as many as were answered, or that have other texts."""
        if len(self.answers) != len(documents):
            raise InputError(
                f"{name}: {len(self.answers)} responses for {len(documents)} documents; pass a "
                "response for each document, in their order: a whole run on this split, without "
                "--limit"
            )
        if self.texts_digest not in (None, texts_digest(documents)):
            raise InputError(
                f"{name}: the responses are to other contexts and questions than those of the "
                f"{documents[0].split} split here; pass runs on the same documents, in the same "
                "order: split, settings, seeds or files may differ"
            )


# Files --------------------------------------------------------------------------------------------


class LoggedSample(BaseModel):
    """What lm-eval logs of a document: the fields that are read; all others are ignored."""

    doc: dict[str, Any]
    filtered_resps: list[Any] = []
    metrics: list[str] = []


class _AnswerLine(BaseModel):
    """A line of a file of responses; released ones have the prompt, too."""

    response: str | None
    row: int | None = None
    prompt: str | None = None
    finish_reason: str | None = None


def read_predictions(path: str | Path) -> Predictions:
    r"""Read the answers in a file of responses, in the order of the rows, for `score`.

    Responses without a row number are matched in their order.

    Raises:
        InputError: A line holds no response, or rows are missing or repeated.

    Examples:
        >>> import json, tempfile
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=1)
        >>> path = Path(tempfile.mkdtemp()) / "responses.jsonl"
        >>> _ = path.write_text("".join(json.dumps({"response": "No."}) + "\n" for _ in documents))
        >>> pt.score(documents, pt.read_predictions(path)).no_acc
        100.0
    """
    by_row: dict[int, _Read] = {}
    for where, content in read_json_lines(path):
        if "doc" in content or "filtered_resps" in content:
            read = _from_sample(where.validate(LoggedSample, content), where)
        else:
            read = _from_line(where.validate(_AnswerLine, content), len(by_row))
        row = read.answer.row
        if row in by_row:
            where.refuse(f"row {row} has two responses; pass the responses of one run")
        by_row[row] = read
    if missing := set(range(len(by_row))) - by_row.keys():
        raise InputError(
            f"{path}: row {min(missing)} is the first without a response; pass a whole run, "
            "without --limit"
        )
    ordered = [by_row[row] for row in range(len(by_row))]
    digests = {read.digest for read in ordered}
    asked = [read.asked for read in ordered if read.asked]
    logged = [document for document in asked if isinstance(document, Document)]
    return Predictions(
        [read.answer for read in ordered],
        digests.pop() if len(digests) == 1 else None,
        texts_digest(asked) if len(asked) == len(ordered) else None,
        logged if len(logged) == len(ordered) else None,
    )


class _Read(NamedTuple):
    """An answer, and what its line says of its document and of the digest of all documents."""

    answer: AnswerRecord
    asked: Document | AskedTexts | None = None
    digest: str | None = None


def _from_line(line: _AnswerLine, number: int) -> _Read:
    """Return the answer in a line; `number` is its row if it names none."""
    asked = None
    if line.prompt is not None:
        with contextlib.suppress(InputError):  # a prompt in other words
            asked = AskedTexts(*split_prompt(line.prompt))
    row = number if line.row is None else line.row
    return _Read(AnswerRecord.of_text(row, line.response, line.finish_reason), asked)


def without_repeats(responses: list[Any]) -> list[Any]:
    """Return the responses of requests; lm-eval 0.5 writes each as a list with one repeat."""
    has_lists = all(isinstance(repeats, list) and len(repeats) == 1 for repeats in responses)
    return [response for (response,) in responses] if has_lists else responses


def _from_sample(sample: LoggedSample, where: Where) -> _Read:
    try:
        document = Document.from_dict(sample.doc)
    except ValidationError:
        where.refuse("not a sample of a pragworld task; pass --group-by for any other task")
    if "wording" in sample.doc or "word_perplexity" in sample.metrics:
        where.refuse("a task that does not answer each question once; pass samples of another task")
    responses = without_repeats(sample.filtered_resps)
    if len(responses) == 1 and isinstance(responses[0], str | None):
        answer = AnswerRecord.of_text(document.row, responses[0], labels=document.labels)
    else:
        try:
            likelihoods = [float(likelihood) for likelihood, _ in responses]
            answer = AnswerRecord.of_likelihoods(document.row, likelihoods, document.labels)
        except (TypeError, ValueError):
            where.refuse("'filtered_resps' is not a response, or a likelihood of each label")
    return _Read(answer, document, sample.doc.get("documents_digest"))
