"""Settings of a task in lm-eval's `--metadata`, and what to say of a misspelt one."""

import difflib
from collections.abc import Collection, Mapping
from typing import Any

from pragworld_tasks.log import logger

# Low enough for `num_groups`, high enough for every argument of lm-eval's models to pass.
_SIMILARITY = 0.75


def warn_of_misspelt(metadata: Mapping[str, Any], settings: Collection[str]) -> None:
    """Warn, once in a process, of each key that is no setting but spelt almost like one.

    lm-eval passes all of `--metadata` and `--model_args` to every task, so unknown keys cannot be
    refused.

    Args:
        metadata: What lm-eval passes.
        settings: Names of the task's settings.
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
