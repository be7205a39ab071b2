"""The one record type: a question about a conversation, from whichever split it comes."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, get_args

from pydantic import TypeAdapter

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_package_toml

Answer = Literal["yes", "no"]
YES_NO: tuple[str, ...] = get_args(Answer)
Effect = Literal["flip", "invariant"]
Basis = Literal["entailed", "excluded", "undetermined"]
ReleasedSplit = Literal["manual", "synthetic", "entity_tracking"]
Split = Literal[ReleasedSplit, "generated", "generated_entity_tracking", "own"]
GENERATED: Split = "generated"
OWN: Split = "own"

# How many altered documents of the manual split have each alteration.
ALTERATION_COUNTS: dict[str, int] = read_package_toml(__package__, "table_words.toml")["counts"]
ALTERATIONS = tuple(ALTERATION_COUNTS)


def alteration_names(alterations: Iterable[str | None]) -> list[str]:
    """Return `ALTERATIONS`, and behind them any other names that documents have."""
    return [*ALTERATIONS, *sorted({name for name in alterations if name} - {*ALTERATIONS})]


@dataclass(frozen=True, slots=True)
class Document:
    """One question about one conversation, with its gold answer.

    Attributes:
        row: position among the split's documents, from 0.
        context: the conversation, one utterance per line, as in the released file.
        question: the question, as in the released file.
        answer: the gold answer, one of the labels.
        group: number of the original that this document is or was altered from, from 0; for
            documents of a user's own, any number that their file gives. In the entity-tracking
            split, which has no alterations, number of the conversation that the context is the
            beginning of.
        is_original: whether the document is its group's original, not an altered variant.
        alteration: one of `ALTERATIONS`, or any other name in documents of a user's own; None for
            an original.
        effect: what the alteration does to the answer: as annotated in the manual split (four
            annotations contradict the labels), derived from the labels where the file only says
            whether the answer could change. None for an original.
        split: the document's split; `own` for documents of a user's own.
        released_group: `group` by the released scoring, which mistakes the flag `"TRUE "` for an
            original's: in the manual split it finds 98 groups where there are 88.
        released_is_original: `is_original` by the released scoring.
        turns_ago: in generated entity tracking, the number of exchanges between the question and
            the last exchange about its subject. None elsewhere.
        basis: what the gold answer of a generated document rests on: what was said entails what the
            question asks (yes), excludes it (no), or leaves it undetermined (no, by convention).
            None for released documents, and for a user's own where the file does not say.
        labels: the answers that are possible, yes and no but in documents of a user's own.
        prompt: the whole prompt, if the file of a user's own has a template for it.
    """

    row: int
    context: str
    question: str
    answer: str
    group: int
    is_original: bool
    alteration: str | None
    effect: Effect | None
    split: Split
    released_group: int
    released_is_original: bool
    turns_ago: int | None = None
    basis: Basis | None = None
    labels: tuple[str, ...] = YES_NO
    prompt: str | None = None

    @staticmethod
    def from_dict(record: Mapping[str, Any]) -> "Document":
        """Return the document in a row of a data set, which may have other fields, too."""
        return _DOCUMENT.validate_python(record)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, without labels and prompt where they are the paper's."""
        ours = ("labels", YES_NO), ("prompt", None)
        return {name: value for name, value in asdict(self).items() if (name, value) not in ours}


_DOCUMENT = TypeAdapter(Document)


def check_yes_no(documents: Sequence[Document], command: str) -> None:
    """Refuse documents with other labels than yes and no, which a command cannot take."""
    if documents[0].labels != YES_NO:
        labels = ", ".join(documents[0].labels)
        raise InputError(f"{command} takes documents with the labels yes and no, not {labels}")


def has_alterations(split: Split) -> bool:
    """Return whether a split has altered variants, and so metrics such as robust accuracy."""
    return not split.endswith("entity_tracking")


def documents_digest(documents: Sequence[Document]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of contexts, questions and gold answers in order.

    Two runs with the same digest were measured on the same documents with the same labels.
    """
    return _digest([document.context, document.question, document.answer] for document in documents)


class AskedTexts(NamedTuple):
    """A question about a conversation, without its answer."""

    context: str
    question: str


def texts_digest(documents: Sequence[Document | AskedTexts]) -> str:
    """Return what `documents_digest` does, but of contexts and questions only.

    Responses with the same digest answer the same prompts, whatever the gold answers are.
    """
    return _digest([document.context, document.question] for document in documents)


def _digest(contents: Iterable[list[str]]) -> str:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(json.dumps(content).encode() + b"\n")
    return digest.hexdigest()
