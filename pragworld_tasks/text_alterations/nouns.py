"""What names and nouns stand for, as `nouns.toml` lists them: genders, classes and stand-ins."""

import functools
import pkgutil
import re
from collections import Counter
from importlib import import_module

from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text_alterations.inflection import is_plural, number_forms
from pragworld_tasks.text_alterations.tokens import EntityKind

_NOUNS = read_package_toml(__package__, "nouns.toml")
GENDERS = ("female", "male")


@functools.cache
def _listed(section: str, name: str) -> frozenset[str]:
    return frozenset(_NOUNS[section][name].split())


# Agents -------------------------------------------------------------------------------------------


def is_title(word: str) -> bool:
    """Return whether a word may stand before a name, as "Mrs" does."""
    return word.lower() in _listed("names", "titles")


def sort_of_agent(agent: str) -> str:
    """Return what an agent is: "name", "full name", "title", "relative", "group" or "noun"."""
    words = agent.replace(".", " ").split()
    if len(words) > 1 and is_title(words[0]):
        return "title"
    if agent[0].isupper() and (len(words) == 1 or not roles(agent)):
        return "relative" if roles(agent) else "name" if len(words) == 1 else "full name"
    return "group" if is_plural(words[-1]) else "noun"


def roles(agent: str) -> set[str]:
    """Return the kinds of role that the last word of an agent tells: family, work or neither."""
    head = number_forms(agent.split()[-1])[0].lower()
    return {name for name in ("family", "work") if head in _listed("roles", name)}


def usual_gender(agent: str) -> str | None:
    """Return "female" or "male" if a title, a role or a first name tells, or None."""
    words = agent.lower().replace(".", " ").split()
    for gender in GENDERS:
        is_titled = len(words) > 1 and words[0] in _listed("names", f"{gender}_titles")
        if is_titled or words[-1] in _listed("roles", gender):
            return gender
    return _genders().get(words[0]) if agent[0].isupper() else None


def is_first_name(word: str) -> bool:
    """Return whether a word is a first name that is nearly always a woman's, or a man's."""
    return word[:1].isupper() and word.lower() in _genders()


@functools.cache
def _genders() -> dict[str, str]:
    """Return the genders of first names in lower case, by our lists and Faker's (0.1 s).

    Faker's tell a gender if five times as many of them agree on it as do not.
    """
    from faker.providers import person

    counts: dict[str, Counter[str]] = {gender: Counter() for gender in GENDERS}
    for module in pkgutil.iter_modules(person.__path__):
        provider = import_module(f"{person.__name__}.{module.name}").Provider
        for gender in GENDERS:
            for prefix in ("", "romanized_"):
                names = getattr(provider, f"first_{prefix}names_{gender}", ())
                counts[gender].update({name.lower() for name in names})
    genders = dict[str, str]()
    for gender, other in (GENDERS, GENDERS[::-1]):
        told = {name for name, count in counts[gender].items() if count > 5 * counts[other][name]}
        genders |= dict.fromkeys(told | _listed("names", gender), gender)
    return {name: genders[name] for name in genders if name not in _listed("names", "either")}


# Objects and locations ----------------------------------------------------------------------------


@functools.cache
def noun_classes(kind: EntityKind, entity: str) -> frozenset[str]:
    """Return the classes of a noun, those of its last word if the whole is unknown.

    Examples:
        >>> noun_classes("objects", "sweet potatoes")
        frozenset({'produce'})
    """
    for noun in (entity, number_forms(entity)[0], head_noun(entity)):
        word = noun.lower().replace(" ", "")
        if classes := {name for name in _NOUNS[kind] if word in _listed(kind, name)}:
            return frozenset(classes)
    is_room = kind == "locations" and head_noun(entity) == "room" and not entity.isalpha()
    return frozenset({"rooms"} if is_room else ())


def head_noun(entity: str) -> str:
    """Return the last word of a noun in the singular: "room" of "TV_room"."""
    return re.split(r"[\s_-]", number_forms(entity)[0].lower())[-1]


def is_usually_mass(entity: str) -> bool:
    """Return whether a noun is not counted, or rarely: "rice", "corn"."""
    return head_noun(entity) in _listed("mass", "nouns")


def replacements(name: str) -> list[str]:
    """Return the words that may replace names of a gender or nouns of a class, if there are any."""
    words: str = _NOUNS["replacements"].get(name, "")
    return words.split()
