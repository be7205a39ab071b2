"""The leaderboard's pages in a real browser, from a folder, as a user opens them."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from board_sites import HOSTILE, HOSTILE_NAME, small_board, write_board

from pragworld_tasks.formatting import format_points
from pragworld_tasks.leaderboard.boards import Board

_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@pytest.fixture(scope="module")
def board() -> Board:
    return small_board()


@pytest.fixture(scope="module")
def site(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_board(board, tmp_path_factory.mktemp("board") / "site")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("needs chromium or google-chrome")
    with playwright.sync_playwright() as session:
        browser = session.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page(browser: Any, site: Path) -> Iterator[Any]:
    """A page of the site; at the end nothing has failed, and no request has left its folder."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.set_default_timeout(5000)
    requests: list[str] = []
    failures: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text))
    page.on("dialog", lambda dialog: failures.append(dialog.message))
    yield page
    assert not failures
    assert {url for url in requests if not url.startswith(("data:", site.as_uri()))} == set()


def _names(page: Any) -> list[str]:
    names: list[str] = page.locator("tbody[data-run]:visible th bdi").all_inner_texts()
    return names


def test_the_leaderboard_sorts_filters_and_opens_rows(page: Any, site: Path, board: Board) -> None:
    page.goto((site / "index.html").as_uri())
    best_first = [run.name for run in board.runs]
    assert _names(page) == best_first
    heading = page.locator("th[data-key=acc]")
    heading.locator("button").press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    by_accuracy = sorted(board.runs, key=lambda run: -run.report.metrics["acc"].percent)
    assert _names(page) == [run.name for run in by_accuracy]
    heading.locator("button").press("Space")
    assert heading.get_attribute("aria-sort") == "ascending"
    assert _names(page) == [run.name for run in reversed(by_accuracy)]
    assert page.locator("th[aria-sort]").count() == 1

    page.get_by_label("Filter runs").fill("MIDD")
    assert _names(page) == ["middling"]
    assert page.locator("[data-count]").inner_text() == "1 of 4 runs"
    opener = page.locator("tbody:visible .opens")
    opener.press("Enter")
    assert opener.get_attribute("aria-expanded") == "true"
    assert "Everything about middling" in page.locator("tr.detail:visible").inner_text()

    assert not page.locator("th[data-key=flip_acc]").is_visible()
    page.get_by_text("Columns", exact=True).click()
    page.get_by_label("Answer flips").check()
    assert page.locator("th[data-key=flip_acc]").is_visible()
    # On a phone only the table scrolls, not the page.
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_two_runs_are_compared_either_way(page: Any, site: Path, board: Board) -> None:
    page.goto((site / "generated-compare.html").as_uri())
    first, second = (run.report for run in board.runs[:2])
    points = first.metrics["robust_acc"].percent - second.metrics["robust_acc"].percent
    difference = page.locator("[data-differences] tbody tr >> nth=0 >> td >> nth=2")
    assert difference.inner_text() == format_points(points)
    page.get_by_text("Swap").click()
    assert difference.inner_text() == format_points(-points)
    only = board.comparisons[board.runs[0].name, board.runs[1].name].on_groups
    assert only
    assert page.locator("[data-only=second] a").count() == only.only_first > 0
    page.get_by_label("First", exact=True).select_option(label=HOSTILE_NAME)
    assert page.locator("[data-verdict]").inner_text().startswith(HOSTILE_NAME)
    page.locator("[data-only=second] a >> nth=0").click()
    group = page.evaluate("location.hash")
    assert page.locator(f"section{group} h2").is_visible()
    assert page.evaluate("document.activeElement.id") == group.removeprefix("#")


def test_dialogues_are_filtered_and_a_link_shows_its_group(
    page: Any, site: Path, board: Board
) -> None:
    page.goto((site / "generated-dialogues.html").as_uri() + "#group-5")
    assert page.evaluate("document.activeElement.id") == "group-5"
    count = page.locator("[data-count]")
    assert count.inner_text() == f"{len(board.documents)} documents in 8 groups"
    page.get_by_label("Effect on the answer").select_option("flip")
    flips = [document for document in board.documents if document.effect == "flip"]
    assert count.inner_text().startswith(f"{len(flips)} documents")
    page.get_by_label("Effect on the answer").select_option("")
    page.get_by_label("Run", exact=True).select_option(label="middling")
    page.get_by_label("answers", exact=True).select_option("wrong")
    (middling,) = (run.report for run in board.runs if run.name == "middling")
    assert count.inner_text().startswith(f"{int((~middling.run.correct).sum())} documents")
    page.get_by_text("Show all").click()
    page.get_by_label("breaks the group").check()
    breaking = sum(item.breaks_group for item in board.items)
    assert count.inner_text().startswith(f"{breaking} document")


def test_hostile_responses_stay_text(page: Any, site: Path) -> None:
    page.goto((site / "generated-dialogues.html").as_uri())
    page.locator("summary", has_text="Show the answers of").click()
    page.get_by_role("checkbox", name=HOSTILE_NAME).check()
    shown = page.locator(".response").evaluate_all("all => all.map((one) => one.textContent)")
    assert set(HOSTILE) == {text for text in shown if text.startswith("no\n")}
    assert page.locator("main img, main b[onclick], .response *, a[href^=javascript]").count() == 0
    assert page.title() == "Dialogues, generated · PragWorld"
