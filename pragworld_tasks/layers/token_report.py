"""The report of patching the tokens of one pair, and its map of tokens and layers."""

import math
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pragworld_tasks.figures import figure_file
from pragworld_tasks.layers.report import TOKENS, Probability, Report
from pragworld_tasks.layers.settings import DataIdentity, ModelIdentity
from pragworld_tasks.text import markdown_table

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


@dataclass(frozen=True)
class PatchedToken:
    """A token of the original prompt, and the probabilities with this token alone patched.

    Attributes:
        source: The position in the altered prompt that it is patched from; None without one.
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
        return " → ".join(repr(text.strip(" "))[1:-1] or "␣" for text in texts)


@dataclass(frozen=True)
class TokenReport(Report):
    """The effects of the tokens of one original, patched from one altered variant.

    Attributes:
        original: Its row in the split; `altered` is the row of the variant.
        answer: The gold answer y of the altered prompt. All probabilities are p(y).
        original_run: p(y) in its plain run, OR; `altered_run` is AR.
        parts: p(y) patched at the input of each layer, with all tokens of a part patched together.
        tokens: The tokens of the original prompt in order, each patched alone.
    """

    schema = TOKENS
    rows = "tokens"

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

    @property
    def title(self) -> str:
        """The model, the two documents and the probabilities in the plain runs."""
        kind = f" ({self.alteration})" if self.alteration else ""
        return (
            f"{self.model.title}: {self.data.split}, row {self.original} patched from row "
            f"{self.altered}{kind}; OR {self.original_run:.3f}, AR {self.altered_run:.3f}"
        )

    def to_text(self) -> str:
        """Return a Markdown table of the parts by layer."""
        counts = {part: f" ({self.count(part)})" if part != "last" else "" for part in self.parts}
        rows = [
            [str(layer), *(f"{patched[layer]:.3f}" for patched in self.parts.values())]
            for layer in range(self.model.layers)
        ]
        headers = ["layer", *(PART_TITLES[part] + count for part, count in counts.items())]
        return markdown_table(f"{self.title}; p({self.answer}) with parts patched", headers, rows)

    def plot(self, path: str | Path | None = None) -> "Figure":
        """Draw how p of the altered prompt's gold answer changes, by layer and patched token.

        The map shows the altered utterances, the question and the last token. The other tokens are
        patched together, in one column.

        Raises:
            InputError: The file cannot be written.
        """
        from matplotlib.ticker import MaxNLocator

        shown = [token for token in self.tokens if token.part != "rest"]
        labels = [textwrap.shorten(token.shown, 30, placeholder="…") for token in shown]
        layers = self.model.layers
        columns = [token.patched or (math.nan,) * layers for token in shown]
        if "rest" in self.parts:
            labels = [f"{self.count('rest')} other tokens", *labels]
            columns = [self.parts["rest"], *columns]
        values = np.array(columns).T - self.original_run
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
            axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=7)
            axes.set_xlabel("patched token (gray: nothing to patch it from)", fontsize=7)
            bar = figure.colorbar(image, ax=axes, pad=0.01, aspect=30)
            bar.set_label(f"p({self.answer}) patched minus OR")
            figure.suptitle(textwrap.fill(self.title, int(width * 14)), fontsize=9)
        return figure


read_patched_tokens = TokenReport.read
"""Read the report that `pragworld-interp patch --row` or `TokenReport.write` wrote."""
