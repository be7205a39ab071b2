"""Regular expressions and vocabularies of English, read from `wording.toml` beside this module."""

import functools
import re
from collections.abc import Mapping

from pragworld_tasks.files import read_package_toml

# What stands around the wording of each form in its pattern.
_HEDGE = "about|around|roughly|approximately|up to|at least|an?|some|the|only|just|perhaps|[~≈]"
_FRAMES = {
    "words": ("", ""),
    "any_of": (r"(?<!\w)(?:", r")(?!\w)"),
    "starts_with": (r"^\W*(?:", r")(?!\w)"),
    "ends_with": (r"(?<!\w)(?:", rf")\W{{0,3}}(?:(?:{_HEDGE})\W{{0,3}}){{0,2}}$"),
    "pattern": ("", ""),
}
_REFERENCE = re.compile(r"\{([a-z]\w*)\}")


def ignoring_case(text: str) -> re.Pattern[str]:
    """Compile a pattern that ignores letter case."""
    return re.compile(text, re.IGNORECASE)


@functools.cache
def pattern(name: str) -> re.Pattern[str]:
    """Compile the entry of `wording.toml` that has a name."""
    return compile_wording(_wording(name))


@functools.cache
def vocabulary(name: str) -> frozenset[str]:
    """Return the words of the entry of `wording.toml` that has a name."""
    return frozenset(ordered_words(name))


def ordered_words(name: str) -> list[str]:
    """Return the words of the entry of `wording.toml` that has a name, in order."""
    return _wording(name)["words"].split()


def compile_wording(entry: Mapping[str, str]) -> re.Pattern[str]:
    """Compile wording in one of the forms that `wording.toml` explains."""
    before, after = next(frame for form, frame in _FRAMES.items() if form in entry)
    return ignoring_case(before + source(entry) + after)


def source(entry: str | Mapping[str, str]) -> str:
    """Return the pattern of some wording, or of the entry of that name, as a part of others."""
    if isinstance(entry, str):
        entry = _wording(entry)
    if "pattern" in entry:
        text = entry["pattern"].replace("\n", "")
    elif "words" in entry:
        text = f"(?:{'|'.join(entry['words'].split())})"
    else:
        table = next(entry[form] for form in _FRAMES if form in entry)
        text = "|".join(re.split(r"\n| \| ", table.strip()))
    return _REFERENCE.sub(lambda match: source(match[1]), text)


def _wording(name: str) -> Mapping[str, str]:
    entry: Mapping[str, str] = read_package_toml(__package__, "wording.toml")[name]
    return entry
