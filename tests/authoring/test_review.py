"""Review: the page in a real browser, the decisions of its reviewers, and the labels they make."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_pages import HOSTILE, HOSTILE_NAME, accessibility_problems, fits, watched_page

from pragworld_tasks.authoring.labels import Decision, DecisionFile, read_decisions
from pragworld_tasks.authoring.pipeline import AuthoredDocuments
from pragworld_tasks.authoring.records import Dropped, Vote, VoteAnswer, VotedDocument
from pragworld_tasks.authoring.results import write_results, write_votes
from pragworld_tasks.cli import main
from pragworld_tasks.data.document_files import read_documents

_ORIGINAL = "Ann: Where are the pears?\nBen: All of the pears are in the hall.\nAnn: Thank you."
_ALTERED = _ORIGINAL.replace("All", "None")
_HOSTILE_TEXT = f"Ann: {HOSTILE[0]} {HOSTILE[1]}\nBen: {HOSTILE_NAME}"


def _documents() -> list[VotedDocument]:
    """Return three conversations with a variant each; the last one's texts are hostile.

    The second one's variant has a question of its own.
    """
    said, none_said = (f"Are {amount} of the pears in the hall?" for amount in ("all", "none"))
    rows: list[tuple[str, str, list[VoteAnswer | None]]] = [
        (_ORIGINAL, said, ["yes", "yes", "yes"]),
        (_ALTERED, said, ["yes", "no", "no"]),
        (f"{_ORIGINAL}\nBen: Yes.", said, ["yes", "yes", "yes"]),
        (f"{_ALTERED}\nBen: Yes.", none_said, ["yes", "no", None]),
        (_HOSTILE_TEXT, HOSTILE[1], ["yes", "no", None]),
        (_HOSTILE_TEXT.replace("Ben", "Eve"), HOSTILE[1], ["yes", "no", None]),
    ]
    return [
        VotedDocument(
            conversation=row // 2,
            variant=row % 2,
            alteration=(HOSTILE_NAME if row == 5 else "Quantifier Change") if row % 2 else None,
            context=context,
            question=question,
            given="no" if row == 1 else None,
            votes=tuple(
                Vote(
                    model=f"panel-{member}",
                    answer=answer,
                    quote=HOSTILE[2] if row > 3 else "the pears are in the hall",
                    problem="" if answer else HOSTILE[0],
                )
                for member, answer in enumerate(answers)
            ),
        )
        for row, (context, question, answers) in enumerate(rows)
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


def _decided(path: Path) -> dict[tuple[int, int], Decision]:
    saved = DecisionFile.model_validate_json(path.read_text())
    return {(decision.conversation, decision.variant): decision for decision in saved.decisions}


def _shown(page: Any, name: str) -> str:
    text: str = page.locator(f"[data-{name}]").inner_text()
    return text


@_ON_PHONE_AND_DESK
def test_documents_are_reviewed_by_keyboard_alone(page: Any, folder: Path) -> None:
    _sign(page, "Ann B.")
    assert _place(page) == (0, 1)
    assert fits(page)
    assert _shown(page, "progress") == "document 1 of 4, 0 decided"
    _type(page, "n", "f")
    assert _place(page) == (1, 1)
    _type(page, "y", "z")
    assert _place(page) == (1, 1)
    assert _shown(page, "progress") == "document 2 of 4, 1 decided"
    _type(page, "u", "m")
    page.keyboard.type("nobody says yes")
    question = page.locator("article:visible .question")
    assert question.locator("del").all_inner_texts() == ["all"]
    assert question.locator("ins").all_inner_texts() == ["none"]
    _type(page, "Escape", "d")
    _reload(page)  # the setting is kept
    assert question.locator(".line").inner_text() == "Are none of the pears in the hall?"
    assert page.locator("del:visible").count() == 0
    _type(page, "d", "j")
    assert page.locator("del:visible").count() == 0
    assert _place(page) == (2, 0)
    _type(page, "y", "ArrowRight", "r", "k", "ArrowLeft", "f")
    assert _place(page) == (1, 1)  # all are decided
    path = _saved(page, folder)
    assert path.name == "decisions-Ann-B.json"
    assert _shown(page, "status").endswith(f"pragworld-tasks review FOLDER --apply {path.name}")
    assert fits(page)
    decided = _decided(path)
    assert {place: (decision.decision, decision.note) for place, decision in decided.items()} == {
        (0, 1): ("no", ""),
        (1, 1): ("undetermined", "nobody says yes"),
        (2, 0): ("yes", ""),
        (2, 1): ("reject", ""),
    }
    assert not page.get_by_text("Nothing to review").is_visible()
    main(["review", str(folder), "--apply", str(path)])
    written = read_documents(folder / "documents.jsonl")
    assert [document.context for document in written] == [each.context for each in _documents()[:4]]
    assert [(document.answer, document.basis) for document in written] == [
        ("yes", "entailed"),
        ("no", "excluded"),
        ("yes", "entailed"),
        ("no", "undetermined"),
    ]
    _reload(page)
    assert page.get_by_text("Nothing to review").is_visible()


def test_the_panel_is_hidden_until_the_reviewer_decides(page: Any) -> None:
    _sign(page, "Ann")
    panel = page.locator("article:visible .panel")
    assert not panel.is_visible()
    _type(page, "a")  # there is nothing yet to accept
    assert not panel.is_visible()
    assert _shown(page, "status").startswith("The panel's proposal is hidden")
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
    assert _shown(page, "status") == "The panel proposes nothing: its votes have no majority."


def test_a_name_is_asked_for_and_decisions_and_notes_are_kept_by_name(
    page: Any, folder: Path
) -> None:
    note, name = page.locator("[name=note]"), page.locator("[name=reviewer]")
    for key in ("y", "r", "s"):
        _type(page, "Escape")
        assert _place(page) == (0, 1)
        _type(page, key)
        assert _shown(page, "status").startswith("Write your name first")
        page.locator("[data-status]").evaluate("status => { status.textContent = ''; }")
    _type(page, "Escape", "m")
    page.keyboard.type("odd")
    _reload(page)  # the note waits for a name
    name.focus()
    _sign(page, "Ann")
    _type(page, "y", "j", "m")
    page.keyboard.type("look again")
    _reload(page)
    assert _place(page) == (1, 1)
    for reviewer, decided in (("Ann", 1), ("Ben", 0), ("Ann", 1)):
        name.fill(reviewer)
        name.press("Enter")
        assert note.input_value() == ("look again" if decided else "")
        assert _shown(page, "progress") == f"document 2 of 4, {decided} decided"
    (decision,) = _decided(_saved(page, folder)).values()
    assert (decision.decision, decision.note) == ("yes", "odd")


def test_buttons_work_without_keys_and_on_all_documents(page: Any) -> None:
    _sign(page, "Ann")
    page.get_by_label("Single keys").uncheck()
    page.locator("[name=show]").select_option(label="all documents (6)")
    for name in ("Yes", "Next", "Undetermined", "Undo", "Reject", "Previous", "Next undecided"):
        page.get_by_role("button", name=name, exact=True).click()
    _type(page, "y")
    assert _shown(page, "progress") == "document 3 of 6, 2 decided"
    page.get_by_label("Advance after a decision").check()
    for decided in ("document 4 of 6, 3 decided", "document 5 of 6, 4 decided"):
        page.get_by_role("button", name="Yes", exact=True).click()
        assert _shown(page, "progress") == decided
        assert _shown(page, "status") == "Decided: yes. This is the next document."
    with page.expect_download():
        page.get_by_role("button", name="Save").click()


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
    report = page.locator("details.report")
    report.locator("summary").press("Enter")
    assert "[link](https://example.org)" in report.inner_text()
    assert report.locator("a, img, script").count() == 0
    assert page.title() == "Review of mine · PragWorld"


def test_decisions_outlive_more_documents_but_not_other_texts(page: Any, folder: Path) -> None:
    def write_page(documents: list[VotedDocument]) -> None:
        _write_run(folder, documents)
        _reload(page)

    documents = _documents()
    write_page(documents[:4])
    _sign(page, "Ann")
    _type(page, "y", "j", "n")
    assert _shown(page, "progress") == "document 2 of 2, 2 decided"
    write_page(documents)
    assert _shown(page, "progress") == "document 2 of 4, 2 decided"
    documents[3] = documents[3].model_copy(update={"context": "Ann: Hi.\nBen: Hi."})
    write_page(documents)
    assert _shown(page, "progress") == "document 2 of 4, 1 decided"
    (decided,) = _decided(_saved(page, folder)).items()
    assert (decided[0], decided[1].decision) == ((0, 1), "yes")


@_ON_PHONE_AND_DESK
def test_nothing_on_the_page_is_inaccessible(page: Any) -> None:
    page.locator("details.report summary").press("Enter")
    assert fits(page)
    page.locator("[name=reviewer]").focus()
    _sign(page, "Ann")
    _type(page, "y")
    assert not accessibility_problems(page)
    _type(page, "?")
    assert page.get_by_role("dialog").is_visible()
    assert not accessibility_problems(page)


def test_the_last_decision_about_a_document_counts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digests = [document.digest for document in _documents()]

    def apply(reviewer: str, **rows: int) -> dict[int, tuple[str, str]]:
        decisions = [
            {"conversation": 0, "variant": 0, "digest": digests[row], "decision": verdict}
            for verdict, row in rows.items()
        ]
        path = tmp_path / "decisions.json"
        path.write_text(json.dumps({"version": 1, "reviewer": reviewer, "decisions": decisions}))
        main(["review", str(folder), "--apply", str(path)])
        made = read_decisions(folder).values()
        return {digests.index(each.digest): (each.decision, each.reviewer) for each in made}

    apply("Ann", yes=1, reject=3)
    of_both = {3: ("reject", "Ann"), 4: ("undetermined", "Ben B.")}
    assert apply(" Ben  B. ", no=1, undetermined=4) == {1: ("no", "Ben B."), **of_both}
    assert apply("Ann", yes=1) == {1: ("yes", "Ann"), **of_both}
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    main(["review", str(folder)])  # makes the same files of the same votes and decisions
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files
    assert "1 were rejected in review. Reviewers decided about 3." in files["report.md"].decode()
    _write_run(folder, _documents()[:2])  # `author` wrote others in the place of the rest
    main(["review", str(folder)])
    assert "2 decisions about documents that are not in it" in capsys.readouterr().out
