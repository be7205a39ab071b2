"""The report of patching the tokens of one pair, and its map of tokens and layers."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pragworld_tasks.layers import figures
from pragworld_tasks.layers.files import TOKENS, Probability, read_report, write_report
from pragworld_tasks.layers.settings import DataIdentity, ModelIdentity, model_titles
from pragworld_tasks.text import format_number, markdown_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The altered tokens, the other tokens of the utterances that hold them, those of the question, the
# last token, and all others.
Part = Literal["altered", "utterance", "question", "last", "rest"]
PART_TITLES: dict[Part, str] = {
    "altered": "altered words",
    "utterance": "their utterance",
    "question": "question",
    "last": "last token",
    "rest": "rest",
}
MOST_TOKENS = 40  # of a prompt that the map shows as a whole
_SEEN = {"\n": "↵", "\t": "⇥"}


@dataclass(frozen=True)
class PatchedToken:
    """A token of the original prompt, and the probabilities with this token alone patched.

    Attributes:
        text: What it stands for.
        part: The part of the prompt that it belongs to.
        source: The position in the altered prompt that it is patched from; None without one.
        source_text: What the token there stands for.
        patched: p(y) patched at the input of each layer; None without a source.
    """

    text: str
    part: Part
    source: int | None
    source_text: str | None
    patched: tuple[Probability, ...] | None

    @property
    def shown(self) -> str:
        """The text of the token, and of the one it is patched from where they differ."""
        text = _visible(self.text)
        if self.source_text in (None, self.text):
            return text
        return f"{text} → {_visible(self.source_text or '')}"


@dataclass(frozen=True)
class TokenReport:
    """The effects of the tokens of one original, patched from one altered variant.

    Attributes:
        model: The model.
        data: The two documents.
        original, altered: Their rows in the split.
        alteration: The category of the alteration.
        answer: The gold answer y of the altered prompt. All probabilities are p(y).
        original_run, altered_run: p(y) in the plain runs, OR and AR.
        parts: p(y) patched at the input of each layer, with all tokens of a part patched together.
        tokens: The tokens of the original prompt in order, each patched alone.
    """

    model: ModelIdentity
    data: DataIdentity
    original: int
    altered: int
    alteration: str | None
    answer: str
    original_run: Probability
    altered_run: Probability
    parts: Mapping[Part, tuple[float, ...]]
    tokens: tuple[PatchedToken, ...]

    @property
    def title(self) -> str:
        """What was patched, in words, and the plain runs on a line of their own."""
        kind = f" ({self.alteration})" if self.alteration else ""
        return (
            f"{model_titles([self.model])[0]}: {self.data.split}, row {self.original} patched from "
            f"row {self.altered}{kind}\nOR {self.original_run:.3f}, AR {self.altered_run:.3f}"
        )

    def count(self, part: Part) -> int:
        """Return how many tokens of a part are patched."""
        return sum(token.part == part and token.patched is not None for token in self.tokens)

    def most_telling(self, count: int = 10) -> list[tuple[int, int]]:
        """Return the positions of the tokens that change the answer most.

        Args:
            count: How many tokens to return at most. An effect that rounds to 0.000 is none.

        Returns:
            Position and most effective layer of each token.
        """
        peaks = []
        for position, token in enumerate(self.tokens):
            effects = [abs(p - self.original_run) for p in token.patched or ()]
            if effects and max(effects) >= 0.0005:
                peaks.append((-max(effects), position, effects.index(max(effects))))
        return [(position, layer) for _, position, layer in sorted(peaks)[:count]]

    def to_text(self) -> str:
        """Return Markdown tables: the parts by layer, and the most telling tokens."""
        headers = [
            PART_TITLES[part] + (f" ({self.count(part)})" if part != "last" else "")
            for part in self.parts
        ]
        rows = [
            [str(layer), *(f"{patched[layer]:.3f}" for patched in self.parts.values())]
            for layer in range(self.model.layers)
        ]
        title = self.title.replace("\n", "; ")
        title = f"{title}; p({self.answer}) with parts patched"
        tables = [markdown_table(title, ["layer", *headers], rows)]
        if "altered" not in self.parts:
            tables.append(
                "No altered token can be patched: the alteration only inserts or deletes tokens.\n"
            )
        rows = []
        for position, layer in self.most_telling():
            token = self.tokens[position]
            p = (token.patched or ())[layer]
            effect = format_number(p - self.original_run, "+.3f")
            part = PART_TITLES[token.part]
            rows.append([token.shown, str(position), part, str(layer), f"{p:.3f}", effect])
        if rows:
            headers = ["token", "position", "part", "at layer", "p patched", "direct effect"]
            title = "tokens that change the answer most, patched alone"
            tables.append(markdown_table(title, headers, rows))
        return "\n".join(tables)

    def _repr_markdown_(self) -> str:
        return self.to_text()

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a JSON file.

        Raises:
            InputError: The file exists and `overwrite` is false, or it cannot be written.
        """
        write_report(path, TOKENS, self, "tokens", overwrite)

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw how p of the altered prompt's gold answer changes, by layer and patched token.

        A prompt of more than `MOST_TOKENS` tokens is shown by its altered utterances, the question
        and the last token. The other tokens are patched together, in one column.

        Raises:
            InputError: The file cannot be written.
        """
        is_whole = len(self.tokens) <= MOST_TOKENS
        columns = []
        if not is_whole and "rest" in self.parts:
            label = f"{self.count('rest')} other tokens"
            columns.append(figures.TokenColumn(label, self._effects(self.parts["rest"]), False))
        before = 0
        for position, token in enumerate(self.tokens):
            if is_whole or token.part != "rest":
                label = textwrap.shorten(token.shown, 30, placeholder="…")
                effects, is_altered = self._effects(token.patched), token.part == "altered"
                starts = position > before + 1
                columns.append(figures.TokenColumn(label, effects, is_altered, starts))
                before = position
        what = f"p({self.answer}) patched minus OR"
        return figures.token_map(path, self.title, columns, self.model.layers, what)

    def _effects(self, patched: Sequence[float] | None) -> list[float] | None:
        return None if patched is None else [p - self.original_run for p in patched]


def read_patched_tokens(path: str | Path) -> TokenReport:
    """Read the report that `pragworld-interp patch --row` or `TokenReport.write` wrote.

    Raises:
        InputError: The file is missing, malformed, or of another version.
    """
    return read_report(path, TOKENS, TokenReport)


def _visible(text: str) -> str:
    """Return the text of a token on one line, without spaces around it, and with all else seen."""
    line = "".join(
        character if character.isprintable() else _SEEN.get(character, ascii(character)[1:-1])
        for character in text.strip(" ")
    )
    return line or "␣"
