"""How people talk in each domain: the phrases that sentences are built from."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, chain, pairwise
from typing import Any

from pragworld_tasks.dialogues.vocabulary import Domain
from pragworld_tasks.files import read_package_toml

_CHOICE = re.compile(r"{(.*?)}")  # "{two|three}"


@dataclass(frozen=True)
class Style:
    """The phrases that people use in one domain.

    Attributes:
        verbs: Verbs for putting something somewhere, in the base form and in the past tense.
        where: Questions that ask for the place of `{things}`. `{are}` and `{they}` agree with it.
        where_next: Further ones, after another question of this form.
        small_talk: Remarks or questions, each with a reply.
        scenes: Conversations of several such pairs, for `scene_text`.
        openers: What questions may begin with.
        afterthoughts: What replies that are not "I don't know" may end with.
        changes_of_subject: What questions that follow small talk may begin with.
        containers: What things may be in.
        went: Verbs for going somewhere, in the past tense.
        wh: The word that asks for a place.
        article: The article of a place.
        at, put_at: Prepositions for where things are and where people put them.
        there, put_there: Adverbs for the same.
        is_of_times: Whether things are events and places are times.
        is_plain: Whether people write like those of the released dialogues about things and places:
            in lower case, without full stops and question marks, and in their phrases.
    """

    verbs: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    where_next: tuple[str, ...]
    small_talk: tuple[tuple[str, str], ...] = ()
    scenes: tuple[tuple[tuple[str, str], ...], ...] = ()
    openers: tuple[str, ...] = ("",)
    afterthoughts: tuple[str, ...] = ("",)
    changes_of_subject: tuple[str, ...] = ("",)
    containers: tuple[str, ...] = ()
    went: tuple[str, ...] = ("went", "walked")
    wh: str = "where"
    article: str = "the "
    at: str = "in"
    put_at: str = "in"
    there: str = "there"
    put_there: str = "there"
    is_of_times: bool = False
    is_plain: bool = False

    @cached_property
    def chat(self) -> tuple[tuple[str, str], ...]:
        """All small talk and then the pairs of all scenes."""
        return (*self.small_talk, *chain(*self.scenes))

    @cached_property
    def scene_numbers(self) -> list[range]:
        """For each scene, the positions of its pairs in `chat`."""
        bounds = accumulate(map(len, self.scenes), initial=len(self.small_talk))
        return [range(*pair) for pair in pairwise(bounds)]

    def named(self, place: str) -> str:
        """Return the name of a place with its article."""
        return self.article + place

    def where_it_is(self, place: str | None) -> str:
        """Return "in the hall", or "there" for None."""
        return f"{self.at} {self.article}{place}" if place else self.there

    def where_it_was_put(self, place: str | None) -> str:
        """Return "in the hall", or "there" for None, as the goal of putting something."""
        return f"{self.put_at} {self.article}{place}" if place else self.put_there

    def written(self, text: str) -> str:
        """Return a text, which starts in lower case unless with a name, as people write it."""
        return text.rstrip(".?") if self.is_plain else text[0].upper() + text[1:]


@cache
def domain_style(domain: Domain) -> Style:
    """Return the phrases of a domain, from `styles.toml` and `scenes.toml`."""
    entries: dict[str, Any] = {
        name: repeated(entry) if isinstance(entry, list | dict) else entry
        for name, entry in read_package_toml(__package__, "styles.toml")[domain].items()
    }
    texts = read_package_toml(__package__, "scenes.toml").get(domain, ())
    scenes = (text.strip().split("\n") for text in texts)
    pairs = tuple(tuple(zip(lines[::2], lines[1::2], strict=True)) for lines in scenes)
    return Style(**entries, scenes=pairs)


def repeated(entry: Mapping[str, int] | Sequence[Any]) -> tuple[Any, ...]:
    """Return a list of a TOML file: the entries of a table as many times as it says.

    >>> repeated({"soon": 2, "never": 1}), repeated([["put", "put"]])
    (('soon', 'soon', 'never'), (('put', 'put'),))
    """
    if isinstance(entry, Mapping):
        return tuple(chain(*([phrase] * times for phrase, times in entry.items())))
    return tuple(tuple(part) if isinstance(part, list) else part for part in entry)


def scene_text(text: str, choice: int) -> str:
    """Return a text of a scene with one of the words of each choice that it has.

    >>> scene_text("It's {red|blue}.", 3)
    "It's blue."
    """

    def chosen(match: re.Match[str]) -> str:
        words = match[1].split("|")
        return words[choice % len(words)]

    return _CHOICE.sub(chosen, text)
