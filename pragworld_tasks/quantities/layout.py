"""The layout of an answer: its sentences, list items, table rows and sections."""

import bisect
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pragworld_tasks.quantities.plain_text import PlainText, TextSpan
from pragworld_tasks.quantities.wording import pattern

_RESULT_SIGNS = ("→", "=", "≈", "*")  # with which no alternative begins
NO_SPAN = (0, 0)  # the place of what there is not
_LONGEST_LABEL = _LONGEST_HEADING = 90  # characters


@dataclass(slots=True)
class Line:
    """A line that is not blank: `text[start:end]`, without its bullet or `#`."""

    start: int
    end: int
    kind: str  # `heading`, `item`, `row` (of a table) or `text`
    number: int  # from 0
    bullet: int = 0  # where its bullet or `#` begins
    indent: int = 0  # of an item, in characters
    cells: Sequence[TextSpan] = ()  # of a row
    header: Sequence[TextSpan] = ()  # the cells of a table's first row
    section: TextSpan = NO_SPAN  # the heading above it
    intro: TextSpan = NO_SPAN  # the line before its list or paragraph, if that ends with a colon
    # The first line and the label of each block that it is in, by the block's kind and run.
    blocks: Mapping[tuple[str, int], tuple[int, TextSpan]] = field(default_factory=dict)


class QuantityPlace(NamedTuple):
    """The place of a quantity in the layout: a sentence, or a cell in a table."""

    line: Line
    start: int
    end: int
    label: TextSpan  # the words before a colon in its item or paragraph, or its row's first cell
    column: TextSpan  # the header of its column


class Layout:
    """The lines of an answer that are not blank, with their sections, lists and tables."""

    def __init__(self, answer: PlainText) -> None:
        self.text, self._bold = answer.text, answer.bold
        self.lines: list[Line] = []
        position = 0
        for raw in self.text.split("\n"):
            if raw.strip() and not ("|" in raw and "-" in raw and pattern("rule").match(raw)):
                self.lines.append(self._line(raw, position, len(self.lines)))
            position += len(raw) + 1
        self._starts = [line.start for line in self.lines]
        self._sentences = [0]  # where they start, besides those that start a line
        for stop in pattern("stop").finditer(self.text):
            end = stop.start() + 1
            written = self.text[max(self._sentences[-1], end - 12) : end].rpartition("\n")[2]
            if not pattern("abbreviated").search(written):
                self._sentences.append(stop.end())
        self._sentences.append(len(self.text))
        self._link()

    def place(self, start: int, end: int) -> QuantityPlace:
        """Return the place of text[start:end]."""
        line = self.lines[max(0, bisect.bisect_right(self._starts, start) - 1)]
        if line.cells and line.cells[0][0] <= start:
            number = bisect.bisect_right(line.cells, (start, len(self.text) + 1)) - 1
            column = line.header[number] if number < len(line.header) else NO_SPAN
            label = line.cells[0] if number else NO_SPAN
            return QuantityPlace(line, *line.cells[number], label, column)
        following = bisect.bisect_right(self._sentences, start, hi=len(self._sentences) - 1)
        first = max(line.start, self._sentences[following - 1])
        last = max(end, min(line.end, self._sentences[following]))
        label = self._label(first, start)
        if label == NO_SPAN and line.kind == "item":
            label = self._label(line.start, start)
        return QuantityPlace(line, first, last, label, NO_SPAN)

    def _line(self, raw: str, start: int, number: int) -> Line:
        end, indent = start + len(raw), len(raw) - len(raw.lstrip())
        if raw.count("|") >= 2 or raw.startswith("|", indent):
            return Line(start, end, "row", number, start, cells=_cells(raw, start))
        if heading := pattern("heading").match(raw):
            return Line(start + heading.end(), end, "heading", number, start)
        bullet = pattern("bullet").match(raw)
        first = bullet.end() if bullet else indent
        titled = (
            len(raw) <= _LONGEST_HEADING
            and self._is_bold(start + first, end)
            and not raw.rstrip(" *_").endswith(".")
            # `Total: $4,600` in bold is not a heading.
            and not (pattern("digit").search(raw, first) and not pattern("title").match(raw, first))
        )
        is_heading = titled or pattern("step_heading").match(raw)
        kind = "heading" if is_heading else "item" if bullet else "text"
        return Line(start + first, end, kind, number, start, indent)

    def _is_bold(self, start: int, end: int) -> bool:
        """Return whether all of text[start:end] is bold, except for a colon at its end."""
        bold = self._bold_at(start)
        return bold != NO_SPAN and not self.text[bold[1] : end].strip(" :.")

    def _bold_at(self, start: int) -> TextSpan:
        """Return the last bold place that begins at or before a place."""
        index = bisect.bisect_right(self._bold, (start, len(self.text))) - 1
        return self._bold[index] if index >= 0 else NO_SPAN

    def _label(self, start: int, end: int) -> TextSpan:
        match = pattern("label").match(self.text, start, min(end, start + _LONGEST_LABEL))
        return match.span() if match else NO_SPAN

    def _link(self) -> None:
        section = intro = NO_SPAN
        inside: dict[str, tuple[int, TextSpan]] = {}
        runs: Counter[str] = Counter()
        depth, last = 0, None
        for line in self.lines:
            before, span = last.kind if last else "", (line.start, line.end)
            line.intro = NO_SPAN if before != line.kind == "text" else intro
            inside.pop("rows", None)
            if line.kind == "row":
                runs["rows"] += before != "row"
                line.header = last.header if last and before == "row" else line.cells
                inside["rows"] = line.number, line.cells[0] if line.cells else NO_SPAN
            elif line.kind == "heading":
                section, line.intro, intro = span, NO_SPAN, NO_SPAN
                inside = {"headings": (line.number, span)}
                runs["paragraphs"] += 1
            elif line.kind == "item":
                if "items" not in inside:
                    depth = line.indent
                    runs["items"] += 1
                if line.indent <= depth:
                    label = self._label(*span)
                    inside["items"] = line.number, span if label == NO_SPAN else label
            else:
                intro = span if self.text[line.start : line.end].strip().endswith(":") else NO_SPAN
                if self._is_bold(*span):
                    section = NO_SPAN  # `**Estimated time: 2 hours**` below a list of factors
                bold = self._bold_at(line.start)
                label = bold if line.start < bold[1] else self._label(*span)
                if not self.text.startswith(_RESULT_SIGNS, line.start):
                    apart = line.indent == 0 and self.text.endswith("\n\n", 0, line.start)
                    if apart or label != NO_SPAN:
                        inside.pop("items", None)
                    if label != NO_SPAN:
                        inside["paragraphs"] = line.number, label
            line.section, last = section, line
            line.blocks = {(kind, runs[kind]): block for kind, block in inside.items()}


def _cells(raw: str, start: int) -> list[TextSpan]:
    edges = [index for index, sign in enumerate(raw) if sign == "|"]
    bounds = [-1, *edges] if raw[: edges[0]].strip() else edges
    if raw[bounds[-1] + 1 :].strip():
        bounds = [*bounds, len(raw)]
    return [(start + left + 1, start + right) for left, right in itertools.pairwise(bounds)]
