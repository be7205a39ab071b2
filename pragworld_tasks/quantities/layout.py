"""The layout of an answer: its sentences, list items, table rows and sections."""

import bisect
import itertools
import re
from dataclasses import dataclass, field
from typing import NamedTuple

from pragworld_tasks.quantities.patterns import pattern
from pragworld_tasks.quantities.plain_text import PlainText, Span

_BULLET = re.compile(r"(?P<indent>[ \t]*)(?:[-*+•‣◦▪]|\(?\d{1,2}[.)]|\(?[a-z][.)])[ \t]+(?=\S)")
_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]*")
_DIGIT, _DIGITS = re.compile(r"\d"), re.compile(r"\d+")
_STEP, _TITLE, _ABBREVIATED = (pattern(name) for name in ("step_heading", "title", "abbreviated"))
_RULE = re.compile(r"[\s|:+=-]*$")
# A sentence ends at a stop, except after an abbreviation.
_STOP = re.compile(r"(?<=[.!?])[)\"'\]]{0,2} +(?=[^ ,;)])")
# The label of a list item or a paragraph: the words before a colon or a dash.
_LABEL = re.compile(
    r"(?!(?:to|if|when|because|since|as) )"
    r"(?:[^:.!?\n]|\.(?=\w)|:(?=\d\d)|(?<=\b[ei]\.g)\.|(?<=\bvia)\.){1,90}?"
    r"(?:(?<=\.):|:(?!\d)| → )"
    r"|[^:=÷+*/\n]{1,45}? (?:[-—]{1,2}|=) "
)
_LABEL_ENDS = re.compile(r"[:→=]|[-—] ")  # to see fast that there is no label
NOWHERE = (0, 0)  # the place of what there is not
_DEPTHS = 100  # indentations of lists within lists, in characters
_LONGEST_HEADING = 90  # characters
_LONGEST_TITLE = 4  # words of `Tips:` and the like, which are headings without markup


@dataclass(slots=True)
class Line:
    """A line that is not blank.

    Attributes:
        start, end: Its place: the line is `text[start:end]`, without its bullet or `#`.
        kind: `heading`, `item`, `row` (of a table) or `text`.
        number: Its number, from 0.
        indent, ordinal: For an item, its indentation in characters and the number in its bullet.
        cells: For a row, the places of its cells.
        group: A number that neighbouring items of one depth, or rows of one table, share; else -1.
        header: For a row, the cells of its table's first row.
        section, section_number: The heading above it, and how many have come so far.
        intro: The line before its list or paragraph, if that ends with a colon.
    """

    start: int
    end: int
    kind: str
    number: int
    indent: int = 0
    ordinal: int = 0
    cells: list[Span] = field(default_factory=list)
    group: int = -1
    header: list[Span] = field(default_factory=list)
    section: Span = NOWHERE
    section_number: int = 0
    intro: Span = NOWHERE


class Place(NamedTuple):
    """The place of a quantity in the layout.

    Attributes:
        line: Its line.
        start, end: The place of its sentence, or of its cell in a table.
        label: The place of the words before a colon in its item or paragraph, or of its row's
            first cell.
        column: The place of the header of its column.
    """

    line: Line
    start: int
    end: int
    label: Span
    column: Span


class Layout:
    """The lines of an answer, with their sections, lists and tables.

    Attributes:
        text: The answer's plain text.
        lines: Its lines that are not blank.
    """

    def __init__(self, answer: PlainText) -> None:
        self.text, self._bold = answer.text, answer.bold
        self.lines: list[Line] = []
        position = 0
        for raw in self.text.split("\n"):
            if raw.strip() and not ("|" in raw and "-" in raw and _RULE.match(raw)):
                self.lines.append(self._line(raw, position, len(self.lines)))
            position += len(raw) + 1
        self._starts = [line.start for line in self.lines]
        self._link()
        self._sentences: dict[int, list[int]] = {}

    def place(self, start: int, end: int) -> Place:
        """Return the place of text[start:end]."""
        line = self.lines[max(0, bisect.bisect_right(self._starts, start) - 1)]
        number = bisect.bisect_right(line.cells, (start, len(self.text) + 1)) - 1
        if number >= 0:
            column = line.header[number] if number < len(line.header) else NOWHERE
            label = line.cells[0] if number else NOWHERE
            return Place(line, *line.cells[number], label, column)
        starts = self._sentences_of(line)
        index = max(0, bisect.bisect_right(starts, start) - 1)
        sentence_end = starts[index + 1] if index + 1 < len(starts) else line.end
        match = None
        if _LABEL_ENDS.search(self.text, line.start, start):
            match = _LABEL.match(self.text, starts[index], start)
            if match is None and line.kind == "item":
                match = _LABEL.match(self.text, line.start, start)
        label = match.span() if match else NOWHERE
        return Place(line, starts[index], max(sentence_end, end), label, NOWHERE)

    def _sentences_of(self, line: Line) -> list[int]:
        if line.number not in self._sentences:
            starts = self._sentences[line.number] = [line.start]
            for stop in _STOP.finditer(self.text, line.start, line.end):
                if not _ABBREVIATED.search(
                    self.text[max(starts[-1], stop.start() - 12) : stop.start()]
                ):
                    starts.append(stop.end())
        return self._sentences[line.number]

    def _line(self, raw: str, start: int, number: int) -> Line:
        end, indent = start + len(raw), len(raw) - len(raw.lstrip())
        if raw.count("|") >= 2 or raw.startswith("|", indent):
            return Line(start, end, "row", number, cells=_cells(raw, start))
        if heading := _HEADING.match(raw):
            return Line(start + heading.end(), end, "heading", number)
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
        ordinal = _DIGITS.search(bullet[0]) if bullet else None
        return Line(start + first, end, kind, number, indent, int(ordinal[0]) if ordinal else 0)

    def _is_bold(self, start: int, end: int) -> bool:
        """Return whether all of text[start:end] is bold, except for a colon at its end."""
        index = bisect.bisect_right(self._bold, (start, end + 1)) - 1
        if index < 0 or self._bold[index][0] > start:
            return False
        return not self.text[self._bold[index][1] : end].strip(" :.")

    def _link(self) -> None:
        """Set the group, header, section and intro of each line."""
        section = intro = NOWHERE
        groups = sections = 0
        last: Line | None = None
        for line in self.lines:
            written, before = self.text[line.start : line.end].strip(), last.kind if last else ""
            if line.kind == "row":
                if last is None or before != "row":
                    groups += 1
                    line.header = line.cells
                else:
                    line.header = last.header
                line.group = groups
            elif line.kind == "item":
                groups += before != "item" and line.ordinal < 2  # others go on with a list
                line.group = groups * _DEPTHS + min(line.indent, _DEPTHS - 1)
            elif line.kind == "heading":
                section, sections, intro = (line.start, line.end), sections + 1, NOWHERE
            else:
                announces = written.endswith(":")
                if before != "text":
                    intro = NOWHERE
                if announces and len(written.split()) <= _LONGEST_TITLE:
                    section, sections, announces = (line.start, line.end), sections + 1, False
                elif self._is_bold(line.start, line.end):
                    section = NOWHERE  # `**Estimated time: 2 hours**` below a list of factors
            line.section, line.section_number, line.intro = section, sections, intro
            if line.kind == "text":
                intro = (line.start, line.end) if announces else NOWHERE
            last = line


def _cells(raw: str, start: int) -> list[Span]:
    edges = [index for index, sign in enumerate(raw) if sign == "|"]
    bounds = [-1, *edges] if raw[: edges[0]].strip() else edges
    if raw[bounds[-1] + 1 :].strip():
        bounds = [*bounds, len(raw)]
    return [(start + left + 1, start + right) for left, right in itertools.pairwise(bounds)]
