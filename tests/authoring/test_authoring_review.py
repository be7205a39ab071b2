"""Review: the page in a real browser, the decisions of its reviewers, and the labels they make."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from board_sites import HOSTILE, HOSTILE_NAME
from browser_pages import accessibility_problems, fits, open_browser, watched_page
from command_runs import refused
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.authoring.decisions import (
    REJECTED,
    REVIEWS,
    Decision,
    DecisionFile,
    Review,
    Verdict,
    add_decisions,
    agreement_text,
    current_reviews,
    decided_label,
    document_digests,
    is_in_review,
    panel_labels,
    proposal,
    read_decisions,
    read_reviews,
    reviewed_labels,
)
from pragworld_tasks.authoring.folder import (
    RUN_FILE,
    RunState,
    StageRecords,
    read_run,
    read_stages,
    stage_files,
)
from pragworld_tasks.authoring.records import (
    GIVEN,
    RULES,
    AuthoredConversation,
    AuthoredQuestion,
    AuthoredVariant,
    EntityLists,
    Label,
    LineChange,
    Origin,
    Vote,
    VoteAnswer,
)
from pragworld_tasks.authoring.results import write_results
from pragworld_tasks.authoring.review import REPORT, mark_quotes
from pragworld_tasks.cli import main
from pragworld_tasks.data.documents import Answer
from pragworld_tasks.data.own_documents import read_documents
from pragworld_tasks.text import diff_lines

_ORIGINAL = "Ann: Where are the pears?\nBen: All of the pears are in the hall.\nAnn: Thank you."
_ALTERED = _ORIGINAL.replace("All", "None")
_HOSTILE_TEXT = f"Ann: {HOSTILE[0]} {HOSTILE[1]}\nBen: {HOSTILE_NAME}"
_VERDICTS: tuple[Verdict, ...] = ("yes", "no", "undetermined", "reject")


def _votes(
    *answers: VoteAnswer | None, quote: str = "the pears are in the hall"
) -> tuple[Vote, ...]:
    return tuple(
        Vote(
            member=member,
            answer=answer,
            quote=quote,
            problem="" if answer else "it quotes nothing",
            origin=Origin(model=f"panel-{member}"),
        )
        for member, answer in enumerate(answers)
    )


def _label(
    conversation: int,
    variant: int,
    votes: Sequence[Vote],
    answer: Answer | None = None,
    given: Answer | None = None,
) -> Label:
    return Label(
        conversation=conversation,
        variant=variant,
        votes=tuple(votes),
        answer=answer,
        basis="entailed" if answer else None,
        given=given,
        reason="" if answer else "the members do not agree",
    )


def _records() -> StageRecords:
    """Return three conversations with a variant each; the last one's texts are hostile.

    The second one's variant has a question of its own.
    """
    texts = [(_ORIGINAL, _ALTERED), (f"{_ORIGINAL}\nBen: Yes.", f"{_ALTERED}\nBen: Yes.")]
    texts.append((_HOSTILE_TEXT, _HOSTILE_TEXT.replace("Ben", "Eve")))
    variants = []
    for number, (original, altered) in enumerate(texts):
        variants += [
            AuthoredVariant(
                conversation=number,
                variant=variant,
                alteration=("Quantifier Change" if number < 2 else HOSTILE_NAME)
                if variant
                else None,
                context=context,
                changes=tuple(
                    LineChange(line=line, old=old, new=new)
                    for line, (old, new) in enumerate(
                        zip(original.split("\n"), context.split("\n"), strict=True)
                    )
                    if old != new
                ),
                origin=RULES if variant else GIVEN,
            )
            for variant, context in enumerate((original, altered))
        ]
    hostile = _votes("yes", "no", quote=HOSTILE[2]) + _votes(None, quote=HOSTILE_NAME)
    return StageRecords(
        entities=(),
        conversations=tuple(
            AuthoredConversation(
                number=number,
                seed=None,
                triplets=(),
                entities=EntityLists(agents=(), objects=("pears",), locations=("hall",)),
                context=original,
                origin=GIVEN,
            )
            for number, (original, _) in enumerate(texts)
        ),
        variants=tuple(variants),
        questions=tuple(
            AuthoredQuestion(
                conversation=number, variant=variant, type="universal", text=text, origin=RULES
            )
            for number, variant, text in (
                (0, None, "Are all of the pears in the hall?"),
                (1, None, "Are all of the pears in the hall?"),
                (1, 1, "Are none of the pears in the hall?"),
                (2, None, HOSTILE[1]),
            )
        ),
        labels=(
            _label(0, 0, _votes("yes", "yes", "yes"), "yes"),
            _label(0, 1, _votes("yes", "no", "undetermined"), given="no"),
            _label(1, 0, _votes("yes", "yes", "yes"), "yes"),
            _label(1, 1, _votes("yes", "no", None)),
            _label(2, 0, hostile, given="yes"),
            _label(2, 1, hostile).model_copy(update={"reason": HOSTILE[0]}),
        ),
        dropped=(),
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `author` leaves it, as far as review needs it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, content in stage_files(_records()).items():
        (folder / name).write_bytes(content)
    run = RunState(settings={}, goal={"agree": None})
    (folder / RUN_FILE).write_text(run.model_dump_json())
    report = ["# Audit", "", *HOSTILE, "[link](https://example.org)", ""]
    report += ["| question type | % yes |", "| :--- | ---: |", "| universal | 50.0 |"]
    (folder / REPORT).write_text("\n".join(report))
    return folder


# The page -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser() as browser:
        yield browser


_LOOKS = {"phone": (390, "light"), "desk": (1280, "dark")}
_ON_PHONE_AND_DESK = pytest.mark.parametrize("page", _LOOKS, indirect=True)


@pytest.fixture
def page(browser: Any, folder: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """The review page of the folder, on a desk unless a test says otherwise."""
    width, scheme = _LOOKS[getattr(request, "param", "desk")]
    main(["author-review", str(folder)])
    with watched_page(browser, width, scheme, folder.as_uri()) as page:
        page.goto((folder / "review.html").as_uri())
        yield page


def _type(page: Any, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def _reload(page: Any) -> None:
    """Reload the page, until a busy browser has stored what the page keeps."""
    stored = "JSON.stringify(Object.entries(localStorage).sort())"
    kept = page.evaluate(stored)
    for _ in range(20):
        page.reload()
        if page.evaluate(stored) == kept:
            break
        page.wait_for_timeout(500)


def _sign(page: Any, name: str) -> None:
    """Write a reviewer's name by keyboard; the page starts in the field of the name."""
    assert page.evaluate("document.activeElement.name") == "reviewer"
    page.keyboard.type(name)
    page.keyboard.press("Enter")


def _place(page: Any) -> tuple[int, int]:
    """Return the document that is shown, and has the focus."""
    (shown,) = page.locator("article:visible").all()
    assert page.evaluate("document.activeElement.id") == shown.get_attribute("id")
    return int(shown.get_attribute("data-conversation")), int(shown.get_attribute("data-variant"))


def _saved(page: Any, folder: Path) -> Path:
    with page.expect_download() as download:
        page.keyboard.press("s")
    path: Path = folder.parent / download.value.suggested_filename
    download.value.save_as(path)
    return path


@_ON_PHONE_AND_DESK
def test_the_audit_is_on_the_page(page: Any, folder: Path) -> None:
    report = page.locator("details.report")
    report.locator("summary").press("Enter")
    assert report.locator("h2").inner_text() == "Audit"
    assert report.locator("td").all_inner_texts() == ["universal", "50.0"]
    assert "[link](https://example.org)" in report.inner_text()
    assert report.locator("a, img, script").count() == 0
    assert fits(page)


@_ON_PHONE_AND_DESK
def test_documents_are_reviewed_by_keyboard_alone(page: Any, folder: Path) -> None:
    _sign(page, "Ann B.")
    assert _place(page) == (0, 1)
    assert fits(page)
    assert page.locator("[data-progress]").inner_text() == "document 1 of 4, 0 decided"
    _type(page, "n", "f")
    assert _place(page) == (1, 1)
    _type(page, "y", "z")
    assert _place(page) == (1, 1)
    assert page.locator("[data-progress]").inner_text() == "document 2 of 4, 1 decided"
    _type(page, "u", "m")
    page.keyboard.type("nobody says yes")
    question = page.locator("article:visible .question")
    assert question.locator("del").all_inner_texts() == ["all"]
    assert question.locator("ins").all_inner_texts() == ["none"]
    _type(page, "Escape", "j")
    assert _place(page) == (2, 0)
    _type(page, "y", "ArrowRight", "r", "k", "ArrowLeft", "f")
    assert _place(page) == (1, 1)  # all are decided
    path = _saved(page, folder)
    assert path.name == "decisions-Ann-B.json"
    command = f"pragworld-tasks author-review FOLDER --apply {path.name}"
    assert page.locator("[data-status]").inner_text().endswith(command)
    assert fits(page)
    decided = read_decisions(path)
    assert decided.reviewer == "Ann B."
    assert {
        decision.place: (decision.decision, decision.note) for decision in decided.decisions
    } == {
        (0, 1): ("no", ""),
        (1, 1): ("undetermined", "nobody says yes"),
        (2, 0): ("yes", ""),
        (2, 1): ("reject", ""),
    }
    main(["author-review", str(folder), "--apply", str(path)])
    assert [
        (document.context, document.answer, document.basis)
        for document in read_documents(folder / "documents.jsonl")
    ] == [
        (_records().variants[0].context, "yes", "entailed"),
        (_records().variants[1].context, "no", "excluded"),
        (_records().variants[2].context, "yes", "entailed"),
        (_records().variants[3].context, "no", "undetermined"),
    ]


def test_the_panel_is_hidden_until_the_reviewer_decides(page: Any) -> None:
    _sign(page, "Ann")
    panel = page.locator("article:visible .panel")
    assert not panel.is_visible()
    _type(page, "a")  # there is nothing yet to accept
    assert not panel.is_visible()
    assert page.locator("[data-status]").inner_text().startswith("The panel's proposal is hidden")
    _type(page, "y")
    shown = panel.inner_text()
    for text in ("the members do not agree", "Given label", "undetermined", "panel-2"):
        assert text in shown
    assert page.locator("article:visible .quoted").all_inner_texts() == [
        "the pears are in the hall"
    ]
    _type(page, "z")
    assert not panel.is_visible()
    _type(page, "b")
    assert panel.is_visible()
    _type(page, "a")
    pressed = page.locator("[aria-pressed=true]")
    assert pressed.get_attribute("data-action") == "no"


def test_decisions_outlive_the_page_and_are_kept_by_name(page: Any) -> None:
    _sign(page, "Ann")
    _type(page, "y", "j", "m")
    page.keyboard.type("look again")
    _reload(page)
    assert page.locator("[name=reviewer]").input_value() == "Ann"
    assert _place(page) == (1, 1)
    assert page.locator("[name=note]").input_value() == "look again"
    assert page.locator("[data-progress]").inner_text() == "document 2 of 4, 1 decided"
    page.locator("[name=reviewer]").fill("Ben")
    page.keyboard.press("Enter")
    assert page.locator("[data-progress]").inner_text() == "document 2 of 4, 0 decided"
    page.locator("[name=reviewer]").fill("Ann")
    page.keyboard.press("Enter")
    assert page.locator("[data-progress]").inner_text() == "document 2 of 4, 1 decided"


def test_a_name_is_asked_for_where_it_is_missing(page: Any, folder: Path) -> None:
    status = page.locator("[data-status]")
    _type(page, "Enter")
    assert status.inner_text().startswith("Write your name first")
    for key in ("y", "r", "s", "Enter"):
        _type(page, "Escape")
        assert _place(page) == (0, 1)
        status.evaluate("status => { status.textContent = ''; }")
        if key == "Enter":
            page.locator("[name=reviewer]").press(key)
        else:
            _type(page, key)
        assert status.inner_text().startswith("Write your name first")
        assert page.locator("[name=reviewer]").input_value() == ""
    _sign(page, "Ann")
    _type(page, "n")
    (decision,) = read_decisions(_saved(page, folder)).decisions
    assert decision.decision == "no"


def test_notes_without_a_name_wait_for_it(page: Any, folder: Path) -> None:
    def write_note(text: str) -> None:
        _type(page, "Escape", "m")
        page.keyboard.press("End")
        page.keyboard.type(text)
        _type(page, "Escape")

    note, name = page.locator("[name=note]"), page.locator("[name=reviewer]")
    write_note("odd")
    assert "your name" in page.locator("[data-status]").inner_text()
    _type(page, "j")
    assert note.input_value() == ""
    _type(page, "k")
    _reload(page)
    assert note.input_value() == "odd"
    name.fill("Ann")
    name.press("Enter")
    assert note.input_value() == "odd"
    name.fill("Ben")  # it is Ann's
    name.press("Enter")
    assert note.input_value() == ""
    name.fill("")
    name.press("Enter")
    write_note("no, fine")
    name.fill("Ann")
    name.press("Enter")
    _type(page, "y")
    (decision,) = read_decisions(_saved(page, folder)).decisions
    assert (decision.decision, decision.note) == ("yes", "odd\nno, fine")


def test_a_page_with_nothing_to_review_says_so(page: Any, folder: Path, tmp_path: Path) -> None:
    assert not page.get_by_text("Nothing to review").is_visible()
    places = [label.place for label in _records().labels if is_in_review(label)]
    decisions = _file("Ann", dict.fromkeys(places, "no"))
    main(["author-review", str(folder), "--apply", str(_write(tmp_path / "ann.json", decisions))])
    _reload(page)
    assert page.get_by_text("Nothing to review").is_visible()
    assert not page.get_by_label("Show").is_visible()
    assert page.locator("[data-progress]").inner_text() == "document 1 of 6, 0 decided"


def test_every_action_has_a_button_and_keys_can_be_turned_off(page: Any) -> None:
    _type(page, "Escape", "y")
    assert "your name" in page.locator("[data-status]").inner_text()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Yes", exact=True).click()
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_label("Single keys").uncheck()
    _type(page, "y")
    assert page.locator("[data-progress]").inner_text() == "document 2 of 4, 1 decided"
    page.get_by_label("Show").select_option(label="all documents (6)")
    assert page.locator("[data-progress]").inner_text() == "document 2 of 6, 1 decided"
    for name in ("Undetermined", "Undo", "Reject", "Previous", "Next undecided"):
        page.get_by_role("button", name=name, exact=True).click()
    with page.expect_download():
        page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Help").click()
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.get_by_role("dialog").is_visible()


def test_hostile_texts_stay_text(page: Any) -> None:
    _sign(page, HOSTILE_NAME)
    _type(page, "b", "j", "j")
    assert _place(page) == (2, 0)
    shown = page.locator("article:visible")
    assert HOSTILE_NAME in shown.locator(".context").text_content()
    assert HOSTILE[1] in shown.locator(".question").text_content()
    assert HOSTILE[2] in shown.locator(".votes").text_content()
    _type(page, "j")
    assert HOSTILE[0] in page.locator("article:visible .panel").text_content()
    assert page.locator("main img, marquee, article a, article script").count() == 0
    assert page.title() == "Review of mine · PragWorld"


def test_decisions_outlive_more_documents_but_not_other_texts(page: Any, folder: Path) -> None:
    def write_page(records: StageRecords) -> None:
        for name, content in stage_files(records).items():
            (folder / name).write_bytes(content)
        main(["author-review", str(folder), "--overwrite"])
        _reload(page)

    records = _records()
    progress = page.locator("[data-progress]")
    write_page(replace(records, labels=records.labels[:4]))
    _sign(page, "Ann")
    _type(page, "y", "j", "n")
    assert progress.inner_text() == "document 2 of 2, 2 decided"
    write_page(records)
    assert progress.inner_text() == "document 2 of 4, 2 decided"
    other = records.variants[3].model_copy(update={"context": "Ann: Hi.\nBen: Hi."})
    write_page(replace(records, variants=(*records.variants[:3], other, *records.variants[4:])))
    assert progress.inner_text() == "document 2 of 4, 1 decided"
    (decision,) = read_decisions(_saved(page, folder)).decisions
    assert (decision.place, decision.decision) == ((0, 1), "yes")


@_ON_PHONE_AND_DESK
def test_nothing_on_the_page_is_inaccessible(page: Any) -> None:
    _sign(page, "Ann")
    _type(page, "y")
    assert not accessibility_problems(page)
    _type(page, "?")
    assert not accessibility_problems(page)


@pytest.mark.parametrize(
    ("quote", "quoted"),
    [
        ("the pears are in the hall", ["the pears are in the hall"]),
        ("BEN: “None of the pears", ["Ben: ", "None", " of the pears"]),
        ("Thank you!\nwhere are the pears", ["Where are the pears", "Thank you"]),
        ("All of the pears", []),  # the alteration removed it
        ("he pears", []),
        ("a+ (b", []),
        ("…", []),
    ],
)
def test_a_quote_is_marked_where_it_occurs(quote: str, quoted: list[str]) -> None:
    lines = diff_lines(_ORIGINAL, _ALTERED)
    marked = mark_quotes(lines, [quote])
    assert [piece.text for line in marked for piece in line if piece.quoted] == quoted
    for before, after in zip(lines, marked, strict=True):
        for change in ("same", "added", "removed"):
            texts = [
                "".join(piece.text for piece in line if piece.change == change)
                for line in (before, after)
            ]
            assert texts[0] == texts[1]


# Decisions ----------------------------------------------------------------------------------------


_DIGESTS = document_digests(_records())


def _file(reviewer: str, decisions: Mapping[tuple[int, int], str]) -> dict[str, Any]:
    return {
        "version": 1,
        "reviewer": reviewer,
        "decisions": [
            {
                "conversation": conversation,
                "variant": variant,
                "digest": _DIGESTS.get((conversation, variant), ""),
                "decision": verdict,
                "note": "",
            }
            for (conversation, variant), verdict in decisions.items()
        ],
    }


_PLACES = [label.place for label in _records().labels]
_FILES = st.dictionaries(
    st.sampled_from(["Ann", "Ben", "Cleo", "Dan"]),
    st.dictionaries(st.sampled_from(_PLACES), st.sampled_from(_VERDICTS)),
    min_size=1,
)


def _parsed(decided: dict[str, dict[tuple[int, int], Verdict]]) -> dict[Path, DecisionFile]:
    return {
        Path(f"{reviewer}.json"): DecisionFile.model_validate_json(
            json.dumps(_file(reviewer, decisions))
        )
        for reviewer, decisions in decided.items()
    }


@given(st.lists(st.sampled_from(_VERDICTS), min_size=1, max_size=6), st.randoms())
def test_more_than_half_of_the_reviewers_decide(verdicts: list[Verdict], random: Any) -> None:
    before = _label(0, 0, _votes("yes", "no"))

    def decide(verdicts: list[Verdict]) -> Label:
        named = enumerate(verdicts)
        return decided_label(
            before,
            {
                f"{name}": Decision(conversation=0, variant=0, digest="", decision=verdict)
                for name, verdict in named
            },
        )

    label = decide(verdicts)
    half = len(verdicts) / 2
    yes, no, undetermined, rejected = (verdicts.count(verdict) for verdict in _VERDICTS)
    if yes > half:
        assert (label.answer, label.basis, label.reason) == ("yes", "entailed", "")
    elif no + undetermined > half:
        assert (label.answer, label.reason) == ("no", "")
        bases = {True: "excluded", False: "undetermined"}
        assert label.basis == (None if no == undetermined else bases[no > undetermined])
    else:
        assert (label.answer, label.basis) == (None, None)
        assert is_in_review(label) == (rejected <= half)
        assert (label.reason == REJECTED) == (rejected > half)
    assert label.votes == before.votes
    assert len(label.reviewers) == len(verdicts)
    random.shuffle(verdicts)
    assert decide(verdicts) == label


@given(_FILES, _FILES, st.randoms())
def test_labels_do_not_depend_on_when_files_are_applied(
    first: dict[str, dict[tuple[int, int], Verdict]],
    second: dict[str, dict[tuple[int, int], Verdict]],
    random: Any,
) -> None:
    panel = _records().labels
    files = list(_parsed(first).items())
    together = add_decisions(_records(), [], dict(files))
    random.shuffle(files)
    reviews: list[Review] = []
    for file in files:
        labels = reviewed_labels(panel, reviews)
        assert panel_labels(labels, reviews) == list(panel)
        reviews = add_decisions(_records(), reviews, dict([file]))
    assert reviews == together == add_decisions(_records(), together, dict(files))
    # Later decisions replace the same reviewer's earlier ones, and no others.
    later = add_decisions(_records(), reviews, _parsed(second))
    expected = {
        (reviewer, place): second.get(reviewer, {}).get(place) or first[reviewer][place]
        for reviewer in first
        for place in first[reviewer]
    } | {
        (reviewer, place): verdict
        for reviewer in second
        for place, verdict in second[reviewer].items()
    }
    assert expected == {
        (reviewer, review.place): decision.decision
        for review in later
        for reviewer, decision in review.decisions.items()
    }


def test_a_review_of_another_text_does_not_count_but_votes_may_change() -> None:
    records = _records()
    reviews = add_decisions(records, [], _parsed({"Ann": {(0, 0): "no", (0, 1): "yes"}}))
    other = records.variants[0].model_copy(update={"context": _ALTERED})
    voted_anew = records.labels[1].model_copy(update={"votes": _votes("no", "no", "no")})
    anew = replace(
        records,
        variants=(other, *records.variants[1:]),
        labels=(records.labels[0], voted_anew, *records.labels[2:]),
    )
    (review,) = current_reviews(anew, reviews)
    assert (review.panel, review.decisions) == (voted_anew, reviews[1].decisions)
    labels = reviewed_labels(anew.labels, [review])
    assert labels[0] == records.labels[0]
    assert (labels[1].answer, labels[1].reviewers) == ("yes", ("Ann",))


def test_a_review_of_another_text_leaves_the_history_though_it_is_the_only_one(
    folder: Path, tmp_path: Path
) -> None:
    path = _write(tmp_path / "ann.json", _file("Ann", {(0, 1): "no"}))
    main(["author-review", str(folder), "--apply", str(path)])
    records = _records()
    other = records.variants[1].model_copy(update={"context": _ORIGINAL.replace("All", "Some")})
    records = replace(records, variants=(records.variants[0], other, *records.variants[2:]))
    write_results(folder, records, read_reviews(folder), read_run(folder))
    assert read_reviews(folder) == []
    main(["author-review", str(folder), "--apply", str(_write(path, _file("Ann", {})))])


@pytest.mark.parametrize(
    ("votes", "expected"),
    [
        (("yes", "yes", "no"), "yes"),
        (("yes", "no"), None),
        ((None, "no", "no", "undetermined"), "no"),
        (("undetermined", "undetermined", "no"), "undetermined"),
        (("undetermined", "no"), "no"),
        ((None, None), None),
    ],
)
def test_the_panel_proposes_what_most_votes_say(
    votes: tuple[VoteAnswer | None, ...], expected: Verdict | None
) -> None:
    assert proposal(_label(0, 0, _votes(*votes))) == expected


@given(
    st.integers(2, 4).flatmap(
        lambda reviewers: st.lists(
            st.lists(st.sampled_from(_VERDICTS), min_size=reviewers, max_size=reviewers),
            min_size=2,
            max_size=6,
        )
    )
)
def test_agreement_of_reviewers_is_a_kappa(rows: list[list[Verdict]]) -> None:
    decided: dict[str, dict[tuple[int, int], Verdict]] = {
        name: {place: row[number] for place, row in zip(_PLACES, rows, strict=False)}
        for number, name in zip(range(len(rows[0])), ("Ann", "Ben", "Cleo", "Dan"), strict=False)
    }
    text = agreement_text(add_decisions(_records(), [], _parsed(decided)))
    merged = [["no" if verdict == "undetermined" else verdict for verdict in row] for row in rows]
    name, compute = ("Cohen", _cohen) if len(rows[0]) == 2 else ("Fleiss", _fleiss)
    assert text.startswith(name)
    shown = re.search(
        rf" on {len(rows)} documents: (.+); (.+) with undetermined apart from no$", text
    )
    assert shown
    for figure, expected in zip(shown.groups(), (compute(merged), compute(rows)), strict=True):
        kappa = None if figure == "not defined" else float(figure)
        assert kappa == (None if expected is None else pytest.approx(expected, abs=0.005 + 1e-9))


def test_a_kappa_names_only_those_whose_decisions_enter_it() -> None:
    def text_of(decided: dict[str, dict[tuple[int, int], Verdict]]) -> str:
        return agreement_text(add_decisions(_records(), [], _parsed(decided)))

    both: dict[tuple[int, int], Verdict] = {(0, 0): "yes", (0, 1): "no"}
    text = text_of({"Ann": both, "Ben": both, "Cleo": {(1, 0): "yes"}})
    assert text.startswith("Cohen's kappa of Ann, Ben on 2 documents: 1.00;")
    assert not text_of({"Ann": both, "Cleo": {(1, 0): "yes"}})


def _cohen(rows: Sequence[Sequence[str]]) -> float | None:
    from sklearn.metrics import cohen_kappa_score

    if len({verdict for row in rows for verdict in row}) == 1:
        return None
    return float(cohen_kappa_score(*zip(*rows, strict=True)))


def _fleiss(rows: Sequence[Sequence[str]]) -> float | None:
    """Return the kappa as agreement of random pairs of ratings beyond that of pooled ratings."""
    pooled = [verdict for row in rows for verdict in row]
    if len(set(pooled)) == 1:
        return None
    pairs = [first == second for row in rows for first, second in combinations(row, 2)]
    agreed = sum(pairs) / len(pairs)
    chance = sum((pooled.count(verdict) / len(pooled)) ** 2 for verdict in set(pooled))
    return (agreed - chance) / (1 - chance)


# The command --------------------------------------------------------------------------------------


def _write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_several_reviewers_are_merged_and_more_can_follow(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = _write(tmp_path / "ann.json", _file("Ann", {(0, 1): "no", (1, 1): "yes", (2, 0): "yes"}))
    ben = _write(tmp_path / "ben.json", _file("Ben", {(0, 1): "no", (1, 1): "no", (2, 0): "yes"}))
    main(["author-review", str(folder), "--apply", str(ann), str(ben)])
    printed = capsys.readouterr().out
    assert (
        "conversation 0, variant 1: in review: the members do not agree -> no (excluded)" in printed
    )
    assert "Cohen's kappa of Ann, Ben on 3 documents: 0.40" in printed
    labels = {label.place: label for label in read_stages(folder).labels}
    assert labels[0, 1].reviewers == ("Ann", "Ben")
    assert labels[1, 1].reason == "the reviewers disagree (1 yes, 1 no)"
    assert {label.place for label in labels.values() if is_in_review(label)} == {
        (1, 1),
        (2, 1),
    }

    cleo = _write(tmp_path / "cleo.json", _file("Cleo", {(1, 1): "no", (2, 1): "reject"}))
    main(["author-review", str(folder), "--apply", str(cleo)])
    printed = capsys.readouterr().out
    assert "-> rejected in review" in printed
    assert "Fleiss' kappa of Ann, Ben, Cleo on 3 documents" in printed
    assert not any(map(is_in_review, read_stages(folder).labels))
    assert all(digest in (folder / "review.html").read_text() for digest in _DIGESTS.values())
    assert {tuple(review.decisions) for review in read_reviews(folder)} == {
        ("Ann", "Ben"),
        ("Ann", "Ben", "Cleo"),
        ("Cleo",),
    }
    (folder / REVIEWS).write_text("{}\n")
    with refused(r"reviews\.jsonl, row 0 \(line 1\): 'panel': .*; remove the line"):
        main(["author-review", str(folder), "--apply", str(cleo)])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": 2}, r"version is 2: input should be 1; save it again from review\.html"),
        ({"reviewer": " "}, r"reviewer is ' ': "),
        ({"decisions": [{"conversation": 0}]}, r"decisions\[0\]\.variant: field required; "),
        (_file("Ann", {(0, 1): "maybe"}), r"decisions\[0\]\.decision is 'maybe': input should be"),
        (
            _file("Ann", {(0, 1): "no", (0, 9): "no"}),
            r"decisions\[1\] \(conversation 0, variant 9\) decide about other documents than",
        ),
        (
            {"decisions": _file("Ann", {(0, 1): "no"})["decisions"] * 2},
            r"decisions\[1\]: about the",
        ),
    ],
)
def test_files_of_decisions_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, content: dict[str, object], message: str
) -> None:
    good = _write(tmp_path / "good.json", _file("Ben", {(0, 1): "no"}))
    wrong = _write(tmp_path / "wrong.json", {**_file("Ann", {}), **content})
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with refused(rf"^{wrong}[:,] ?.*{message}"):
        main(["author-review", str(folder), "--apply", str(good), str(wrong)])
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_two_files_of_one_reviewer_are_refused(folder: Path, tmp_path: Path) -> None:
    paths = [
        str(_write(tmp_path / name, _file("Ann", {(0, 1): "no"}))) for name in ("a.json", "b.json")
    ]
    with refused(r"b\.json: by 'Ann', as is .*a\.json; apply the older one first"):
        main(["author-review", str(folder), "--apply", *paths])
    (tmp_path / "a.json").write_text("{")
    for path in (paths[0], str(folder / "labels.jsonl")):
        with refused("json.?: not a decisions file, or cut off; pass what review.html saved"):
            main(["author-review", str(folder), "--apply", path])


@pytest.mark.parametrize("is_reviewed", [False, True])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(
    "change",
    [
        {"answer": "no", "basis": "excluded", "reason": ""},
        {"basis": "undetermined"},
        {"reason": "rejected in review"},
    ],
)
def test_a_label_that_was_edited_is_refused(
    folder: Path, tmp_path: Path, is_reviewed: bool, number: int, change: dict[str, str]
) -> None:
    """The first one has votes for yes, the second one has none that settle it."""
    ann = _write(tmp_path / "ann.json", _file("Ann", {(0, 0): "yes", (0, 1): "yes"}))
    if is_reviewed:
        main(["author-review", str(folder), "--apply", str(ann)])
    path = folder / "labels.jsonl"
    labels = [json.loads(line) for line in path.read_text().splitlines()]
    labels[number].update(change)
    path.write_text("".join(json.dumps(label) + "\n" for label in labels))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with refused(rf"{path}: the label of conversation 0, variant {number} was edited: it is not"):
        main(["author-review", str(folder), "--apply", str(ann)])
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("votes", [0, 2])
def test_a_label_without_all_votes_is_refused(folder: Path, tmp_path: Path, votes: int) -> None:
    path = folder / "labels.jsonl"
    labels = [json.loads(line) for line in path.read_text().splitlines()]
    labels[0]["votes"] = labels[0]["votes"][:votes]
    path.write_text("".join(json.dumps(label) + "\n" for label in labels))
    ann = _write(tmp_path / "ann.json", _file("Ann", {(0, 1): "yes"}))
    with refused(f"{path}: the label of conversation 0, variant 0 was edited: it is not"):
        main(["author-review", str(folder), "--apply", str(ann)])


def test_a_file_without_decisions_is_said_to_be_one(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _write(tmp_path / "ann.json", _file("Ann", {}))
    main(["author-review", str(folder), "--apply", str(path)])
    none, applied = capsys.readouterr().out.splitlines()
    assert none == f"{path}: no decisions in it"
    assert "0 decisions applied" in applied


def test_a_page_is_replaced_only_when_told_to(folder: Path, tmp_path: Path) -> None:
    with refused(r"no labels\.jsonl in it"):
        main(["author-review", str(tmp_path)])
    main(["author-review", str(folder)])
    main(["author-review", str(folder)])  # it is the same
    (folder / "review.html").write_text("notes of mine")
    with refused(r"review\.html exists; pass --overwrite"):
        main(["author-review", str(folder)])
    main(["author-review", str(folder), "--overwrite"])
    assert "notes of mine" not in (folder / "review.html").read_text()
    (folder / "questions.jsonl").write_text("")
    decisions = _write(tmp_path / "ann.json", _file("Ann", {(0, 1): "no"}))
    for options in (["--overwrite"], ["--apply", str(decisions)]):
        with refused(r"labels\.jsonl: variant 0 of conversation 0 has no text or no question"):
            main(["author-review", str(folder), *options])
