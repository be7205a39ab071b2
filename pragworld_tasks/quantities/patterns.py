"""Regular expressions and vocabularies of English, read from `wording.toml` beside this module."""

import functools
import re

from pragworld_tasks.files import read_package_toml

_REFERENCE = re.compile(r"\{([a-z]\w*)\}")


@functools.cache
def pattern(name: str) -> re.Pattern[str]:
    """Compile the entry of `wording.toml` that has a name."""
    return re.compile(source(name))


def source(name: str) -> str:
    """Return the regular expression of an entry of `wording.toml`, as a part of others."""
    entry: str = read_package_toml(__package__, "wording.toml")[name]
    if name.endswith("_words"):
        return f"(?:{'|'.join(entry.split())})"
    return _REFERENCE.sub(lambda match: source(match[1]), entry.replace("\n", ""))


def words(name: str) -> list[str]:
    """Return the words of an entry of `wording.toml`, in order."""
    entry: str = read_package_toml(__package__, "wording.toml")[name]
    return entry.split()
