"""The report of patching the tokens of one pair, and its map of tokens and layers."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pragworld_tasks.figures import figure_file
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
        texts = dict.fromkeys((self.text, self.source_text or self.text))
        return " → ".join(map(_visible, texts))


@dataclass(frozen=True)
class TokenReport:
    """The effects of the tokens of one original, patched from one altered variant.

    Attributes:
        model, data: The model and the two documents.
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
    parts: Mapping[Part, tuple[Probability, ...]]
    tokens: tuple[PatchedToken, ...]

    def count(self, part: Part) -> int:
        """Return how many tokens of a part are patched."""
        return sum(token.part == part and token.patched is not None for token in self.tokens)

    def most_telling(self, count: int = 10) -> list[tuple[int, int]]:
        """Return the position of each token that changes the answer most, and at which layer.

        Args:
            count: How many tokens to return at most. An effect that rounds to 0.000 is none.
        """
        peaks = []
        for position, token in enumerate(self.tokens):
            effects = [abs(p - self.original_run) for p in token.patched or ()]
            if effects and max(effects) >= 0.0005:
                peaks.append((-max(effects), position, effects.index(max(effects))))
        return [(position, layer) for _, position, layer in sorted(peaks)[:count]]

    def to_text(self) -> str:
        """Return Markdown tables: the parts by layer, and the most telling tokens."""
        counts = {part: f" ({self.count(part)})" if part != "last" else "" for part in self.parts}
        rows = [
            [str(layer), *(f"{patched[layer]:.3f}" for patched in self.parts.values())]
            for layer in range(self.model.layers)
        ]
        title = f"{'; '.join(self._titles())}; p({self.answer}) with parts patched"
        headers = ["layer", *(PART_TITLES[part] + count for part, count in counts.items())]
        tables = [markdown_table(title, headers, rows)]
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

    def _titles(self) -> tuple[str, str]:
        kind = f" ({self.alteration})" if self.alteration else ""
        return (
            f"{model_titles([self.model])[0]}: {self.data.split}, row {self.original} patched from "
            f"row {self.altered}{kind}",
            f"OR {self.original_run:.3f}, AR {self.altered_run:.3f}",
        )

    def _repr_markdown_(self) -> str:
        return self.to_text()

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the report to a JSON file; see `LayerReport.write`."""
        write_report(path, TOKENS, self, "tokens", overwrite)

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw how p of the altered prompt's gold answer changes, by layer and patched token.

        A prompt of more than `MOST_TOKENS` tokens is shown by its altered utterances, the question
        and the last token. The other tokens are patched together, in one column.

        Raises:
            InputError: The file cannot be written.
        """
        from matplotlib.ticker import MaxNLocator

        is_whole = len(self.tokens) <= MOST_TOKENS
        shown = [n for n, token in enumerate(self.tokens) if is_whole or token.part != "rest"]
        labels = [textwrap.shorten(self.tokens[n].shown, 30, placeholder="…") for n in shown]
        columns: list[Sequence[float] | None] = [self.tokens[n].patched for n in shown]
        if not is_whole and "rest" in self.parts:
            shown, columns = [-1, *shown], [self.parts["rest"], *columns]
            labels = [f"{self.count('rest')} other tokens", *labels]
        layers = self.model.layers
        missing = [np.nan] * layers
        values = np.array([column or missing for column in columns]).T - self.original_run
        most = max(float(np.nanmax(np.abs(values))), 0.01)  # rounding errors stay pale
        width = max(5.0, 1.6 + 0.2 * len(labels))
        height = max(2.9, 2.1 + 0.13 * layers) + 0.06 * max(map(len, labels))
        with figure_file(path, width, height) as figure:
            axes = figure.subplots()
            axes.set_facecolor("0.85")
            colors = {"cmap": "PuOr_r", "vmin": -most, "vmax": most}
            image = axes.imshow(values, origin="lower", aspect="auto", **colors)  # type: ignore[arg-type]
            axes.grid(visible=False)
            axes.yaxis.set_major_locator(MaxNLocator(12, steps=[1, 2, 5, 10], integer=True))
            axes.set_ylabel("patched layer")
            axes.set_xticks(range(len(labels)), labels, rotation=90)
            for place, position in enumerate(shown):
                is_altered = position >= 0 and self.tokens[position].part == "altered"
                weight = "bold" if is_altered else "normal"
                axes.get_xticklabels()[place].set(fontsize=7, fontweight=weight)
                if place and position > shown[place - 1] + 1:
                    axes.axvline(place - 0.5, color="black", linewidth=1.2)
            explained = "patched token (bold: altered; gray: nothing to patch it from)"
            axes.set_xlabel(explained, fontsize=7)
            bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
            bar.set_label(f"p({self.answer}) patched minus OR")
            what, runs = self._titles()
            figure.suptitle(f"{textwrap.fill(what, int(width * 14))}\n{runs}", fontsize=9)
        return figure


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
