"""The style of all figures, and how they are written to files.

Compared items differ by color (Okabe and Ito's palette), line style and marker, for print and for
color-blind readers. The same content gives the same file, byte for byte.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: dict[str, dict[str, Any]] = {  # with the metadata that would differ between runs
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_STYLE = Path(__file__).with_name("pragworld.mplstyle")


class Look(NamedTuple):
    """The color, line style and marker of one of several compared items."""

    color: str
    line: Any
    marker: str


LOOKS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (5, 1.5)), "s"),
    Look("#009E73", (0, (6, 1.5, 1, 1.5)), "D"),
    Look("#CC79A7", (0, (2.5, 1)), "P"),
    Look("#E69F00", (0, (8, 1.5, 1, 1.5, 1, 1.5)), "X"),
    Look("#56B4E9", (0, (3, 1.5, 3, 1.5, 1, 1.5)), "p"),
    Look("#000000", (0, (10, 2)), "h"),
)


@contextmanager
def figure_file(path: str | Path | None, width: float, height: float) -> Iterator["Figure"]:
    """Yield a figure, in inches, to draw on, and write it afterwards to a file of `FORMATS`.

    Without a path, it is a figure that a notebook shows.
    """
    file = Path(path) if path else None
    if file and file.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: unsupported figure format; end the name in {', '.join(FORMATS)}")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError("figures need matplotlib: pip install 'pragworld[figures]'") from error

    with rc_context(fname=_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        # Notebooks show the figure by this attribute, without pyplot's list of open windows.
        vars(figure)["_repr_png_"] = partial(_rendered, figure, ".png")
        yield figure
    if file:
        write_whole(file, _rendered(figure, file.suffix.lower()))


def _rendered(figure: "Figure", suffix: str) -> bytes:
    """Return the content of a file that shows a figure."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(fname=_STYLE):
        figure.savefig(content, format=suffix[1:], metadata=FORMATS[suffix])
    return content.getvalue()
