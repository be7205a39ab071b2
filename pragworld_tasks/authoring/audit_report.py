"""The audit of an authoring run as a page for people."""

from collections.abc import Iterable, Iterator, Sequence

from pragworld_tasks.authoring.audit import AuthoringAudit
from pragworld_tasks.data.breakdowns import NOT_ALTERED
from pragworld_tasks.text import format_number, markdown_table

LEAST_AGREEMENT = 0.6  # a Fleiss' kappa below this is poor
_SHOWN = 20  # items of a list in the report; the JSON has all


def audit_markdown(audit: AuthoringAudit) -> str:
    """Return an audit for people."""
    return "\n".join(_sections(audit)).rstrip() + "\n"


def audit_findings(audit: AuthoringAudit) -> Iterator[str]:
    """Yield what speaks against the documents, in words."""
    for member in audit.members:
        if member.set_aside:
            yield f"The votes of {member.name} do not count: {member.set_aside}."
        if member.repeats is not None:
            yield (
                f"It seems that {member.name} repeats member {member.repeats + 1}, as it errs "
                "where that one errs. Labels had to hold without it."
            )
    if audit.lost_votes:
        yield f"{audit.lost_votes}."
    if audit.fleiss is not None and audit.fleiss < LEAST_AGREEMENT:
        yield f"The members agree poorly: Fleiss' kappa is {audit.fleiss:.2f}."
    if audit.contradictions:
        yield f"The panel contradicts {len(audit.contradictions)} given labels."
    for check in audit.shortcuts:
        if check.is_shortcut:
            yield (
                f"The words of the {check.texts} alone give {_percent(check.accuracy)} % of the "
                "answers; 50 % would be none (see Shortcuts)."
            )
    if audit.is_uneven:
        yield f"{_percent(audit.yes / audit.labelled)} % of all labels are yes."
    else:
        for count in filter(lambda count: count.is_uneven, audit.classes):
            yield (
                f"{_percent(count.yes / count.labelled)} % of the labels are yes where the "
                f"{count.breakdown} is {count.name}."
            )
    if audit.copies:
        yield f"{len(audit.copies)} documents occur several times."
    if audit.near_copies:
        yield f"{len(audit.near_copies)} pairs of conversations are near copies."
    if audit.overlap:
        yield f"{len(audit.overlap)} conversations overlap with the manual split."


def _sections(audit: AuthoringAudit) -> Iterable[str]:
    yield "# Audit\n"
    left_out = len(audit.left_out)
    yield (
        f"{audit.documents} documents of {audit.conversations} conversations: {audit.labelled} "
        f"with a label ({audit.yes} of them yes), {len(audit.in_review)} in review, "
        f"{audit.rejected} rejected in review. {audit.groups} groups have a label for the "
        "original and for at least one variant. Reviewers decided about "
        f"{audit.reviewed} documents. `documents.jsonl` has {audit.written} documents"
        + (f"; {left_out} more have a label, but are left out (see below)" if left_out else "")
        + ".\n"
    )
    nothing = "nothing that this audit looks for"
    if not audit.labelled:
        nothing = "no document has a label, so there is nothing to judge"
    yield from _list("What speaks against them", [*audit_findings(audit)] or [nothing])
    yield from _list("What this audit cannot tell", audit.untold)
    yield from _balance(audit)
    yield from _panel(audit)
    yield from _list(
        "Given labels that the panel contradicts",
        [
            f"{label.place_text}: given {label.given}, the panel says {label.panel}"
            for label in audit.contradictions
        ],
    )
    yield from _list(
        "In review",
        [f"{document.place_text}: {document.reason}" for document in audit.in_review],
    )
    yield from _list(
        "Labelled, but left out",
        [f"{document.place_text}: {document.reason}" for document in audit.left_out],
    )
    yield from _shortcut_table(audit)
    yield from _list(
        "Copies",
        [
            " = ".join(f"{place.conversation}/{place.variant}" for place in same)
            for same in audit.copies
        ]
        + [
            f"conversation {copy.conversation} shares {_percent(copy.shared)} % of its sequences "
            f"of four words with conversation {copy.other}, or that one with it"
            for copy in audit.near_copies
        ],
    )
    if audit.overlap is not None:
        overlaps = [
            f"conversation {overlap.conversation}: {_percent(overlap.shared)} % of the sequences "
            f"of four words, with row {overlap.row}"
            for overlap in audit.overlap
        ]
        none = ["none: no conversation shares half of its sequences of four words with it"]
        yield from _list("Overlap with the manual split", overlaps or none)
    if audit.dropped:
        yield "## Dropped\n"
        yield markdown_table(
            "What did not pass a check; `dropped.jsonl` has each.",
            ["reason", "stage", "times"],
            [[count.reason, count.stage, str(count.times)] for count in audit.dropped],
        )


def _balance(audit: AuthoringAudit) -> Iterable[str]:
    yield "## Balance and disagreement\n"
    variants = sum(
        count.documents
        for count in audit.classes
        if count.breakdown == "alteration" and count.name != NOT_ALTERED
    )
    for breakdown in ("question type", "alteration", "effect", "length"):
        rows = []
        for count in audit.classes:
            if count.breakdown == breakdown:
                whole = variants if breakdown == "alteration" else audit.documents
                is_part = count.name != NOT_ALTERED
                rows.append(
                    [
                        count.name,
                        str(count.documents),
                        _ratio(count.documents, whole) if is_part else "-",
                        str(count.labelled),
                        _ratio(count.yes, count.labelled),
                        _ratio(count.disputed, count.documents),
                    ]
                )
        if rows:
            share = "% of variants" if breakdown == "alteration" else "% of documents"
            headers = [breakdown, "documents", share, "labels", "% yes", "% members disagree"]
            yield markdown_table(f"By {breakdown}:", headers, rows)


def _panel(audit: AuthoringAudit) -> Iterable[str]:
    if not audit.members:
        return
    yield "## Panel\n"
    rows = [
        [
            f"{member.member + 1}: {member.model}",
            _ratio(member.abstentions, member.documents),
            _share(member.yes),
            _share(member.undetermined),
            _share(member.agreement),
            format_number(member.informedness, ".2f"),
            "no" if member.set_aside else "yes",
        ]
        for member in audit.members
    ]
    headers = ["member", "% abstains", "% yes", "% undetermined", "% agrees", "J", "counts"]
    yield markdown_table(
        "What the members' votes are worth. Agreement and J (Youden's, 1 for a member that always "
        "agrees, 0 for one that does not look) are with most of the others.",
        headers,
        rows,
    )
    if audit.abstentions:
        yield markdown_table(
            "Why members abstained:",
            ["reason", "member", "documents"],
            [
                [count.reason, str(count.member + 1), str(count.times)]
                for count in audit.abstentions
            ],
        )
    if audit.pairs:
        yield markdown_table(
            "Each two members. The last column: documents in which one of them or both differ from "
            "all others, and how often both do.",
            ["members", "documents", "% agree", "Cohen's kappa", "apart, together"],
            [
                [
                    f"{pair.first + 1} and {pair.second + 1}",
                    str(pair.documents),
                    _share(pair.agreement),
                    format_number(pair.kappa, ".2f"),
                    f"{pair.apart}, {pair.apart_together}",
                ]
                for pair in audit.pairs
            ],
        )
    yield f"Fleiss' kappa of the members that count: {format_number(audit.fleiss, '.2f')}.\n"


def _shortcut_table(audit: AuthoringAudit) -> Iterable[str]:
    if not audit.shortcuts:
        return
    yield "## Shortcuts\n"
    yield markdown_table(
        "Answers of a logistic regression on words, cross-validated by group: the mean of the "
        "shares right among the labels yes and among the labels no. There is a shortcut if the "
        "whole interval is above 50, which any answer gets that is always the same.",
        ["words of the", "% right", "95% interval"],
        [
            [
                check.texts,
                _percent(check.accuracy),
                " to ".join(_percent(end) for end in check.interval),
            ]
            for check in audit.shortcuts
        ],
    )


def _list(title: str, items: Sequence[str]) -> Iterable[str]:
    """Yield a section with a list, the first items of it; nothing without items."""
    if not items:
        return
    yield f"## {title}\n"
    yield from (f"- {item}" for item in items[:_SHOWN])
    if len(items) > _SHOWN:
        yield f"- … and {len(items) - _SHOWN} more, in `audit.json`"
    yield ""


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _ratio(part: int, whole: int) -> str:
    return _percent(part / whole) if whole else "-"


def _share(share: float | None) -> str:
    return "-" if share is None else _percent(share)
