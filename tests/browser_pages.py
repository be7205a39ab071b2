"""Pages in a real browser: at the end nothing on them has failed, or was asked of the network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]

# Names and texts that try to be more than text.
HOSTILE = (
    'no\n<img src="http://example.invalid/x.png" onerror="document.title=1">',
    "no\n</script><script>document.title = 'broken out'</script><!-- <script>",
    'no\n<a href="javascript:document.title=2">me</a>',
    "no\n\u202edlrow\u2066 \u2028.",
)
HOSTILE_NAME = "<marquee onclick=alert(1)>moves</marquee></script><!--" + 60 * "wide"

# Describing what a page does right takes axe longer than finding what it does wrong.
_VIOLATIONS = {"preload": False, "resultTypes": ["violations"]}


@contextmanager
def open_browser() -> Iterator[Any]:
    """Yield an installed Chromium, or skip the test without one."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("needs chromium or google-chrome")
    with playwright.sync_playwright() as session:
        browser = session.chromium.launch(executable_path=chromium, args=_ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def watched_page(browser: Any, width: int, scheme: str, address: str) -> Iterator[Any]:
    """Yield a page of a width and a color scheme, none of whose requests may leave an address."""
    page = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    requests: list[str] = []
    failures: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda message: failures.append(message.text))
    page.on("dialog", lambda dialog: failures.append(dialog.message))
    yield page
    page.close()
    assert not failures
    assert {url for url in requests if not url.startswith(("data:", "blob:", address))} == set()


def fits(page: Any) -> bool:
    """Return whether the page does not scroll to the side."""
    width = page.evaluate("document.documentElement.scrollWidth")
    return bool(width == page.viewport_size["width"])


def accessibility_problems(page: Any) -> list[tuple[str, str, str]]:
    """Return what axe says is wrong: how grave, which rule, and the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    return [
        (violation["impact"], violation["id"], violation["nodes"][0]["html"])
        for violation in axe.run(page, options=_VIOLATIONS).response["violations"]
    ]
