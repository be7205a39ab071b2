"""Regular expressions made from tables of words, which keep long lists of cues readable."""

import re


def alternation(table: str) -> str:
    """Return a pattern of any entry of a table: patterns between bars or on lines of their own."""
    entries = (entry.strip() for line in table.splitlines() for entry in line.split(" | "))
    return "|".join(entry for entry in entries if entry)


def ignoring_case(pattern: str) -> re.Pattern[str]:
    """Compile a pattern that ignores letter case."""
    return re.compile(pattern, re.IGNORECASE)


def any_of(table: str) -> re.Pattern[str]:
    """Compile a pattern that finds any entry of a table as whole words."""
    return ignoring_case(rf"(?<!\w)(?:{alternation(table)})(?!\w)")


def starts_with(table: str) -> re.Pattern[str]:
    """Compile a pattern that finds any entry at the start of a text, after punctuation at most."""
    return ignoring_case(rf"^\W*(?:{alternation(table)})(?!\w)")


def ends_with(table: str) -> re.Pattern[str]:
    """Compile a pattern that finds any entry at the end of a text, before hedges at most."""
    hedge = "about|around|roughly|approximately|up to|at least|an?|some|the|only|just|perhaps|[~≈]"
    return ignoring_case(
        rf"(?<!\w)(?:{alternation(table)})\W{{0,3}}(?:(?:{hedge})\W{{0,3}}){{0,2}}$"
    )


def any_word(words: str) -> str:
    """Return a pattern that matches any of some words, which are separated by blanks."""
    return f"(?:{'|'.join(words.split())})"


def vocabulary(words: str) -> frozenset[str]:
    """Return the set of some words, which are separated by blanks."""
    return frozenset(words.split())
