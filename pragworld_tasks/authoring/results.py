"""The files that people read and use: documents, audit, report and review page."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pragworld_tasks.authoring.audit import audit_records, local_manual_split
from pragworld_tasks.authoring.audit_report import audit_markdown
from pragworld_tasks.authoring.decisions import REVIEWS, Review, current_reviews, reviewed_labels
from pragworld_tasks.authoring.folder import RUN_FILE, RunState, StageRecords, stage_files
from pragworld_tasks.authoring.outputs import write_document_files
from pragworld_tasks.authoring.review import PAGE, REPORT, page_of
from pragworld_tasks.data.documents import Document
from pragworld_tasks.files import write_files


def write_results(
    folder: Path, panel_records: StageRecords, reviews: Sequence[Review], run: RunState
) -> StageRecords:
    """Write all files of a folder but the journals, and return the records as they are written.

    Args:
        folder: the folder.
        panel_records: the records, with the panel's labels.
        reviews: what reviewers have decided.
        run: the run, which counts as finished once these files are there.

    Raises:
        InputError: A file cannot be written.
    """
    reviews = current_reviews(panel_records, reviews)
    labels = reviewed_labels(panel_records.labels, reviews)
    records = replace(panel_records, labels=tuple(labels))
    audit = audit_records(records, _foreign_documents(records), run.goal["agree"])
    report = audit_markdown(audit)
    contents = {
        **stage_files(records),
        "audit.json": (audit.model_dump_json(indent=2) + "\n").encode(),
        REPORT: report.encode(),
        PAGE: page_of(folder, records, reviews, report).encode(),
        **({REVIEWS: _lines(reviews)} if reviews or (folder / REVIEWS).exists() else {}),
        RUN_FILE: (run.model_dump_json(indent=2) + "\n").encode(),
    }
    # Files of two runs side by side would otherwise pass for one, if this is killed.
    (folder / RUN_FILE).unlink(missing_ok=True)
    write_document_files(records, folder)
    write_files({folder / name: content for name, content in contents.items()}, overwrite=True)
    return records


def _foreign_documents(records: StageRecords) -> Sequence[Document] | None:
    """Return the manual split, to look for overlap with it; nothing if it is what was labelled."""
    manual = local_manual_split()
    contexts = {document.context for document in manual or ()}
    is_manual = all(label.given for label in records.labels) and all(
        conversation.context in contexts for conversation in records.conversations
    )
    return () if manual and is_manual else manual


def _lines(reviews: Sequence[Review]) -> bytes:
    return "".join(review.model_dump_json() + "\n" for review in reviews).encode()
