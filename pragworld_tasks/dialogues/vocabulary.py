"""The words of the generated dialogues: people, things and places, and phrases of each domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

from pragworld_tasks.files import read_package_toml

Domain = Literal["household", "shop", "clinic", "conversation"]
VocabularyPart = Literal["regular", "held out"]
NounNumber = Literal["plural", "singular", "mass"]


class Names(NamedTuple):
    """People, things and places."""

    agents: tuple[str, ...]  # people's names
    things: tuple[str, ...]  # nouns in the plural or the singular, or mass nouns
    places: tuple[str, ...]  # that things are "in"


_FILE = read_package_toml(__package__, "vocabulary.toml")
_PEOPLE: Mapping[str, Mapping[str, list[str]]] = _FILE["people"]
_NOUNS: Mapping[Domain, Mapping[VocabularyPart, Mapping[str, list[str]]]] = _FILE["nouns"]
COLORS: list[str] = _FILE["colors"]
_SINGULARS: Mapping[str, str] = _FILE["singulars"]
WOMEN = frozenset(chain(*(people["women"] for people in _PEOPLE.values())))
_NUMBERS: dict[str, NounNumber] = {
    thing: number
    for parts in _NOUNS.values()
    for nouns in parts.values()
    for number in get_args(NounNumber)
    for thing in nouns.get(number, ())
}
DOMAINS: tuple[Domain, ...] = tuple(_NOUNS)  # those that dialogues are composed for


@cache
def domain_vocabulary(domain: Domain, part: VocabularyPart) -> Names:
    """Return the regular vocabulary of a domain, or the one that is held out for a test split.

    >>> domain_vocabulary("shop", "held out").places
    ('shed', 'courtyard', 'vault', 'kiosk', 'side passage')
    """
    nouns = _NOUNS[domain][part]
    people = _PEOPLE["household" if (domain, part) == ("household", "regular") else part]
    return Names(
        agents=(*people["women"], *people["men"]),
        things=tuple(chain(*(nouns.get(number, ()) for number in get_args(NounNumber)))),
        places=tuple(nouns["places"]),
    )


def number_of(thing: str) -> NounNumber:
    """Return whether a noun is in the plural or the singular, or a mass noun.

    >>> number_of("pears"), number_of("ladder"), number_of("glue")
    ('plural', 'singular', 'mass')
    """
    return _NUMBERS[thing]


def singular(thing: str) -> str:
    """Return the singular of a noun in the plural."""
    return _SINGULARS.get(thing, thing.removesuffix("s"))


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
