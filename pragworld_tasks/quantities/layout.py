"""The layout of an answer: its sentences, list items, table rows and sections."""

import bisect
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pragworld_tasks.quantities.plain_text import PlainText, Span
from pragworld_tasks.quantities.wording import pattern

_BULLET = re.compile(r" *(?:[-*+•‣◦▪]|\(?\d{1,2}[.)]|\(?[a-z][.)]) +(?=\S)")
_HEADING = re.compile(r" *#{1,6} *")
_DIGIT = re.compile(r"\d")
_STEP, _TITLE, _ABBREVIATED = (pattern(name) for name in ("step_heading", "title", "abbreviated"))
_RULE = re.compile(r"[\s|:+=-]*$")
# A sentence ends at a stop, except after an abbreviation.
_STOP = re.compile(r"[.!?][)\"'\]]{0,2} +(?=[^ ,;)])")
# The label of a list item or a paragraph: the words before a colon or a dash.
_LABEL = re.compile(
    r"(?!(?:to|if|when|because|since|as) |[:→])"
    # Python 3.11.2 matches less if this group is written with `++`.
    r"(?>(?:[^:.!?\n→]+|\.(?=\w)|:(?=\d\d)|(?<=\b[ei]\.g)\.|(?<=\bvia)\.)+)"
    r"(?:(?<=\.):|:(?!\d)|→ (?<= → ))"
    r"|[^:=÷+*/\n]{1,45}? (?:[-—]{1,2}|=) "
)
_RESULT_SIGNS = ("→", "=", "≈", "*")  # with which no alternative begins
NOWHERE = (0, 0)  # the place of what there is not
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
    cells: Sequence[Span] = ()  # of a row
    group: int = -1  # of a row, the number of its table
    header: Sequence[Span] = ()  # the cells of a table's first row
    section: Span = NOWHERE  # the heading above it
    intro: Span = NOWHERE  # the line before its list or paragraph, if that ends with a colon


class Place(NamedTuple):
    """The place of a quantity in the layout: a sentence, or a cell in a table."""

    line: Line
    start: int
    end: int
    label: Span  # the words before a colon in its item or paragraph, or its row's first cell
    column: Span  # the header of its column


class Layout:
    """The lines of an answer that are not blank, with their sections, lists and tables."""

    def __init__(self, answer: PlainText) -> None:
        self.text, self._bold = answer.text, answer.bold
        self.lines: list[Line] = []
        position = 0
        for raw in self.text.split("\n"):
            if raw.strip() and not ("|" in raw and "-" in raw and _RULE.match(raw)):
                self.lines.append(self._line(raw, position, len(self.lines)))
            position += len(raw) + 1
        self._starts = [line.start for line in self.lines]
        self._sentences = [0]  # where they start, besides those that start a line
        for stop in _STOP.finditer(self.text):
            end = stop.start() + 1
            written = self.text[max(self._sentences[-1], end - 12) : end].rpartition("\n")[2]
            if not _ABBREVIATED.search(written):
                self._sentences.append(stop.end())
        self._sentences.append(len(self.text))
        self._link()
        self.blocks = list(self._divide())  # those that each line is in, by kind and run

    def place(self, start: int, end: int) -> Place:
        """Return the place of text[start:end]."""
        line = self.lines[max(0, bisect.bisect_right(self._starts, start) - 1)]
        if line.cells and line.cells[0][0] <= start:
            number = bisect.bisect_right(line.cells, (start, len(self.text) + 1)) - 1
            column = line.header[number] if number < len(line.header) else NOWHERE
            label = line.cells[0] if number else NOWHERE
            return Place(line, *line.cells[number], label, column)
        following = bisect.bisect_right(self._sentences, start, hi=len(self._sentences) - 1)
        first = max(line.start, self._sentences[following - 1])
        last = max(end, min(line.end, self._sentences[following]))
        match = None
        for begin in (first, line.start) if line.kind == "item" else (first,):
            match = match or _LABEL.match(self.text, begin, min(start, begin + _LONGEST_LABEL))
        return Place(line, first, last, match.span() if match else NOWHERE, NOWHERE)

    def _line(self, raw: str, start: int, number: int) -> Line:
        end, indent = start + len(raw), len(raw) - len(raw.lstrip())
        if raw.count("|") >= 2 or raw.startswith("|", indent):
            return Line(start, end, "row", number, start, cells=_cells(raw, start))
        if heading := _HEADING.match(raw):
            return Line(start + heading.end(), end, "heading", number, start)
        bullet = _BULLET.match(raw)
        first = bullet.end() if bullet else indent
        titled = (
            len(raw) <= _LONGEST_HEADING
            and self._is_bold(start + first, end)
            and not raw.rstrip(" *_").endswith(".")
            # `Total: $4,600` in bold is not a heading.
            and not (_DIGIT.search(raw, first) and not _TITLE.match(raw, first))
        )
        kind = "heading" if titled or _STEP.match(raw) else "item" if bullet else "text"
        return Line(start + first, end, kind, number, start, indent)

    def _is_bold(self, start: int, end: int) -> bool:
        """Return whether all of text[start:end] is bold, except for a colon at its end."""
        bold = self._bold_at(start)
        return bold != NOWHERE and not self.text[bold[1] : end].strip(" :.")

    def _bold_at(self, start: int) -> Span:
        """Return the last bold place that begins at or before a place."""
        index = bisect.bisect_right(self._bold, (start, len(self.text))) - 1
        return self._bold[index] if index >= 0 else NOWHERE

    def _divide(self) -> Iterator[Mapping[tuple[str, int], tuple[int, Span]]]:
        """Yield for each line the number of the first line and the label of the blocks it is in."""
        inside: dict[str, tuple[int, Span]] = {}
        runs: Counter[str] = Counter()
        depth = 0
        for line in self.lines:
            span = (line.start, line.end)
            match = None
            if line.kind in ("item", "text"):
                last = min(line.end, line.start + _LONGEST_LABEL)
                match = _LABEL.match(self.text, line.start, last)
            if line.kind == "heading":
                inside = {"headings": (line.number, span)}
                runs["paragraphs"] += 1
            elif line.kind == "item":
                if "items" not in inside:
                    depth = line.indent
                    runs["items"] += 1
                if line.indent <= depth:
                    inside["items"] = line.number, match.span() if match else span
            elif line.kind == "text" and not self.text.startswith(_RESULT_SIGNS, line.start):
                if line.indent == 0 and self.text.endswith("\n\n", 0, line.start):
                    inside.pop("items", None)
                bold = self._bold_at(line.start)
                label = bold if line.start < bold[1] else match and match.span()
                if label:
                    inside["paragraphs"] = line.number, label
                    inside.pop("items", None)
            blocks = {(kind, runs[kind]): block for kind, block in inside.items()}
            if line.kind == "row":
                blocks["rows", line.group] = line.number, line.cells[0] if line.cells else NOWHERE
            yield blocks

    def _link(self) -> None:
        """Set the group, header, section and intro of each line."""
        section = intro = NOWHERE
        groups = 0
        last: Line | None = None
        for line in self.lines:
            before = last.kind if last else ""
            if line.kind == "row":
                groups += before != "row"
                line.header = last.header if last and before == "row" else line.cells
                line.group = groups
            elif line.kind == "heading":
                section, intro = (line.start, line.end), NOWHERE
            elif line.kind == "text":
                written = self.text[line.start : line.end].strip()
                announces = written.endswith(":")
                if before != "text":
                    intro = NOWHERE
                if self._is_bold(line.start, line.end):
                    section = NOWHERE  # `**Estimated time: 2 hours**` below a list of factors
            line.section, line.intro = section, intro
            if line.kind == "text":
                intro = (line.start, line.end) if announces else NOWHERE
            last = line


def _cells(raw: str, start: int) -> list[Span]:
    edges = [index for index, sign in enumerate(raw) if sign == "|"]
    bounds = [-1, *edges] if raw[: edges[0]].strip() else edges
    if raw[bounds[-1] + 1 :].strip():
        bounds = [*bounds, len(raw)]
    return [(start + left + 1, start + right) for left, right in itertools.pairwise(bounds)]
