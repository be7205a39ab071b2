"""Existing responses: files of them, read into answers.

The files are JSON lines: a released `outputs.jsonl`, `{"row": n, "response": "..."}`, or lm-eval's
`samples_*.jsonl` (with generated responses or with log-likelihoods of yes and no). Samples also
hold the documents they are answers to.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from pragworld_tasks.data.documents import (
    Answer,
    AskedTexts,
    Document,
    documents_digest,
    texts_digest,
)
from pragworld_tasks.data.prompts import split_prompt
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.evaluation.answers import likelier_answer, read_answer, read_answer_released
from pragworld_tasks.files import Where, read_json_lines

_Record = TypeVar("_Record", bound=BaseModel)

_DOCUMENT = TypeAdapter(Document)


@dataclass(frozen=True)
class Predictions:
    """The answers that responses give, one for each document; None where none can be read.

    Attributes:
        ours: answers by `read_answer`.
        released: answers by `read_answer_released`, which the paper's tables rest on.
        documents_digest: the digest of the documents that the responses say they were given to;
            None where they do not say.
        responses: the responses as text; None for one that an API refused, or for likelihoods.
        yes: the probabilities of yes among yes and no; None for responses as text.
        texts_digest: the `texts_digest` of the documents that they answer; None where it is not
            known. Only documents with the same texts, in the same order, can be scored by them.
    """

    ours: list[Answer | None]
    released: list[Answer | None]
    documents_digest: str | None = None
    responses: list[str | None] | None = None
    yes: list[float | None] | None = None
    texts_digest: str | None = None

    @classmethod
    def from_responses(cls, responses: Iterable[str | None]) -> Self:
        """Read the answers of responses; None is a response that an API refused to give.

        Raises:
            InputError: A response is no text.
        """
        listed: list[str | None] = [responses] if isinstance(responses, str) else [*responses]
        for number, response in enumerate(listed):
            if not isinstance(response, str | None):
                kind = type(response).__name__
                raise InputError(
                    f"response {number} is {response!r:.40} ({kind}), not text or None"
                )
        texts = [response or "" for response in listed]
        return cls(
            list(map(read_answer, texts)),
            list(map(read_answer_released, texts)),
            responses=listed,
        )

    def check_documents(self, documents: Sequence[Document], name: str = "the run") -> None:
        """Refuse documents that are not those that were answered.

        Args:
            documents: the documents.
            name: the name of the run or of its file, for the message.

        Raises:
            InputError: There are not as many, or they have other texts.
        """
        parts = (self.ours, self.released, self.responses, self.yes)
        lengths = {len(part) for part in parts if part is not None}
        if lengths != {len(documents)}:
            raise InputError(
                f"{name}: {min(lengths)} responses for {len(documents)} documents; pass a response "
                "for each document, in their order: a whole run on this split, without --limit"
            )
        if self.texts_digest not in (None, texts_digest(documents)):
            raise InputError(
                f"{name}: the responses are to other contexts and questions than those of the "
                f"{documents[0].split} split here; pass runs on the same documents, in the same "
                "order: split, settings, seeds or files may differ"
            )


class LoggedSample(BaseModel):
    """What lm-eval logs of a document: the fields that are read; all others are ignored."""

    doc: dict[str, Any]
    filtered_resps: list[Any] = []
    resps: list[Any] = []
    filter: str = "none"
    doc_hash: str | None = None


def answers_questions(sample: Mapping[str, Any]) -> bool:
    """Return whether a sample's task answers each question once: no ten wordings or perplexity."""
    return "wording" not in sample["doc"] and "word_perplexity" not in sample.get("metrics", [])


class _AnswerLine(BaseModel):
    """A line of a file of responses; released ones have the prompt, too."""

    response: str | None
    row: int | None = None
    prompt: str | None = None


class _Response(NamedTuple):
    """A response in a file: its answers and text, as `Predictions` has them.

    Attributes:
        row: the row of its document; None where the file does not say.
        asked: the question that was answered, where the file says so; lm-eval's samples hold the
            whole document.
        digest: the digest of all documents of the task, which lm-eval logged with it.
    """

    ours: Answer | None
    released: Answer | None
    text: str | None = None
    yes: float | None = None
    row: int | None = None
    asked: Document | AskedTexts | None = None
    digest: str | None = None


def read_predictions(
    paths: str | Path | Sequence[str | Path], documents: Sequence[Document]
) -> Predictions:
    r"""Read the answers in files of responses, in the order of `documents`.

    Args:
        paths: the file of a run, or its files. Responses without a row number are matched in their
            order, one file after the other: the released runs on the synthetic split come in two
            files.
        documents: the documents of the split that was evaluated.

    Raises:
        InputError: A line holds no response, rows are missing or repeated, or the responses are to
            other documents.

    Examples:
        >>> import json, tempfile
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=1)
        >>> path = Path(tempfile.mkdtemp()) / "responses.jsonl"
        >>> _ = path.write_text("".join(json.dumps({"response": "No."}) + "\n" for _ in documents))
        >>> set(pt.read_predictions(path, documents).ours)
        {'no'}
    """
    files = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not files:
        raise InputError("there are no files of responses; pass one or more")
    predictions, _ = read_responses(files)
    predictions.check_documents(documents, ", ".join(map(str, files)))
    return replace(predictions, texts_digest=texts_digest(documents))


def sampled_documents(path: Path) -> list[Document]:
    """Return the documents in the samples of a pragworld task, sorted by row.

    Raises:
        InputError: The file holds no samples of a pragworld task, or a part of a run.
    """
    predictions, documents = read_responses([path])
    if documents is None:
        raise InputError(f"{path}: not samples of a pragworld task; pass a file of lm-eval's")
    check_whole(path, predictions, documents)
    return documents


def check_whole(path: Path, predictions: Predictions, documents: Sequence[Document]) -> None:
    """Refuse samples of a part of a run, by the digest of all documents that lm-eval logged."""
    if predictions.documents_digest != documents_digest(documents):
        raise InputError(
            f"{path}: not all documents are there, or it holds two runs; pass a whole run, without "
            "--limit"
        )


def validated(kind: type[_Record], content: Any, where: Where) -> _Record:
    """Return what pydantic reads at a place in a file, or refuse it with the first problem."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        where.refuse(first_problem(error))


def check_logged(where: Where, sample: LoggedSample) -> None:
    """Refuse a sample whose document or responses were edited after lm-eval wrote them.

    `documents_digest` covers texts and gold answers; lm-eval's hash covers all fields.
    """
    logged = json.dumps(sample.doc, indent=2, ensure_ascii=False)  # as lm-eval does
    if sample.doc_hash not in (None, hashlib.sha256(logged.encode()).hexdigest()):
        where.refuse(
            "'doc' is not what lm-eval logged, by its 'doc_hash'; was it edited, or the file "
            "written again with its keys in another order? Pass the file that lm-eval wrote"
        )
    if sample.filter == "none" and [[one] for one in sample.filtered_resps] != sample.resps:
        where.refuse("'filtered_resps' are not the responses in 'resps', though nothing filters")


def read_responses(paths: Sequence[Path]) -> tuple[Predictions, list[Document] | None]:
    """Read the files of a run.

    Returns:
        Its answers in the order of the rows, and the documents if lm-eval logged them.

    Raises:
        InputError: A line holds no response, or rows are missing or repeated.
    """
    by_row: dict[int, _Response] = {}
    numbered = set()
    for path in paths:
        for where, record in read_json_lines(path):
            response = _read(record, where)
            numbered.add(response.row is not None)
            if len(numbered) > 1:
                where.refuse("only some responses have a 'row'; number all or none")
            row = len(by_row) if response.row is None else response.row
            if row in by_row:
                where.refuse(f"row {row} has two responses; pass the responses of one run")
            by_row[row] = response
    if sorted(by_row) != list(range(len(by_row))):
        first = next(row for row in range(len(by_row)) if row not in by_row)
        names = ", ".join(map(str, paths))
        raise InputError(
            f"{names}: row {first} is the first without a response; pass a whole run, without "
            "--limit"
        )
    ordered = [by_row[row] for row in range(len(by_row))]
    digests = {response.digest for response in ordered}
    asked = [response.asked for response in ordered if response.asked]
    documents = [document for document in asked if isinstance(document, Document)]
    predictions = Predictions(
        [response.ours for response in ordered],
        [response.released for response in ordered],
        digests.pop() if len(digests) == 1 else None,
        [response.text for response in ordered],
        [response.yes for response in ordered],
        texts_digest(asked) if len(asked) == len(ordered) else None,
    )
    return predictions, documents if len(documents) == len(ordered) else None


def _read(record: Mapping[str, Any], where: Where) -> _Response:
    """Read one line of a file."""
    if "doc" in record or "filtered_resps" in record:
        return _from_sample(validated(LoggedSample, record, where), where)
    line = validated(_AnswerLine, record, where)
    asked = None
    if line.prompt is not None:
        with contextlib.suppress(InputError):  # a prompt in other words
            asked = AskedTexts(*split_prompt(line.prompt))
    return _from_text(line.response, row=line.row, asked=asked)


def _from_sample(sample: LoggedSample, where: Where) -> _Response:
    try:
        document = _DOCUMENT.validate_python(sample.doc)
    except ValidationError:
        where.refuse("not a sample of a pragworld task; pass those of a task on this split")
    known: dict[str, Any] = {
        "row": document.row,
        "asked": document,
        "digest": sample.doc.get("documents_digest"),
    }
    responses = sample.filtered_resps
    if len(responses) == 1 and isinstance(responses[0], str | None):
        return _from_text(responses[0], **known)
    try:
        yes, no = (float(likelihood) for likelihood, _ in responses)
    except (TypeError, ValueError):
        where.refuse("'filtered_resps' is not a list of one response, or of two likelihoods")
    answer = likelier_answer(yes, no)
    # The logistic function, which cannot overflow. No probability where there is no answer.
    share = None if math.isnan(yes - no) else (1 + math.tanh((yes - no) / 2)) / 2
    return _Response(answer, answer, yes=share, **known)


def _from_text(text: str | None, **known: Any) -> _Response:
    """Return a response as text; None is one that an API refused to give."""
    if text is None:
        return _Response(None, None, **known)
    return _Response(read_answer(text), read_answer_released(text), text=text, **known)
