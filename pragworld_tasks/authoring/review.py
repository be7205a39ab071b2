"""The page on which people review documents: one file that needs no server and no network."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from pragworld_tasks.authoring.labels import Label, LabelledDocument, proposal
from pragworld_tasks.authoring.records import VotedDocument
from pragworld_tasks.text import diff_lines
from pragworld_tasks.web.environment import page_environment, style_of

_PACKAGE = "pragworld_tasks.authoring"
_TEMPLATES = "review_template"


def review_page(folder: Path, documents: Sequence[LabelledDocument], report: str) -> str:
    """Return the page of a folder's documents, those in review first, and of its audit.

    The page runs its own script and nothing else: its security policy names the digests of script
    and style, and everything that models or people wrote is escaped.
    """
    originals = {voted.conversation: voted for voted, _ in documents if not voted.variant}
    style = style_of(_PACKAGE, _TEMPLATES)
    script = (files(_PACKAGE) / _TEMPLATES / "script.js").read_text(encoding="utf-8")
    return (
        page_environment(_TEMPLATES, _PACKAGE)
        .get_template("review.html")
        .render(
            name=folder.resolve().name,
            documents=[
                _shown(voted, label, originals[voted.conversation])
                for voted, label in sorted(documents, key=lambda each: not each.label.is_in_review)
            ],
            in_review=sum(document.label.is_in_review for document in documents),
            digest=documents[0].voted.digest if documents else "",
            report=Markup(_to_html(report)),
            style=Markup(style),
            script=Markup(script),
            style_digest=_policy_digest(style),
            script_digest=_policy_digest(script),
            version=version("pragworld"),
        )
    )


def _shown(voted: VotedDocument, label: Label, original: VotedDocument) -> dict[str, object]:
    """Return a document as the page shows it, with the words that differ from the original's."""
    status = "labelled" if label.answer else "in review" if label.is_in_review else "rejected"
    return {
        "voted": voted,
        "label": label,
        "status": status,
        "proposal": proposal(voted),
        "context": diff_lines(original.context.strip(), voted.context.strip()),
        "question": diff_lines(original.question, voted.question),
    }


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
    scroll = '<div class="scroll" tabindex="0" role="group" aria-label="Table">'
    return html.replace("<table>", f"{scroll}<table>").replace("</table>", "</table></div>")


def _policy_digest(text: str) -> str:
    """Return the digest by which a security policy allows an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
