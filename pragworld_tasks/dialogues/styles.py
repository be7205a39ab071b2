"""How people talk in each domain: the phrases that sentences are built from."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pragworld_tasks.dialogues.vocabulary import Domain
from pragworld_tasks.files import read_package_toml


@dataclass(frozen=True)
class Style:
    """The phrases that people use in one domain.

    Attributes:
        verbs: Verbs for putting something somewhere, in the base form and in the past tense.
        went: Verbs for going somewhere, in the past tense.
        containers: What things may be in.
        where: Questions that ask for the place of `{things}`. `{are}` and `{they}` agree with it.
        where_next: Further ones, after another question of this form.
        where_again: The same for things that were just mentioned: `{things}` is a pronoun.
        is_plain: Whether people write like those of the released dialogues about things and places:
            in lower case, without full stops and question marks.
    """

    verbs: Sequence[tuple[str, str]]
    went: Sequence[str]
    containers: Sequence[str]
    where: Sequence[str]
    where_next: Sequence[str]
    where_again: Sequence[str]
    is_plain: bool = False

    def written(self, text: str) -> str:
        """Return a text, which starts in lower case unless with a name, as people write it."""
        return text.rstrip(".?") if self.is_plain else text[0].upper() + text[1:]


@cache
def domain_style(domain: Domain) -> Style:
    """Return the phrases of a domain, from `styles.toml`."""
    entries: dict[str, Any] = read_package_toml(__package__, "styles.toml")[domain]
    return Style(**entries)
