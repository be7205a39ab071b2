"""How figures look, and how they are written.

They are to be read in print and by the colour-blind: what is compared differs by colour (Okabe and
Ito's palette), line style and marker alike. The same content gives the same file, byte for byte.
Nothing here opens a window.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS: dict[str, dict[str, Any]] = {  # and the metadata that would differ from run to run
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "pdf.fonttype": 42,  # text stays text
    "svg.hashsalt": "pragworld",
}


class Look(NamedTuple):
    """By what one of several is told from the others."""

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
def figure_file(path: Path, width: float, height: float) -> Iterator["Figure"]:
    """A figure to draw on, in inches; what was drawn is written to `path` afterwards.

    Raises:
        InputError: no matplotlib, a name that does not end as figures do, or a path that cannot be
            written.
    """
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: a figure's name ends in {', '.join(FORMATS)}")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError("figures need matplotlib: pip install matplotlib") from error

    suffix = path.suffix.lower()
    with rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        content = io.BytesIO()
        figure.savefig(content, format=suffix[1:], metadata=FORMATS[suffix])
    write_whole(path, content.getvalue())
