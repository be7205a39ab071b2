"""Cues: words and phrases that say what a quantity is, found in one pass over a text.

`cues.toml` beside this module names them. What they are worth is learned, for each place relative
to a quantity: `weights.json` holds the results. A word that is no cue stands for its own stem.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Mapping

from pragworld_tasks.files import read_package_toml

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[≈~=+?%(]")
_STEM = 6  # letters
_Phrases = list[tuple[list[str], str]]  # the words after the first one, and the cue of all


@functools.cache
def _read_phrases() -> Mapping[str, _Phrases]:
    """Return the phrases of `cues.toml` by their first words, the longest first."""
    phrases = defaultdict[str, _Phrases](list)
    for cue, written in read_package_toml(__package__, "cues.toml").items():
        for phrase in filter(str.strip, written.replace("\n", ",").split(",")):
            first, *rest = phrase.split()
            phrases[first].append((rest, cue))
    for word, several in phrases.items():
        several.sort(key=lambda phrase: -len(phrase[0]))
        several.append(([], word[:_STEM]))
    return dict(phrases)


@functools.lru_cache(maxsize=1 << 14)
def _phrases_of(word: str) -> _Phrases:
    """Return the phrases that begin with a word or with its beginning, and its stem at last."""
    phrases = _read_phrases()
    starts = (f"{word[:length]}*" for length in range(len(word), 2, -1))
    stem: _Phrases = [([], word[:_STEM])]
    return phrases.get(word) or next((phrases[start] for start in starts if start in phrases), stem)


def find_cues(text: str) -> tuple[list[int], list[str]]:
    """Return the starts of a text's words and phrases, and the cue, or else the stem, of each."""
    matches = list(_WORD.finditer(text))
    words = [match[0] for match in matches]
    starts, cues = [], []
    after = 0  # the word after the last phrase
    for index, word in enumerate(words):
        for rest, cue in _phrases_of(word) if index >= after else ():
            if words[index + 1 : index + 1 + len(rest)] == rest:
                starts.append(matches[index].start())
                cues.append(cue)
                after = index + 1 + len(rest)
                break
    return starts, cues
