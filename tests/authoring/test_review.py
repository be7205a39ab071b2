"""Review: the page in a real browser, the decisions of its reviewers, and the labels they make."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from browser_pages import (
    HOSTILE,
    HOSTILE_NAME,
    accessibility_problems,
    fits,
    open_browser,
    watched_page,
)
from hypothesis import given
from hypothesis import strategies as st

from pragworld_tasks.authoring.labels import (
    DECISIONS,
    REJECTED,
    Decision,
    DecisionFile,
    Verdict,
    label_documents,
    read_decisions,
)
from pragworld_tasks.authoring.pipeline import AuthoredDocuments
from pragworld_tasks.authoring.results import write_results, write_votes
from pragworld_tasks.authoring.stages import Dropped, Vote, VoteAnswer, VotedDocument
from pragworld_tasks.cli import main
from pragworld_tasks.data.own_documents import read_documents

_ORIGINAL = "Ann: Where are the pears?\nBen: All of the pears are in the hall.\nAnn: Thank you."
_ALTERED = _ORIGINAL.replace("All", "None")
_HOSTILE_TEXT = f"Ann: {HOSTILE[0]} {HOSTILE[1]}\nBen: {HOSTILE_NAME}"


def _votes(
    *answers: VoteAnswer | None, quote: str = "the pears are in the hall", problem: str = ""
) -> tuple[Vote, ...]:
    return tuple(
        Vote(
            model=f"panel-{member}",
            answer=answer,
            quote=quote,
            problem="" if answer else problem or "it quotes nothing",
        )
        for member, answer in enumerate(answers)
    )


def _documents() -> list[VotedDocument]:
    """Return three conversations with a variant each; the last one's texts are hostile.

    The second one's variant has a question of its own.
    """
    all_in, none_in = "Are all of the pears in the hall?", "Are none of the pears in the hall?"
    hostile = _votes("yes", "no", None, quote=HOSTILE[2], problem=HOSTILE[0])
    rows: list[tuple[str, str, str, tuple[Vote, ...]]] = [
        ("Quantifier Change", _ORIGINAL, all_in, _votes("yes", "yes", "yes")),
        ("Quantifier Change", _ALTERED, all_in, _votes("yes", "no", "no")),
        ("Quantifier Change", f"{_ORIGINAL}\nBen: Yes.", all_in, _votes("yes", "yes", "yes")),
        ("Quantifier Change", f"{_ALTERED}\nBen: Yes.", none_in, _votes("yes", "no", None)),
        (HOSTILE_NAME, _HOSTILE_TEXT, HOSTILE[1], hostile),
        (HOSTILE_NAME, _HOSTILE_TEXT.replace("Ben", "Eve"), HOSTILE[1], hostile),
    ]
    return [
        VotedDocument(
            conversation=row // 2,
            variant=row % 2,
            alteration=alteration if row % 2 else None,
            context=context,
            question=question,
            given="no" if row == 1 else None,
            votes=votes,
        )
        for row, (alteration, context, question, votes) in enumerate(rows)
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as `author` leaves it, as far as review needs it."""
    folder = tmp_path / "mine"
    folder.mkdir()
    _write_run(folder, _documents())
    return folder


def _write_run(folder: Path, documents: list[VotedDocument]) -> None:
    hostile = [*HOSTILE, "[link](https://example.org)"]
    dropped = [Dropped(stage="question", number=0, reason=text, text="") for text in hostile]
    made = AuthoredDocuments(documents, dropped)
    write_votes(folder, made)
    write_results(folder, made, {})


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


def _read(path: Path) -> DecisionFile:
    return DecisionFile.model_validate_json(path.read_text())


def _progress(page: Any) -> str:
    text: str = page.locator("[data-progress]").inner_text()
    return text


def _status(page: Any) -> str:
    text: str = page.locator("[data-status]").inner_text()
    return text


@_ON_PHONE_AND_DESK
def test_the_audit_is_on_the_page(page: Any) -> None:
    report = page.locator("details.report")
    report.locator("summary").press("Enter")
    assert report.locator("h2").first.inner_text() == "Audit"
    assert "[link](https://example.org)" in report.inner_text()
    assert report.locator("a, img, script").count() == 0
    assert fits(page)


@_ON_PHONE_AND_DESK
def test_documents_are_reviewed_by_keyboard_alone(page: Any, folder: Path) -> None:
    _sign(page, "Ann B.")
    assert _place(page) == (0, 1)
    assert fits(page)
    assert _progress(page) == "document 1 of 4, 0 decided"
    _type(page, "n", "f")
    assert _place(page) == (1, 1)
    _type(page, "y", "z")
    assert _place(page) == (1, 1)
    assert _progress(page) == "document 2 of 4, 1 decided"
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
    assert _status(page).endswith(f"pragworld-tasks review FOLDER --apply {path.name}")
    assert fits(page)
    decided = _read(path)
    assert decided.reviewer == "Ann B."
    assert {
        (decision.conversation, decision.variant): (decision.decision, decision.note)
        for decision in decided.decisions
    } == {
        (0, 1): ("no", ""),
        (1, 1): ("undetermined", "nobody says yes"),
        (2, 0): ("yes", ""),
        (2, 1): ("reject", ""),
    }
    main(["review", str(folder), "--apply", str(path)])
    assert [
        (document.context, document.answer, document.basis)
        for document in read_documents(folder / "documents.jsonl")
    ] == [
        (_documents()[0].context, "yes", "entailed"),
        (_documents()[1].context, "no", "excluded"),
        (_documents()[2].context, "yes", "entailed"),
        (_documents()[3].context, "no", "undetermined"),
    ]


def test_the_panel_is_hidden_until_the_reviewer_decides(page: Any) -> None:
    _sign(page, "Ann")
    panel = page.locator("article:visible .panel")
    assert not panel.is_visible()
    _type(page, "a")  # there is nothing yet to accept
    assert not panel.is_visible()
    assert _status(page).startswith("The panel's proposal is hidden")
    _type(page, "y")
    shown = panel.inner_text()
    for text in ("1 say yes, 2 no", "Given label", "panel-2", "in the hall"):
        assert text in shown
    _type(page, "z")
    assert not panel.is_visible()
    _type(page, "b")
    assert panel.is_visible()
    _type(page, "a")
    assert page.locator("[aria-pressed=true]").get_attribute("data-action") == "no"
    _type(page, "j", "a")
    assert _status(page) == "The panel proposes nothing: its votes have no majority."


def test_decisions_outlive_the_page_and_are_kept_by_name(page: Any) -> None:
    _sign(page, "Ann")
    _type(page, "y", "j", "m")
    page.keyboard.type("look again")
    _reload(page)
    assert page.locator("[name=reviewer]").input_value() == "Ann"
    assert _place(page) == (1, 1)
    assert page.locator("[name=note]").input_value() == "look again"
    for name, decided in (("Ann", 1), ("Ben", 0), ("Ann", 1)):
        page.locator("[name=reviewer]").fill(name)
        page.keyboard.press("Enter")
        page.locator("[name=reviewer]").press("Enter")
        assert _progress(page) == f"document 2 of 4, {decided} decided"


def test_a_name_is_asked_for_where_it_is_missing(page: Any, folder: Path) -> None:
    _type(page, "Enter")
    assert _status(page).startswith("Write your name first")
    for key in ("y", "r", "s"):
        _type(page, "Escape")
        assert _place(page) == (0, 1)
        page.locator("[data-status]").evaluate("status => { status.textContent = ''; }")
        _type(page, key)
        assert _status(page).startswith("Write your name first")
        assert page.locator("[name=reviewer]").input_value() == ""
    _sign(page, "Ann")
    _type(page, "n")
    (decision,) = _read(_saved(page, folder)).decisions
    assert decision.decision == "no"


def test_notes_without_a_name_wait_for_it(page: Any, folder: Path) -> None:
    def write_note(text: str) -> None:
        _type(page, "Escape", "m")
        page.keyboard.press("End")
        page.keyboard.type(text)
        _type(page, "Escape")

    note, name = page.locator("[name=note]"), page.locator("[name=reviewer]")
    write_note("odd")
    assert "your name" in _status(page)
    _type(page, "j")
    assert note.input_value() == ""
    _type(page, "k")
    _reload(page)
    for reviewer, text in (("", "odd"), ("Ann", "odd"), ("Ben", ""), ("", "")):
        name.fill(reviewer)
        name.press("Enter")
        assert note.input_value() == text
    write_note("no, fine")
    name.fill("Ann")
    name.press("Enter")
    _type(page, "y")
    (decision,) = _read(_saved(page, folder)).decisions
    assert (decision.decision, decision.note) == ("yes", "odd\nno, fine")


def test_a_page_with_nothing_to_review_says_so(page: Any, folder: Path, tmp_path: Path) -> None:
    assert not page.get_by_text("Nothing to review").is_visible()
    decisions = _file("Ann", dict.fromkeys(_PLACES, "no"))
    main(["review", str(folder), "--apply", str(_write(tmp_path / "ann.json", decisions))])
    _reload(page)
    assert page.get_by_text("Nothing to review").is_visible()
    assert not page.get_by_label("Show").is_visible()
    assert _progress(page) == "document 1 of 6, 0 decided"


def test_every_action_has_a_button_and_keys_can_be_turned_off(page: Any) -> None:
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Yes", exact=True).click()
    page.get_by_role("button", name="Next", exact=True).click()
    page.get_by_label("Single keys").uncheck()
    _type(page, "y")
    assert _progress(page) == "document 2 of 4, 1 decided"
    page.get_by_label("Show").select_option(label="all documents (6)")
    assert _progress(page) == "document 2 of 6, 1 decided"
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
    def write_page(documents: list[VotedDocument]) -> None:
        _write_run(folder, documents)
        _reload(page)

    documents = _documents()
    write_page(documents[:4])
    _sign(page, "Ann")
    _type(page, "y", "j", "n")
    assert _progress(page) == "document 2 of 2, 2 decided"
    write_page(documents)
    assert _progress(page) == "document 2 of 4, 2 decided"
    documents[3] = documents[3].model_copy(update={"context": "Ann: Hi.\nBen: Hi."})
    write_page(documents)
    assert _progress(page) == "document 2 of 4, 1 decided"
    (decision,) = _read(_saved(page, folder)).decisions
    assert (decision.conversation, decision.variant, decision.decision) == (0, 1, "yes")


@_ON_PHONE_AND_DESK
def test_nothing_on_the_page_is_inaccessible(page: Any) -> None:
    _sign(page, "Ann")
    _type(page, "y")
    assert not accessibility_problems(page)
    _type(page, "?")
    assert not accessibility_problems(page)


# Decisions ----------------------------------------------------------------------------------------

_DIGESTS = {(document.conversation, document.variant): document.digest for document in _documents()}
_PLACES = [
    (document.conversation, document.variant)
    for document in _documents()
    if label_documents([document], {})[0].label.is_in_review
]


def _file(reviewer: str, verdicts: Mapping[tuple[int, int], str]) -> dict[str, Any]:
    decisions = [
        {
            "conversation": place[0],
            "variant": place[1],
            "digest": _DIGESTS.get(place, ""),
            "decision": verdict,
            "note": "",
        }
        for place, verdict in verdicts.items()
    ]
    return {"version": 1, "reviewer": reviewer, "decisions": decisions}


def _write(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@given(st.sampled_from(get_args(Verdict)))
def test_a_decision_makes_the_label(verdict: Verdict) -> None:
    for document in _documents():
        decision = Decision(
            conversation=0, variant=0, digest=document.digest, decision=verdict, reviewer="Ann"
        )
        ((_, label),) = label_documents([document], {document.digest: decision})
        assert (
            label
            == {
                "yes": ("yes", "entailed", "", "Ann"),
                "no": ("no", "excluded", "", "Ann"),
                "undetermined": ("no", "undetermined", "", "Ann"),
                "reject": (None, None, REJECTED, "Ann"),
            }[verdict]
        )
        assert not label.is_in_review


def test_the_last_decision_about_a_document_counts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ann = _write(tmp_path / "ann.json", _file("Ann", {(0, 1): "yes", (1, 1): "reject"}))
    ben = _write(tmp_path / "ben.json", _file(" Ben  B. ", {(0, 1): "no", (2, 0): "yes"}))
    main(["review", str(folder), "--apply", str(ann), str(ben)])
    assert "1 document in review" in capsys.readouterr().out
    decisions = read_decisions(folder)
    assert {(each.conversation, each.variant): each.reviewer for each in decisions.values()} == {
        (0, 1): "Ben B.",
        (1, 1): "Ann",
        (2, 0): "Ben B.",
    }
    assert decisions[_DIGESTS[0, 1]].decision == "no"
    before = (folder / DECISIONS).read_bytes()
    main(["review", str(folder), "--apply", str(ben)])
    assert (folder / DECISIONS).read_bytes() == before
    main(["review", str(folder), "--apply", str(ann)])
    assert read_decisions(folder)[_DIGESTS[0, 1]].decision == "yes"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    main(["review", str(folder)])  # makes the same files of the same votes and decisions
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    report = (folder / "report.md").read_text()
    assert "1 were rejected in review. Reviewers decided about 3." in report
