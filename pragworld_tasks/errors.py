"""What a user's mistake raises, or is warned of, in one line."""

import difflib
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

# Below lm-eval's own logger, whose format and verbosity it shares.
logger = logging.getLogger("lm_eval.pragworld")
# Low enough for `num_groups`, high enough for every argument of lm-eval's models to pass.
_SIMILARITY = 0.75


class InputError(ValueError):
    """Something the user gave is wrong: a file, a setting, an option.

    Its message is one line: what is wrong and where (file, row, task, model), what is required,
    and what to do. The commands print it and exit with status 2; so do the functions that lm-eval
    calls (`pragworld_tasks.harness`).
    """


def first_problem(error: "ValidationError") -> str:
    """Return the first problem that pydantic found, as in `metrics.acc: Field required`."""
    problem = error.errors(include_url=False)[0]
    place = ".".join(map(str, problem["loc"]))
    # What a validator of ours raises needs no "Value error, " before it.
    message = problem["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def warn_of_misspelt(metadata: Mapping[str, Any], settings: Collection[str]) -> None:
    """Warn, once in a process, of each key that is no setting but spelt almost like one.

    lm-eval passes all of `--metadata` and `--model_args` to every task, so unknown keys cannot be
    refused.
    """
    for key in metadata:
        similar = difflib.get_close_matches(key.lower(), settings, n=1, cutoff=_SIMILARITY)
        if similar and key not in settings:
            from lm_eval.utils import warning_once

            warning_once(
                logger,
                f"--metadata: {key!r} is not a setting and has no effect; did you mean "
                f"{similar[0]!r}?",
            )
