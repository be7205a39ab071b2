"""What a user's mistake raises, or is warned of, in one line."""

import logging
import re
from typing import Annotated

from pydantic import AfterValidator, ValidationError

# Below lm-eval's own logger, whose format and verbosity it shares.
logger = logging.getLogger("lm_eval.pragworld")
# Control characters, line breaks, marks of direction; not the joiners and spaces of some texts.
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """Something the user gave is wrong: a file, a setting, an option.

    Its message is one line: what is wrong and where (file, row, task, model), what is required,
    and what to do. The commands print it and exit with status 2; so do the functions that lm-eval
    calls (`pragworld_tasks.harness`).
    """


def first_problem(error: ValidationError) -> str:
    """Return the first problem that pydantic found, as in `metrics.acc: Field required`."""
    problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    # What a validator of ours raises needs no "Value error, " before it.
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def printable(text: object) -> str:
    r"""Return a text, such as a name that others gave, as one line that no terminal obeys.

    >>> printable("a\x1b[31m\nb")
    'a?[31m b'
    """
    return CONTROLS.sub("?", " ".join(str(text).split()))


Printable = Annotated[str, AfterValidator(printable)]
