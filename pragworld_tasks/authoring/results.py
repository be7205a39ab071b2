"""The folder of an authoring run: what was voted on and dropped, and the files made of that."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pragworld_tasks.authoring.audit import audit_report
from pragworld_tasks.authoring.labels import Decision, label_documents, settled_documents
from pragworld_tasks.authoring.pipeline import AuthoredDocuments
from pragworld_tasks.authoring.records import Dropped, VotedDocument, read_records, write_records
from pragworld_tasks.authoring.review import review_page
from pragworld_tasks.data.document_files import write_documents
from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.sources import locate, read_split
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import refusing, write_whole
from pragworld_tasks.text import format_count

JOURNAL, VOTES, DROPPED = "replies.jsonl", "votes.jsonl", "dropped.jsonl"
DOCUMENTS, REPORT, PAGE = "documents.jsonl", "report.md", "review.html"


def check_is_authored(folder: Path) -> None:
    """Refuse a folder that is neither new nor an authoring run's; the journal has its settings."""
    with refusing(folder):
        if folder.is_dir() and any(folder.iterdir()) and not (folder / JOURNAL).exists():
            raise InputError(f"{folder}: has other files than an `author` run's; choose another")


def write_votes(folder: Path, made: AuthoredDocuments) -> None:
    """Write what a run's requests have led to; what follows from that, `write_results` writes."""
    write_records(folder / VOTES, made.documents)
    write_records(folder / DROPPED, made.dropped)


def read_votes(folder: Path) -> AuthoredDocuments:
    """Read what `write_votes` wrote."""
    return AuthoredDocuments(
        read_records(folder / VOTES, VotedDocument), read_records(folder / DROPPED, Dropped)
    )


def write_results(
    folder: Path, made: AuthoredDocuments, decisions: Mapping[str, Decision]
) -> tuple[int, int]:
    """Write documents, audit and page; return the number of groups, and of documents in review."""
    labelled = label_documents(made.documents, decisions)
    documents = settled_documents(labelled)
    report = audit_report(labelled, documents, made.dropped, _manual_split(made.documents))
    write_documents(documents, folder / DOCUMENTS, overwrite=True)
    write_whole(folder / REPORT, report.encode())
    write_whole(folder / PAGE, review_page(folder, labelled, report).encode())
    groups = len({document.group for document in documents})
    waiting = sum(document.label.is_in_review for document in labelled)
    print(
        f"{folder}: {format_count(len(documents), 'document')} with labels in "
        f"{format_count(groups, 'group')}, {format_count(waiting, 'document')} in review, "
        f"{len(made.dropped)} dropped; see {folder / REPORT}"
    )
    if gone := decisions.keys() - {document.digest for document in made.documents}:
        print(f"{folder}: {format_count(len(gone), 'decision')} about documents that are not in it")
    return groups, waiting


def _manual_split(documents: Sequence[VotedDocument]) -> list[Document] | None:
    """Return the manual split if it is on this machine, empty if it is what was labelled."""
    path = locate("manual")
    if not path:
        return None
    manual = read_split("manual", path)
    contexts = {document.context for document in manual}
    is_manual = all(document.given and document.context in contexts for document in documents)
    return [] if is_manual else manual
