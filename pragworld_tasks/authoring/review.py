"""The page on which people review documents: one file that needs no server and no network."""

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from pragworld_tasks.authoring.decisions import (
    REJECTED,
    Review,
    Verdict,
    document_digests,
    is_in_review,
    panel_labels,
    proposal,
)
from pragworld_tasks.authoring.folder import StageRecords
from pragworld_tasks.authoring.records import Label
from pragworld_tasks.text import Piece, diff_lines
from pragworld_tasks.web.environment import page_environment, style_of

PAGE, REPORT = "review.html", "report.md"
_PACKAGE = "pragworld_tasks.authoring"
_TEMPLATES = "review_template"


@dataclass(frozen=True)
class ReviewedDocument:
    """A document as the page shows it.

    Attributes:
        digest: its digest, by `document_digests`.
        label: its label now, with the panel's votes.
        panel: its label before any review.
        alteration: one of `ALTERATIONS`; None for the original.
        row: its place, from 0, in the file that the user provided; None for others.
        context: its lines, with the words that differ from the original's.
        question: the question, in the same way, as one line.
    """

    digest: str
    label: Label
    panel: Label
    alteration: str | None
    row: int | None
    context: list[list[Piece]]
    question: list[list[Piece]]

    @property
    def proposal(self) -> Verdict | None:
        """What the panel proposes."""
        return proposal(self.panel)

    @property
    def status(self) -> str:
        """Whether the document is in review, labelled or rejected."""
        if is_in_review(self.label):
            return "in review"
        return "rejected" if self.label.reason == REJECTED else "labelled"


def page_of(folder: Path, records: StageRecords, reviews: Sequence[Review], report: str) -> str:
    """Return the page of a folder's documents, those in review first, and of its audit.

    The page runs its own script and nothing else: its security policy names the digests of script
    and style, and everything that models or people wrote is escaped.

    Args:
        folder: the folder, for its name.
        records: its records.
        reviews: what reviewers have decided so far.
        report: the audit, in Markdown.
    """
    labels = records.labels
    panel = panel_labels(labels, reviews)
    shown = _documents(records, panel)
    style = style_of(_PACKAGE, _TEMPLATES)
    script = (files(_PACKAGE) / _TEMPLATES / "script.js").read_text(encoding="utf-8")
    return (
        page_environment(_PACKAGE, _TEMPLATES)
        .get_template("review.html")
        .render(
            name=folder.resolve().name,
            documents=sorted(shown, key=lambda document: not is_in_review(document.label)),
            in_review=sum(is_in_review(label) for label in labels),
            digest=shown[0].digest if shown else "",
            report=Markup(_to_html(report)),
            style=Markup(style),
            script=Markup(script),
            style_digest=_policy_digest(style),
            script_digest=_policy_digest(script),
            version=version("pragworld"),
        )
    )


def _to_html(report: str) -> str:
    """Return Markdown as HTML, a level of headings lower; it may quote models, so HTML is text."""
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.disable(["link", "image", "autolink", "html_block", "html_inline"])
    tokens = markdown.parse(report)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{int(token.tag[1:]) + 1}"
        if token.attrs.pop("style", "") == "text-align:right":  # a style of its own is not allowed
            token.attrSet("class", "number")
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    scroll = '<div class="scroll" tabindex="0" role="region" aria-label="Table">'
    return html.replace("<table>", f"{scroll}<table>").replace("</table>", "</table></div>")


def _policy_digest(text: str) -> str:
    """Return the digest by which a security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _documents(records: StageRecords, panel: Iterable[Label]) -> list[ReviewedDocument]:
    digests = document_digests(records)
    documents = []
    for label, before in zip(records.labels, panel, strict=True):
        original, original_question = records.document_at((label.conversation, 0))
        altered, question = records.document_at(label.place)
        quotes = [vote.quote for vote in label.votes]
        documents.append(
            ReviewedDocument(
                digests[label.place],
                label,
                before,
                altered.alteration,
                altered.row,
                mark_quotes(diff_lines(original.context.strip(), altered.context.strip()), quotes),
                diff_lines(original_question.text, question.text),
            )
        )
    return documents


def mark_quotes(lines: Iterable[Sequence[Piece]], quotes: Iterable[str]) -> list[list[Piece]]:
    r"""Return lines with the words that are quoted from them.

    Only letters and digits of a quote count, in either case: models change the rest. A quote of
    several lines is one of several utterances.

    Args:
        lines: the lines of a conversation; words that were removed from it are not searched.
        quotes: the quotes; one that does not occur marks nothing.

    Examples:
        >>> ((before, quoted, after),) = mark_quotes(
        ...     [[Piece("Bob: The tea is here, I think.", "same")]], ["the tea is HERE."])
        >>> before.text, quoted.text, after.text
        ('Bob: ', 'The tea is here', ', I think.')
    """
    lines = list(lines)
    text = "\n".join(
        "".join(piece.text for piece in line if piece.change != "removed") for line in lines
    )
    marks = bytearray(len(text))
    for quoted_line in (line for quote in quotes for line in quote.splitlines()):
        if words := re.findall(r"\w+", quoted_line):
            pattern = r"\b" + r"\W+".join(map(re.escape, words)) + r"\b"
            for match in re.finditer(pattern, text, re.IGNORECASE):
                marks[match.start() : match.end()] = b"\1" * len(match[0])
    marked: list[list[Piece]] = []
    start = 0
    for line in lines:
        marked.append([])
        for piece in line:
            if piece.change == "removed":
                marked[-1].append(piece)
                continue
            for run in re.finditer(rb"\x00+|\x01+", marks[start : start + len(piece.text)]):
                part = piece.text[run.start() : run.end()]
                marked[-1].append(Piece(part, piece.change, quoted=run[0][0] == 1))
            start += len(piece.text)
        start += 1  # the line break
    return marked
