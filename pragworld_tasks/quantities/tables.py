"""Patterns out of tables of words, so that long lists of cues stay readable."""

import re


def alternatives(table: str) -> str:
    """A pattern of a table's entries, which are patterns between bars and on lines of their own."""
    entries = (entry.strip() for line in table.splitlines() for entry in line.split(" | "))
    return "|".join(entry for entry in entries if entry)


def any_of(table: str) -> re.Pattern[str]:
    """Any entry of a table, as whole words."""
    return re.compile(rf"(?<!\w)(?:{alternatives(table)})(?!\w)", re.IGNORECASE)


def first_of_all(table: str) -> re.Pattern[str]:
    """Any entry of a table where a text begins, after punctuation at most."""
    return re.compile(rf"^\W*(?:{alternatives(table)})(?!\w)", re.IGNORECASE)


def last_of_all(table: str) -> re.Pattern[str]:
    """Any entry of a table where a text ends, before words that only approximate at most."""
    hedge = alternatives(
        "about | around | roughly | approximately | up to | at least | an? | some | the | only"
        " | just | perhaps | [~≈]"
    )
    return re.compile(
        rf"(?<!\w)(?:{alternatives(table)})\W{{0,3}}(?:(?:{hedge})\W{{0,3}}){{0,2}}$",
        re.IGNORECASE,
    )


def vocabulary(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def words(text: str) -> str:
    """A pattern of any of some words."""
    return f"(?:{'|'.join(text.split())})"
