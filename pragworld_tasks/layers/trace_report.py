"""The report of a trace: what each token of one pair does to the answer, layer by layer.

A trace patches a pair as `patching` does, but only one token of the original prompt at a time, or
one part of the prompt.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import check_output, write_json
from pragworld_tasks.layers.identities import DataIdentity, ModelIdentity
from pragworld_tasks.layers.serialization import encode
from pragworld_tasks.text import format_number, markdown_table

if TYPE_CHECKING:
    from pandas import DataFrame

# The altered tokens, the other tokens of the utterances that hold them, those of the question, the
# last token, and all others.
Part = Literal["altered", "utterance", "question", "last", "rest"]

# Where a token stands; "around" both for prompts of a user's own, and where it is unknown.
Place = Literal["dialogue", "question", "around"]

PART_TITLES: dict[Part, str] = {
    "altered": "altered words",
    "utterance": "their utterance",
    "question": "question",
    "last": "last token",
    "rest": "rest",
}
SCHEMA = "pragworld-trace"
SCHEMA_VERSION = 1

_MOST_TELLING = 10  # tokens that the text lists
_SEEN = {"\n": "↵", "\t": "⇥"}


@dataclass(frozen=True)
class TracedToken:
    """A token of the original prompt, and the probabilities with this token alone patched.

    Attributes:
        position: Its position.
        text: What it stands for.
        part: The part of the prompt that it belongs to.
        place: Where it stands.
        source: The position in the altered prompt that it is patched from; None without one.
        source_text: What the token there stands for.
        patched: p(y) patched at the input of each layer; None without a source.
    """

    position: int
    text: str
    part: Part
    place: Place
    source: int | None
    source_text: str | None
    patched: tuple[float, ...] | None

    @property
    def shown(self) -> str:
        """The text of the token, and of the one it is patched from where they differ."""
        text = _visible(self.text)
        if self.source_text in (None, self.text):
            return text
        return f"{text} → {_visible(self.source_text or '')}"


@dataclass(frozen=True)
class TracedPart:
    """A part of the original prompt, and the probabilities with all of its tokens patched.

    Attributes:
        part: The part.
        tokens: How many of its tokens are patched.
        patched: p(y) patched at the input of each layer.
    """

    part: Part
    tokens: int
    patched: tuple[float, ...]


@dataclass(frozen=True)
class TraceReport:
    """The trace of one original and one altered variant.

    Attributes:
        model: The model.
        data: The two documents.
        original: The row of the original in its split.
        altered: The row of the altered variant.
        alteration: The category of the alteration.
        answer: The gold answer y of the altered prompt. All probabilities are p(y).
        original_run: p(y) in the plain run of the original prompt, OR.
        altered_run: p(y) in the plain run of the altered prompt, AR.
        parts: The parts of the original prompt that have tokens to patch, each patched as a whole.
        tokens: The tokens of the original prompt in order, each patched alone.
    """

    model: ModelIdentity
    data: DataIdentity
    original: int
    altered: int
    alteration: str | None
    answer: str
    original_run: float
    altered_run: float
    parts: tuple[TracedPart, ...]
    tokens: tuple[TracedToken, ...]

    @property
    def title(self) -> str:
        """What was patched, in words, and the plain runs."""
        kind = f" ({self.alteration})" if self.alteration else ""
        runs = f"OR {self.original_run:.3f}, AR {self.altered_run:.3f}"
        return (
            f"{self.data.split}, row {self.original} patched from row {self.altered}{kind}; {runs}"
        )

    def most_telling(self, count: int = _MOST_TELLING) -> list[tuple[TracedToken, int]]:
        """Return the tokens that change the answer most, each with its most effective layer.

        Args:
            count: How many tokens to return at most. An effect that rounds to 0.000 is none.
        """
        peaks = []
        for token in self.tokens:
            if token.patched:
                effects = [abs(p - self.original_run) for p in token.patched]
                peak = max(effects)
                if peak >= 0.0005:
                    peaks.append((peak, token, effects.index(peak)))
        peaks.sort(key=lambda item: (-item[0], item[1].position))
        return [(token, layer) for _, token, layer in peaks[:count]]

    def to_frame(self) -> "DataFrame":
        """Return the probabilities as a pandas DataFrame, a row for each token and layer."""
        from pandas import DataFrame

        return DataFrame(
            {
                "position": token.position,
                "token": token.text,
                "source": token.source,
                "source_token": token.source_text,
                "part": token.part,
                "place": token.place,
                "layer": layer,
                "probability": probability,
                "direct_effect": probability - self.original_run,
            }
            for token in self.tokens
            for layer, probability in enumerate(token.patched or ())
        )

    def to_text(self) -> str:
        """Return Markdown tables: the parts by layer, and the most telling tokens."""
        headers = [
            PART_TITLES[part.part] + (f" ({part.tokens})" if part.part != "last" else "")
            for part in self.parts
        ]
        rows = [
            [str(layer), *(f"{part.patched[layer]:.3f}" for part in self.parts)]
            for layer in range(self.model.layers)
        ]
        tables = [
            markdown_table(
                f"{self.model.name}: {self.title}; p({self.answer}) with parts patched",
                ["layer", *headers],
                rows,
            )
        ]
        if "altered" not in {part.part for part in self.parts}:
            tables.append(
                "No altered token can be patched: the alteration only inserts or deletes tokens.\n"
            )
        telling = [
            [
                token.shown,
                str(token.position),
                PART_TITLES[token.part],
                str(layer),
                f"{token.patched[layer]:.3f}",
                format_number(token.patched[layer] - self.original_run, "+.3f"),
            ]
            for token, layer in self.most_telling()
            if token.patched
        ]
        if telling:
            tables.append(
                markdown_table(
                    "tokens that change the answer most, patched alone",
                    ["token", "position", "part", "at layer", "p patched", "direct effect"],
                    telling,
                )
            )
        return "\n".join(tables)

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a JSON file.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        check_output(Path(path), overwrite)
        head = {"schema": SCHEMA, "version": SCHEMA_VERSION}
        write_json(Path(path), {**head, **encode(self)})


def select_pair(documents: Sequence[Document], row: int) -> list[Document]:
    """Return the altered variant of a row, after its original.

    Args:
        documents: Documents of one split.
        row: The row of the variant.

    Raises:
        InputError: There is no such row, it is that of an original, or its original is missing.
    """
    rows = {document.row: document for document in documents}
    place = f"split {documents[0].split}, row {row}"
    if row not in rows:
        raise InputError(
            f"{place}: there is no such document; choose a row from {min(rows)} to {max(rows)}"
        )
    group = [document for document in documents if document.group == rows[row].group]
    if rows[row].is_original:
        variants = ", ".join(str(document.row) for document in group if document.row != row)
        remedy = f"one of its variants, rows {variants}" if variants else "a row of another split"
        lack = "" if variants else " without altered variants"
        raise InputError(f"{place}: an original{lack}; choose {remedy}")
    originals = [document for document in group if document.is_original]
    if not originals:
        raise InputError(f"{place}: its original is not among the documents; add it")
    return [originals[0], rows[row]]


def _visible(text: str) -> str:
    """Return the text of a token on one line, without spaces around it, and with all else seen."""
    line = "".join(
        character if character.isprintable() else _SEEN.get(character, ascii(character)[1:-1])
        for character in text.strip(" ")
    )
    return line or "␣"
