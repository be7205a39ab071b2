"""Cues: wording, and other evidence, for and against a quantity being an answer's bottom line.

`cues.toml` beside this module holds them and explains how their weights combine.
"""

import functools
import re
from typing import NamedTuple

from pragworld_tasks.files import read_package_toml
from pragworld_tasks.quantities.patterns import compile_wording

_FILE = read_package_toml(__package__, "cues.toml")


class Cue(NamedTuple):
    """Wording near a quantity that speaks for or against it.

    Attributes:
        name: Name of the cue. Of several cues with one name only the strongest counts.
        where: Name of the attribute of `context.Context` that is searched.
        weight: Weight of the cue, negative if it speaks against the quantity.
        pattern: The wording.
    """

    name: str
    where: str
    weight: float
    pattern: re.Pattern[str]


CUES = tuple(
    Cue(cue["name"], where, weight, compile_wording(cue))
    for cue in _FILE["cues"]
    for where, weight in cue["weight"].items()
)
WEIGHTS: dict[str, float] = _FILE["weights"]  # of evidence other than wording


@functools.cache
def evidence(group: str) -> tuple[str, ...]:
    """Return the names of the evidence in a group of `cues.toml`."""
    return tuple(_FILE["evidence"][group])
