"""The leaderboard's pages in a real browser, from a folder, as a user opens them."""

from collections.abc import Iterator
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import pytest
from browser_pages import HOSTILE, HOSTILE_NAME, accessibility_problems, fits, watched_page

from pragworld_tasks.evaluation.comparison import compare_scores
from pragworld_tasks.leaderboard.boards import Board
from pragworld_tasks.text import format_interval, format_percent, format_points

# Rows of a table and dialogues look alike: a few are enough to look at.
_KEEP_FEW = """
for (const group of [...document.querySelectorAll(".group")].slice(1)) group.remove();
for (const table of document.querySelectorAll("table")) {
  for (const row of [...table.rows].slice(5)) row.remove();
}
"""
# A table learns its width before the frame after the next.
_WIDE_TABLES_SAY_SO = """
document.querySelectorAll(".scroll").forEach((one) => (one.scrollLeft = 0));
new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))).then(() =>
  [...document.querySelectorAll(".scroll")].filter((one) => one.checkVisibility()).every(
    (one) => one.hasAttribute("data-more") === one.scrollWidth > one.clientWidth
  )
)
"""


@pytest.fixture(
    scope="module",
    params=[("phone", 390, "light"), ("desk", 1280, "dark")],
    ids=lambda param: param[0],
)
def page(browser: Any, site: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page of the site; at the end nothing has failed, and no request has left its folder."""
    _, width, scheme = request.param
    with watched_page(browser, width, scheme, site.as_uri()) as page:
        yield page


def _names(page: Any) -> list[str]:
    names: list[str] = page.locator("tbody[data-run]:visible .opens bdi").all_inner_texts()
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
    assert fits(page)
    assert page.evaluate(_WIDE_TABLES_SAY_SO)


def test_every_two_runs_are_compared_as_by_compare_scores(
    page: Any, site: Path, board: Board
) -> None:
    page.goto((site / "generated-compare.html").as_uri())

    def cells(table: str) -> list[str]:
        texts: list[str] = page.locator(f"[data-{table}] tbody td").all_inner_texts()
        return texts

    for first, second in permutations(board.runs, 2):
        page.get_by_label("First", exact=True).select_option(label=first.name)
        page.get_by_label("Second", exact=True).select_option(label=second.name)
        compared, shown = compare_scores(first.report, second.report), cells("differences")
        differences = compared.figures.values()
        assert [shown[column::5] for column in (0, 1, 3, 4)] == [
            [format_points(difference.points) for difference in differences],
            [format_interval((difference.low, difference.high)) for difference in differences],
            [format_percent(share.percent) for share in first.report.metrics.values()],
            [format_percent(share.percent) for share in second.report.metrics.values()],
        ]
        assert compared.on_groups
        tests = (compared.on_groups, compared.by_group, compared.on_documents)
        rows = [(*map(str, test[:2]), f"{test.p:.3g}") for test in tests]
        assert cells("tests") == [*chain(*rows)]
        verdict = page.locator("[data-verdict]").inner_text()
        assert f"p = {compared.p:.3g}" in verdict
        assert ("not told apart" in verdict) == (compared.p >= 0.05)
        for side, ahead in zip(("first", "second"), compared.on_groups, strict=False):
            assert page.locator(f"[data-only={side}] a").count() == ahead
    box = page.locator("[data-differences] tbody td >> nth=0").bounding_box()
    assert box["x"] + box["width"] < page.viewport_size["width"]
    page.get_by_text("Swap").click()
    points = [format_points(-difference.points) for difference in differences]
    assert cells("differences")[::5] == points
    page.get_by_label("First", exact=True).select_option(label="good")
    page.locator("[data-only=first] a >> nth=0").click()
    group = page.evaluate("location.hash")
    assert page.locator(f"section{group} h2").is_visible()
    assert page.evaluate("document.activeElement.id") == group.removeprefix("#")


def test_dialogues_are_filtered_and_a_link_shows_its_group(
    page: Any, site: Path, board: Board
) -> None:
    page.goto((site / "generated-dialogues.html").as_uri() + "#group-5")
    assert page.evaluate("document.activeElement.id") == "group-5"
    count = page.locator("[data-count]")
    assert count.inner_text() == f"{len(board.report.documents)} documents in 8 groups"
    page.get_by_label("Effect on the answer").select_option("flip")
    flips = [document for document in board.report.documents if document.effect == "flip"]
    assert count.inner_text().startswith(f"{len(flips)} documents")
    page.get_by_label("Effect on the answer").select_option("")
    page.get_by_label("Run", exact=True).select_option(label="middling")
    page.get_by_label("answers", exact=True).select_option("wrong")
    (wrong,) = (~run.report.correct for run in board.runs if run.name == "middling")
    assert count.inner_text().startswith(f"{wrong.sum()} documents")
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
    assert page.locator("main img, marquee, .response *, a[href^=javascript]").count() == 0
    assert page.title() == "Dialogues, generated · PragWorld"


def test_a_hostile_record_stays_text(page: Any, site: Path, board: Board) -> None:
    page.goto((site / board.run_pages[HOSTILE_NAME]).as_uri())
    names, texts = (page.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    facts = dict(zip(names, texts, strict=True))
    for name in ("Model", "Revision", "Adapter", "Data type", "Quantization", "Task", "Date"):
        assert facts[name] == HOSTILE_NAME
    assert facts["System prompt"].startswith(HOSTILE_NAME)
    assert f"a{HOSTILE_NAME}=1{HOSTILE_NAME}" in facts["Generation"]
    assert f"a{HOSTILE_NAME} 1{HOSTILE_NAME}" in facts["Versions"]
    (command,) = page.locator(".command").all_inner_texts()
    assert HOSTILE_NAME in command
    assert page.locator("marquee, main img").count() == 0
    assert page.title() == f"{HOSTILE_NAME}, generated · PragWorld"


def test_layers_and_sensitivity_are_reached_and_drawn(page: Any, site: Path) -> None:
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="Layers").click()
    page.wait_for_url("**/layers.html")
    assert fits(page)
    strip = page.locator("tbody[data-model='clear'] .strip >> nth=0")
    colors = strip.locator(".cell").evaluate_all(
        "all => all.map((cell) => getComputedStyle(cell).backgroundColor)"
    )
    assert len({colors[0], colors[1], colors[3]}) == 3  # neutral, useful, harmful
    page.get_by_role("link", name="Sensitivity").click()
    page.wait_for_url("**/sensitivity.html")
    assert fits(page)
    bars = page.locator("[data-domain=travel] tbody tr >> nth=0 >> rect")
    widths = bars.evaluate_all("all => all.map((r) => Number(r.getAttribute('width')))")
    assert sum(widths[:3]) == pytest.approx(100, abs=0.02)
    assert page.locator("marquee").count() == 0


def test_long_names_cover_nothing_and_widen_no_page(page: Any, site: Path) -> None:
    for path in sorted(site.glob("*.html")):
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        for opener in page.locator(".opens").all():
            opener.click()
        assert fits(page), path.name
        outside = page.locator("tbody th").evaluate_all(
            "all => all.filter((cell) => cell.scrollWidth > cell.clientWidth)"
            ".map((cell) => cell.textContent)"
        )
        assert outside == [], path.name


def test_nothing_on_any_page_is_inaccessible(page: Any, site: Path, board: Board) -> None:
    # A page of each kind; all pages of runs look alike, and so do all documents.
    others = ("index", "generated-compare", "generated-dialogues", "layers", "sensitivity")
    for path in [site / board.run_pages["sure"], *(site / f"{name}.html" for name in others)]:
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        for opener in page.locator(".opens").all()[:2]:
            opener.click()
        page.evaluate(_KEEP_FEW)
        assert not accessibility_problems(page), path.name
