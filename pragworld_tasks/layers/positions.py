"""Settings of positions: a part of the prompt by its name, or a span of tokens.

A setting `positions` is a string: `all`; `dialogue`, `question` or `last`, a part of the prompt; or
a span `start:stop`, which means what a Python slice of the prompt's tokens does. For a pair of an
original and an altered variant, it may also be `altered`, the tokens that differ, or `utterance`,
the rest of the utterances that hold a difference.
"""

import re
from collections.abc import Sequence

PARTS = ("all", "dialogue", "question", "last")
PARTS_OF_PAIRS = (*PARTS, "altered", "utterance")

_SPAN = re.compile("(-?[0-9]{1,9})?:(-?[0-9]{1,9})?")


def positions_problem(positions: object, parts: Sequence[str] = PARTS) -> str | None:
    """Return what is wrong with a setting of positions, as the end of an error; None if nothing.

    Args:
        positions: The setting.
        parts: The names that it may be, `PARTS` or `PARTS_OF_PAIRS`.

    Examples:
        >>> positions_problem("dialog")
        'must be all, dialogue, question, last, or a span of tokens such as 3:8 or -5:'
    """
    if isinstance(positions, str) and (positions in parts or _SPAN.fullmatch(positions)):
        return None
    return f"must be {', '.join(parts)}, or a span of tokens such as 3:8 or -5:"


def describe_positions(positions: str) -> str:
    """Return what reports call the patched positions of pairs.

    Examples:
        >>> describe_positions("dialogue")
        'aligned positions of the dialogue'
    """
    if ":" in positions:
        return f"aligned positions {positions}"
    return {
        "all": "all aligned positions",
        "last": "the last position",
        "altered": "the altered tokens",
        "utterance": "the rest of the altered utterances",
    }.get(positions, f"aligned positions of the {positions}")
