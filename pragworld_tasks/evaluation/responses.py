"""Existing responses: files of them, read into answers.

The files are JSON lines: a released `outputs.jsonl`, `{"row": n, "response": "..."}`, or lm-eval's
`samples_*.jsonl` (with generated responses or with log-likelihoods of yes and no). Samples also
hold the documents they are answers to.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from pragworld_tasks.data.documents import Answer, Document, documents_digest, texts_digest
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.evaluation.answers import likelier_answer, read_answer, read_answer_released
from pragworld_tasks.files import Where, read_json_lines

Record = TypeVar("Record", bound=BaseModel)

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


class LoggedSample(BaseModel):
    """What lm-eval logs of a document: the fields that are read; all others are ignored."""

    doc: dict[str, Any]
    filtered_resps: list[Any] = []
    resps: list[Any] = []
    filter: str = "none"
    metrics: list[str] = []
    doc_hash: str | None = None

    @property
    def split(self) -> str | None:
        """The split of the document; None for a sample of another benchmark's task."""
        split = self.doc.get("split")
        return split if isinstance(split, str) else None

    @property
    def answers_question(self) -> bool:
        """Whether its task answers each question once: not in ten wordings, nor perplexity."""
        return "wording" not in self.doc and "word_perplexity" not in self.metrics

    def document(self) -> Document:
        """Return the document.

        Raises:
            ValidationError: It is none of a pragworld task.
        """
        return _DOCUMENT.validate_python(self.doc)


class _AnswerLine(BaseModel):
    """A line of a file of responses; texts are compared where they are there."""

    response: str | None
    row: int | None = None
    context: str | None = None
    question: str | None = None
    prompt: str | None = None


@dataclass(frozen=True)
class Response:
    """A response in a file.

    Attributes:
        where: its place.
        ours, released: the answer as both readers read it.
        row: the row of its document; None where the file does not say.
        text: the response; None for likelihoods, and where an API refused to give one.
        yes: the probability of yes among yes and no, where the likelier label answered.
        document: the document that lm-eval logged with it.
        digest: the digest of all documents of the task, which lm-eval logged with it.
        named: the texts that the line has besides the response: `context`, `question`, `prompt`.
    """

    where: Where
    ours: Answer | None
    released: Answer | None
    row: int | None = None
    text: str | None = None
    yes: float | None = None
    document: Document | None = None
    digest: str | None = None
    named: Mapping[str, str] = field(default_factory=dict)

    def check_document(self, document: Document) -> None:
        """Refuse a response to another document."""
        for part in ("context", "question"):
            text = getattr(document, part)
            # Whoever wrote a line may have trimmed its texts or left them out.
            named = self.named.get(part) or text
            if named.split() != text.split() or text not in self.named.get("prompt", text):
                remedy = "pass responses to this split"
                if not is_released(document.split):
                    remedy = "pass runs on the same documents: settings, seeds or files may differ"
                self.where.refuse(
                    f"the response is to another {part} than that of row {document.row} of the "
                    f"{document.split} split; {remedy}"
                )


def read_predictions(
    paths: str | Path | Sequence[str | Path], documents: Sequence[Document]
) -> Predictions:
    r"""Read the answers in files of responses, in the order of `documents`.

    The files are JSON lines: a released `outputs.jsonl`, `{"row": n, "response": "..."}`, or
    lm-eval's `samples_*.jsonl` (with generated responses or with log-likelihoods of yes and no).

    Args:
        paths: the file of a run, or its files. Responses without a row number are matched in their
            order, one file after the other: the released runs on the synthetic split come in two
            files.
        documents: the documents of the split that was evaluated.

    Raises:
        InputError: A line holds no response, a row is missing, out of range or repeated, or a
            response is to another document than the one in its row.

    Examples:
        >>> import json, tempfile
        >>> import pragworld_tasks as pt
        >>> documents = pt.generate(groups=1)
        >>> path = Path(tempfile.mkdtemp()) / "responses.jsonl"
        >>> _ = path.write_text("".join(json.dumps({"response": "No."}) + "\n" for _ in documents))
        >>> set(pt.read_predictions(path, documents).ours)
        {'no'}
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    if not paths:
        raise InputError("there are no files of responses; pass one or more")
    responses = [response for path in paths for response in read_responses(Path(path))]
    return match_responses(responses, documents)


def sampled_documents(path: Path) -> list[Document]:
    """Return the documents in the samples of a pragworld task, sorted by row.

    Raises:
        InputError: The file holds no samples of a pragworld task, or a part of a run.
    """
    return documents_of(read_responses(path))


def read_logged_samples(path: Path) -> Iterator[tuple[Where, LoggedSample]]:
    """Yield the samples in a file that lm-eval wrote, each with its place.

    Raises:
        InputError: The file cannot be read, or a line is no sample.
    """
    for where, record in read_json_lines(path):
        yield where, validated(LoggedSample, record, where)


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


def validated(kind: type[Record], content: Any, where: Where) -> Record:
    """Return a line of a file as an object of a class, and refuse one that is none."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        where.refuse(first_problem(error))


def read_responses(path: Path) -> list[Response]:
    """Read a file of responses or of lm-eval's samples."""
    responses = []
    for where, record in read_json_lines(path):
        if "doc" in record or "filtered_resps" in record:
            responses.append(_from_sample(where, record))
            continue
        if "response" not in record:
            where.refuse(f"no 'response' (nor lm-eval's 'filtered_resps'), only {list(record)[:6]}")
        line = validated(_AnswerLine, record, where)
        named = line.model_dump(include={"context", "question", "prompt"}, exclude_none=True)
        responses.append(_from_text(line.response, where, row=line.row, named=named))
    return responses


def _from_sample(where: Where, record: Mapping[str, Any]) -> Response:
    sample = validated(LoggedSample, record, where)
    try:
        document = sample.document()
    except ValidationError:
        where.refuse("not a sample of a pragworld task; pass those of a task on this split")
    known: dict[str, Any] = {
        "row": document.row,
        "document": document,
        "digest": sample.doc.get("documents_digest"),
        "named": {"context": document.context, "question": document.question},
    }
    responses = sample.filtered_resps
    if len(responses) == 1 and isinstance(responses[0], str | None):
        return _from_text(responses[0], where, **known)
    try:
        yes, no = (float(likelihood) for likelihood, _ in responses)
    except (TypeError, ValueError):
        where.refuse("'filtered_resps' is not a list of one response, or of two likelihoods")
    answer = likelier_answer(yes, no)
    # The logistic function, which cannot overflow. No probability where there is no answer.
    share = None if math.isnan(yes - no) else (1 + math.tanh((yes - no) / 2)) / 2
    return Response(where, answer, answer, yes=share, **known)


def _from_text(text: str | None, where: Where, **known: Any) -> Response:
    """Return a response as text; None is one that an API refused to give."""
    if text is None:
        return Response(where, None, None, **known)
    return Response(where, read_answer(text), read_answer_released(text), text=text, **known)


def documents_of(responses: Sequence[Response]) -> list[Document]:
    """Return the documents in lm-eval's samples, sorted by row."""
    documents = [response.document for response in responses if response.document]
    if len(documents) < len(responses):
        responses[0].where.refuse("not a sample of a pragworld task; pass a file of lm-eval's")
    documents.sort(key=lambda document: document.row)
    if {response.digest for response in responses} != {documents_digest(documents)}:
        raise InputError(
            f"{responses[0].where.path}: not all documents are there, or some are there twice; "
            "pass a whole run, without --limit"
        )
    return documents


def match_responses(responses: Sequence[Response], documents: Sequence[Document]) -> Predictions:
    """Return the answer to each document."""
    is_numbered = responses[0].row is not None
    by_row: dict[int, Response] = {}
    for response in responses:
        if is_numbered != (response.row is not None):
            response.where.refuse("only some responses have a 'row'; number all or none")
        row = len(by_row) if response.row is None else response.row
        if not 0 <= row < len(documents):
            last = len(documents) - 1
            response.where.refuse(
                f"response to row {row}, but the split has rows 0 to {last}; "
                "pass responses to this split"
            )
        if row in by_row:
            response.where.refuse(f"row {row} has two responses; pass the responses of one run")
        response.check_document(documents[row])
        by_row[row] = response
    missing = [row for row in range(len(documents)) if row not in by_row]
    if missing:
        names = dict.fromkeys(str(response.where.path) for response in responses)
        raise InputError(
            f"{', '.join(names)}: {len(by_row)} responses for {len(documents)} documents; row "
            f"{missing[0]} is the first without one; pass a whole run, without --limit"
        )
    ordered = [by_row[row] for row in range(len(documents))]
    digests = {response.digest for response in ordered}
    return Predictions(
        [response.ours for response in ordered],
        [response.released for response in ordered],
        digests.pop() if len(digests) == 1 else None,
        [response.text for response in ordered],
        [response.yes for response in ordered],
        texts_digest(documents),
    )
