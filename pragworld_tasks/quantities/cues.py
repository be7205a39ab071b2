"""Cues: words and phrases that say what a quantity is, found in one pass over a text.

`cues.toml` beside this module names them. What they are worth is learned, for each place relative
to a quantity: `weights.json` holds the results. A word that is no cue stands for its own stem.
"""

import functools
import re
from typing import NamedTuple

from pragworld_tasks.files import read_package_toml

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[≈~=+?%(]")
_STEM = 6  # letters


class _Phrases(NamedTuple):
    cue: str  # of the first word alone
    longer: tuple[tuple[list[str], str], ...] = ()  # the words after it, and the cue of all


@functools.cache
def _read_phrases() -> dict[str, _Phrases]:
    """Return the phrases of `cues.toml` by their first words, the longest first."""
    cues: dict[str, str] = {}
    longer: dict[str, list[tuple[list[str], str]]] = {}
    for cue, lines in read_package_toml(__package__, "cues.toml").items():
        for phrase in filter(str.strip, lines.replace("\n", ",").split(",")):
            first, *rest = phrase.split()
            if rest:
                longer.setdefault(first, []).append((rest, cue))
            else:
                cues[first] = cue
    return {
        word: _Phrases(
            cues.get(word, word[:_STEM]),
            tuple(sorted(longer.get(word, ()), key=lambda phrase: -len(phrase[0]))),
        )
        for word in cues.keys() | longer.keys()
    }


@functools.lru_cache(maxsize=1 << 14)
def _phrases_of(word: str) -> _Phrases:
    phrases = _read_phrases()
    ends = (f"{word[:length]}*" for length in range(len(word), 2, -1))
    return phrases.get(word) or next(
        (phrases[end] for end in ends if end in phrases), _Phrases(word[:_STEM])
    )


def find_cues(text: str) -> tuple[list[int], list[str]]:
    """Return the starts of a text's words and phrases, and the cue, or else the stem, of each."""
    starts, words = [], []
    for match in _WORD.finditer(text.lower()):
        starts.append(match.start())
        words.append(match[0])
    kept, cues = [], []
    after = 0  # the word after the last phrase
    for index, word in enumerate(words):
        if index >= after:
            cue, longer = _phrases_of(word)
            for rest, name in longer:
                if words[index + 1 : index + 1 + len(rest)] == rest:
                    cue, after = name, index + 1 + len(rest)
                    break
            kept.append(starts[index])
            cues.append(cue)
    return kept, cues
