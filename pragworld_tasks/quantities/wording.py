"""English wording: the expressions and words of `wording.toml`, and the cues of `cues.toml`."""

import functools
import re
from collections.abc import Mapping, Sequence

from pragworld_tasks.files import read_package_toml
from pragworld_tasks.quantities.plain_text import PlainText

_REFERENCE = re.compile(r"\{([a-z]\w*)\}")
STEM = 5  # letters by which related words are compared: `estimate` and `estimating`
_LONGEST = 16  # letters of the beginning of a word that is a cue: `uncertaint*`
# By the second word of phrases, the words from there on, and the cue of each phrase.
_Phrases = Mapping[str, Sequence[tuple[list[str], str]]]


@functools.cache
def pattern(name: str) -> re.Pattern[str]:
    """Compile the entry of `wording.toml` that has a name."""
    return re.compile(source(name))


def source(name: str) -> str:
    """Return the regular expression of an entry of `wording.toml`, as a part of others."""
    if name.endswith("_words"):
        return f"(?:{'|'.join(words(name))})"
    entry: str = read_package_toml(__package__, "wording.toml")[name]
    return _REFERENCE.sub(lambda match: source(match[1]), entry.replace("\n", ""))


def words(name: str) -> list[str]:
    """Return the words of an entry of `wording.toml`, in order."""
    entry: str = read_package_toml(__package__, "wording.toml")[name]
    return entry.split()


@functools.cache
def _read_phrases() -> Mapping[str, tuple[_Phrases, str]]:
    """Return by the first word of phrases in `cues.toml` those, and the cue of it alone, or ""."""
    phrases: dict[str, tuple[dict[str, list[tuple[list[str], str]]], str]] = {}
    lists = read_package_toml(__package__, "cues.toml").items()
    split = [(phrase.split(), cue) for cue, listed in lists for phrase in re.split("[,\n]", listed)]
    split = [phrase for phrase in split if phrase[0]]
    for (first, *rest), cue in sorted(split, key=lambda phrase: -len(phrase[0])):
        by_second, alone = phrases.setdefault(first, ({}, ""))
        if rest:
            by_second.setdefault(rest[0], []).append((rest, cue))
        else:
            phrases[first] = by_second, alone or cue
    return phrases


@functools.lru_cache(maxsize=1 << 14)
def _phrases_of(word: str) -> tuple[_Phrases, str]:
    """Return the phrases of several words that begin with a word, and the cue of it alone."""
    phrases = _read_phrases()
    starts = (word, *(f"{word[:length]}*" for length in range(min(len(word), _LONGEST), 2, -1)))
    several, alone = next((phrases[start] for start in starts if start in phrases), ({}, ""))
    return several, alone or word[:STEM]


def find_cues(text: PlainText) -> tuple[list[int], list[str]]:
    """Return the starts of a text's words and phrases, and the cue, or else the stem, of each."""
    starts, words, entries = text.starts.copy(), text.words, list(map(_phrases_of, text.words))
    cues = [alone for _, alone in entries]
    joined = [(0, 0)]  # the words of each phrase
    for index, (phrases, _) in enumerate(entries[:-1]):
        if not phrases or index < joined[-1][1]:
            continue
        for rest, cue in phrases.get(words[index + 1], ()):
            if words[index + 1 : index + 1 + len(rest)] == rest:
                cues[index] = cue
                joined.append((index, index + 1 + len(rest)))
                break
    for first, end in reversed(joined):
        del starts[first + 1 : end], cues[first + 1 : end]
    return starts, cues
