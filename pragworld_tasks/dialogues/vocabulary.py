"""The vocabulary of the generated dialogues: people, things and places, from `vocabulary.toml`."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Literal, NamedTuple, get_args

from pragworld_tasks.files import read_package_toml

Domain = Literal["household", "shop", "clinic", "everyday", "conversation"]
VocabularyPart = Literal["regular", "held out"]
NounNumber = Literal["plural", "singular", "mass"]


class Names(NamedTuple):
    """People, things and places.

    Attributes:
        agents: People's names.
        things: What people put somewhere: nouns in the plural or the singular, or mass nouns.
        places: Rooms and other places that things are "in". In the domain "everyday", the things
            are events, and the places are the times that they are at.
    """

    agents: tuple[str, ...]
    things: tuple[str, ...]
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """The two speakers of a dialogue.

    Attributes:
        labels: The speaker labels of the utterances. The first speaker asks, the second replies.
        names: How a question refers to the two speakers.
    """

    labels: tuple[str, str]
    names: tuple[str, str]


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
_EVENTS = frozenset(chain(*(nouns["singular"] for nouns in _NOUNS["everyday"].values())))
_TIMES = frozenset(chain(*(nouns["places"] for nouns in _NOUNS["everyday"].values())))
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


# Prompt 1 says that the conversation is "between Bob and Alice", so all of them are. Alice asks, as
# in the released dialogues.
CASTS = (
    Cast(("Alice", "Bob"), ("Alice", "Bob")),
    Cast(("Alice", "Bob"), ("the woman", "the man")),
)


def is_event(thing: str) -> bool:
    """Return whether a noun names an event."""
    return thing in _EVENTS


def is_time(place: str) -> bool:
    """Return whether a name of the slot for places names a time."""
    return place in _TIMES


def singular(thing: str) -> str:
    """Return the singular of a noun in the plural."""
    return _SINGULARS.get(thing, thing.removesuffix("s"))
