"""Draw the picture of the leaderboard that the README and the documentation show.

    python scripts/leaderboard_figure.py

It needs the released files (PRAGWORLD_DATA) and Playwright with a Chromium.
"""

import argparse
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from pragworld_tasks.cli import main as pragworld_tasks

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "leaderboard.png"
WIDTH, HEIGHT = 1200, 905  # pixels: the ceiling and the five best models


def main() -> None:
    """Write the demonstration board, sort it by robust accuracy, and take a picture of its top."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--browser", default="/usr/bin/chromium", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=FIGURE, help="default: %(default)s")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pragworld_tasks(["board", "--demo", "--out", f"{folder}/board"])
        browser = playwright.chromium.launch(
            executable_path=options.browser,
            args=["--no-sandbox"],  # containers have no other user
        )
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        page.goto(f"file://{folder}/board/index.html")
        page.get_by_role("button", name="Robust accuracy", exact=True).first.click()
        page.mouse.move(0, 0)  # off the heading, which is underlined below the mouse
        page.screenshot(path=options.out)
        browser.close()
    Image.open(options.out).quantize(64).save(options.out, optimize=True)  # a third of the size


if __name__ == "__main__":
    main()
