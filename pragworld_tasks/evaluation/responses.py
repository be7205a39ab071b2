"""Existing responses: files of them, read into answers.

The files are JSON lines: a released `outputs.jsonl`, `{"row": n, "response": "..."}`, or lm-eval's
`samples_*.jsonl` (with generated responses or with log-likelihoods of yes and no). Samples also
hold the documents they are answers to.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

from pragworld_tasks.data.documents import (
    Answer,
    Document,
    documents_digest,
    has_alterations,
    texts_digest,
)
from pragworld_tasks.data.label_readings import Reading, majority_answer
from pragworld_tasks.data.own_documents import check_documents
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.answers import likelier_answer, read_answer, read_answer_released
from pragworld_tasks.files import Where, read_json_lines


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


class _Reading(NamedTuple):
    """What is read from one record of a file."""

    ours: Answer | None
    released: Answer | None
    response: str | None = None
    yes: float | None = None
    is_likelihood: bool = False


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
        InputError: A line holds no response, a row is missing, out of range or repeated, a
            response is to another document than the one in its row, or the documents in the
            samples were edited.

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
    by_row: dict[int, _Reading] = {}
    sampled: dict[int, Mapping[str, Any]] = {}  # the documents as samples have them
    numbered: bool | None = None
    for path in paths:
        for where, record in read_json_lines(path):
            row = _row_of(record, where)
            if numbered is None:
                numbered = row is not None
            if numbered != (row is not None):
                where.refuse("only some responses have a 'row'; number all responses or none")
            if row is None:
                row = len(by_row)
            if not 0 <= row < len(documents):
                last = len(documents) - 1
                where.refuse(
                    f"response to row {row}, but the split has rows 0 to {last}; "
                    "pass responses to this split"
                )
            if row in by_row:
                where.refuse(f"row {row} has two responses; pass the responses of one run only")
            _check_document(record, documents[row], where)
            by_row[row] = _read_record(record, where)
            if by_row[row].is_likelihood != next(iter(by_row.values())).is_likelihood:
                where.refuse(
                    "likelihoods among written responses, or the reverse; pass the responses of "
                    "one run only"
                )
            if "doc" in record:
                sampled[row] = record["doc"]
    names = ", ".join(map(str, paths))
    missing = [row for row in range(len(documents)) if row not in by_row]
    if missing:
        raise InputError(
            f"{names}: {len(by_row)} responses for {len(documents)} documents; "
            f"row {missing[0]} is the first without one; {whole_run_remedy(paths[0])}"
        )
    ours, released, responses, yes, _ = map(
        list, zip(*(by_row[row] for row in range(len(documents))), strict=True)
    )
    digest = _digest_of_samples(sampled, documents, names) if sampled else None
    return Predictions(ours, released, digest, responses, yes, texts_digest(documents))


def whole_run_remedy(path: str | Path) -> str:
    """Return what to do about a file of responses that is a part of a run."""
    if Path(path).with_name("collect.json").is_file():
        return "rerun `pragworld-tasks collect` to resume"
    return "pass a whole run, without --limit"


def _digest_of_samples(
    sampled: Mapping[int, Mapping[str, Any]], documents: Sequence[Document], names: str
) -> str:
    """Return the digest of the documents that samples hold, which may have other gold answers.

    Raises:
        InputError: The samples name several digests, or another one than their documents have.
    """
    digest = documents_digest(
        [
            replace(document, answer=sampled.get(row, {}).get("answer", document.answer))
            for row, document in enumerate(documents)
        ]
    )
    named = {json.dumps(one.get("documents_digest", digest)) for one in sampled.values()}
    # Samples of some groups name the digest of all groups, so it need not be this one.
    is_edited = digest != documents_digest(documents) and named != {json.dumps(digest)}
    if is_edited or len(named) > 1:
        raise InputError(
            f"{names}: the samples contradict the digest of their documents; was the file edited, "
            "or joined from two runs? Pass the file that lm-eval wrote"
        )
    return digest


def sampled_documents(path: Path) -> list[Document]:
    """Return the documents in the samples of a pragworld task, sorted by row.

    Raises:
        InputError: The file holds no samples of a pragworld task, edited ones, or a part of a run.
    """
    from pydantic import TypeAdapter, ValidationError

    reader = TypeAdapter(Document)
    names = [field.name for field in fields(Document)]
    documents, recorded, rows = [], set(), set()
    for where, record in read_json_lines(path):
        document = record.get("doc")
        if not isinstance(document, Mapping) or not set(names) <= set(document):
            where.refuse("not a sample of a pragworld task; pass a file that lm-eval wrote")
        content = json.dumps({name: document[name] for name in names})
        try:
            documents.append(reader.validate_json(content, strict=True))
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            where.refuse(f"'doc' was edited, {wrong['loc'][0]!r} in it: {wrong['msg']}")
        _check_logged(record, where)
        if document["row"] in rows:
            where.refuse(f"row {document['row']} is here twice; pass the file that lm-eval wrote")
        rows.add(document["row"])
        size, digest = document.get("group_size"), document.get("documents_digest")
        recorded.add((document["group"], json.dumps(size), json.dumps(digest)))
    documents.sort(key=lambda document: document.row)
    digest = json.dumps(documents_digest(documents))
    sizes = Counter(document.group for document in documents)
    if recorded != {(group, json.dumps(size), digest) for group, size in sizes.items()}:
        raise InputError(
            f"{path}: not all documents are there, or they were edited; {whole_run_remedy(path)}"
        )
    # The released splits contradict themselves in places, and are compared with their own files.
    if has_alterations(documents[0].split) and not is_released(documents[0].split):
        check_documents(path, documents)
    return documents


def _row_of(record: Mapping[str, Any], where: Where) -> int | None:
    """Return the row that a record belongs to; None where it does not say."""
    row = record.get("row")
    if "doc" in record or "filtered_resps" in record:
        document = record.get("doc")
        if not isinstance(document, Mapping) or not {"row", "context", "question"} <= set(document):
            where.refuse("not a sample of a pragworld task; pass those of a task on this split")
        row = document["row"]
    if row is not None and (not isinstance(row, int) or isinstance(row, bool)):
        where.refuse(f"'row' is {row!r}, not a whole number")
    return row


def _check_document(record: Mapping[str, Any], document: Document, where: Where) -> None:
    """Refuse a response whose record belongs to another document."""
    logged = record.get("doc", {})
    prompt = str(record.get("prompt", ""))
    for part in ("context", "question"):
        text = getattr(document, part)
        # Whoever wrote a line may have trimmed its texts or left them out.
        named = str(record.get(part) or text).split()
        is_other = logged.get(part, text) != text or named != text.split()
        if is_other or ("prompt" in record and text not in prompt):
            remedy = "pass responses to this split"
            if not is_released(document.split):
                remedy = "pass runs on the same documents: settings, seeds or files may differ"
            where.refuse(
                f"the response is to another {part} than that of row {document.row} of the "
                f"{document.split} split; {remedy}"
            )
    _check_logged(record, where)


def _check_logged(record: Mapping[str, Any], where: Where) -> None:
    """Refuse a document that is not the one whose hash lm-eval logged beside it.

    `documents_digest` covers texts and gold answers; this covers groups and all other fields.
    """
    if "doc" in record and "doc_hash" in record:
        try:
            logged = json.dumps(record["doc"], indent=2, ensure_ascii=False)  # as lm-eval does
        except RecursionError:  # no document of lm-eval's is nested so deeply
            logged = ""
        if record["doc_hash"] != hashlib.sha256(logged.encode()).hexdigest():
            where.refuse(
                "'doc' is not what lm-eval logged, by its 'doc_hash'; was it edited, or the file "
                "written again with its keys in another order? Pass the file that lm-eval wrote"
            )


def _check_filtered(record: Mapping[str, Any], where: Where) -> None:
    """Refuse filtered responses that are not the first of the raw ones, if nothing filters them."""
    if record.get("filter") != "none" or "resps" not in record:
        return
    raw = record["resps"]
    first = (
        [one[0] for one in raw if isinstance(one, list) and one] if isinstance(raw, list) else []
    )
    # As text, in which a likelihood that is not a number equals itself.
    if json.dumps(record["filtered_resps"]) != json.dumps(first):
        where.refuse("'filtered_resps' are not the responses in 'resps'; was one edited?")


def _read_record(record: Mapping[str, Any], where: Where) -> _Reading:
    """Read a record's answer by our rules and by the released ones."""
    if "filtered_resps" in record:
        responses = record["filtered_resps"]
        if isinstance(responses, list) and len(responses) == 2:
            _check_filtered(record, where)
            try:
                yes, no = (float(likelihood) for likelihood, _ in responses)
            except (TypeError, ValueError):
                where.refuse("'filtered_resps' are not the log-likelihoods of yes and of no")
            answer = likelier_answer(yes, no)
            # The logistic function, which cannot overflow. No probability where there is no answer.
            probability = None if math.isnan(yes - no) else (1 + math.tanh((yes - no) / 2)) / 2
            return _Reading(answer, answer, yes=probability, is_likelihood=True)
        if not isinstance(responses, list) or len(responses) != 1:
            where.refuse("'filtered_resps' is not a list of one response, or of two likelihoods")
        _check_filtered(record, where)
        response = responses[0]
    elif "response" in record:
        response = record["response"]
    elif "readings" in record:
        readings = record["readings"]
        known = {*get_args(Reading)}
        if not isinstance(readings, list) or not readings or not {*map(str, readings)} <= known:
            where.refuse(f"'readings' is {readings!r:.40}, not a list of yes, no and unknown")
        answer = majority_answer(readings)
        return _Reading(answer, answer)
    else:
        where.refuse(f"no 'response' (nor lm-eval's 'filtered_resps'), only {list(record)[:6]}")
    if response is None:  # an API that refused to answer
        return _Reading(None, None)
    if not isinstance(response, str):
        where.refuse(f"the response is {type(response).__name__}, not text")
    return _Reading(read_answer(response), read_answer_released(response), response)
