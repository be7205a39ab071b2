"""Measure how much generated documents resemble those of the manual split.

python benchmarks/likeness.py [--groups 1000] [--seed 0] [--domains household,conversation]

Prints figures of the text (turns, words, vocabulary, trigrams, sentence frames), of the questions,
and of the alterations and answers, for generated documents and for the manual split, side by side.
The last column says whether a figure is like the manual split's: within 20 % of it or, for a share,
within 2 points. The manual split comes from the folder that PRAGWORLD_DATA names, the cache, or a
download.

Figures that grow with the size of a sample compare samples of equal size: as many words, trigrams
or utterances as the manual split has, averaged over all such samples of the generated documents.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

from blind_reading import utterances as labelled_utterances

from pragworld_tasks.data.breakdowns import QUESTION_TYPES, question_type
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.dialogues.vocabulary import DOMAINS
from pragworld_tasks.errors import InputError

RATIO = 0.2  # largest difference from the manual split's figure, relative to it
POINTS = 2.0  # the same for shares, in points; the larger of the two differences is allowed
MOST_COMMON = 20  # frames that count as common

Item = TypeVar("Item")

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_LABEL = re.compile(r"\s*[\w .]{1,20}?\s*:\s*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty "
    "sixty seventy eighty ninety hundred thousand"
)
_COLORS = _words("black white red green blue yellow brown grey gray pink purple orange")
_DETERMINERS = _words(
    "the a an any some all many several few of no every each this that these those my your his "
    "her its our their"
)
# Words that end a noun phrase. Only closed classes are listed: a list of nouns would fit one
# source of dialogues better than another.
_FUNCTION_WORDS = _words(
    "i you he she it we they me him us them there here who what where when why how which "
    "is are was were be been am isn't aren't wasn't weren't do does did don't doesn't didn't "
    "have has had haven't hasn't can can't could couldn't will won't would should must may might "
    "in on at to from for with by about into over under after before since until than as if so "
    "and or but not because said says say there's it's i'm"
)
_MOST_NOUN_WORDS = 2  # "living room"


def utterances(document: Document) -> list[str]:
    """Return the utterances of a document without their speakers' labels."""
    return [_LABEL.sub("", line, count=1) for line in labelled_utterances(document)]


def tokens(text: str) -> list[str]:
    """Return the words and numbers of a text, in lower case.

    >>> tokens("I didn't see 2 of them in the back_yard!")
    ['i', "didn't", 'see', '2', 'of', 'them', 'in', 'the', 'back', 'yard']
    """
    return [token.replace("\u2019", "'").lower() for token in _TOKEN.findall(text)]


def proper_names(texts: Sequence[str]) -> frozenset[str]:
    """Return the words that are capitalized within an utterance, and in lower case nowhere.

    >>> sorted(proper_names(["Where is Mia?", "Mia said she met Tom.", "She is in."]))
    ['mia', 'tom']
    """
    capitalized, lower = set(), set()
    for text in texts:
        start = True
        for match in re.finditer(r"[.?!]|" + _TOKEN.pattern, text):
            word = match[0]
            if word in ".?!":
                start = True
                continue
            if word[0].islower():
                lower.add(word)
            elif not start:
                capitalized.add(word.lower())
            start = False
    return frozenset(name for name in capitalized - lower - _FUNCTION_WORDS if name.isalpha())


def frame(text: str, names: Set[str]) -> str:
    """Return the frame of an utterance: its words with slots for what it is about.

    Proper names become NAME, numbers NUMBER, colors COLOR, and the one or two words between a
    determiner, number or color and the next function word become NOUN. So objects and places have
    the same slot. Punctuation, letter case and speaker labels don't count.

    >>> frame("Mia said there are three green apples in the living_room.", {"mia"})
    'NAME said there are NUMBER COLOR NOUN in the NOUN'
    """
    words: list[str] = []
    noun_words = _MOST_NOUN_WORDS  # words of the present noun phrase; at the limit outside of one
    for word in tokens(text):
        if word in names or word.removesuffix("'s") in names:
            slot, noun_words = "NAME", _MOST_NOUN_WORDS
        elif word in _NUMBERS or word[0].isdigit():
            slot, noun_words = "NUMBER", 0
        elif word in _COLORS:
            slot, noun_words = "COLOR", 0
        elif word in _DETERMINERS:
            slot, noun_words = word, 0
        elif word in _FUNCTION_WORDS:
            slot, noun_words = word, _MOST_NOUN_WORDS
        elif noun_words < _MOST_NOUN_WORDS:
            noun_words += 1
            slot = "NOUN"
            if noun_words > 1:
                continue
        else:
            slot = word
        words.append(slot)
    return " ".join(words)


def common_share(items: Sequence[Hashable], most_common: int = MOST_COMMON) -> float:
    """Return how many of the items are among the most common different ones, in percent.

    >>> common_share(["a", "a", "a", "b", "c"], most_common=1)
    60.0
    """
    return 100 * sum(times for _, times in Counter(items).most_common(most_common)) / len(items)


def trigrams(texts: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the sequences of three words within an utterance.

    >>> trigrams(["Where is it now?", "No idea."])
    [('where', 'is', 'it'), ('is', 'it', 'now')]
    """
    return [
        (*words[start : start + 3],)
        for words in map(tokens, texts)
        for start in range(len(words) - 2)
    ]


def sample_mean(
    items: Sequence[Item], size: int, measure: Callable[[Sequence[Item]], float]
) -> float:
    """Return the mean of a measure over all successive samples of a size.

    >>> sample_mean(["a", "a", "b", "c", "c"], 2, lambda sample: len(set(sample)))
    1.5

    Raises:
        InputError: There are fewer items than one sample needs.
    """
    if len(items) < size:
        raise InputError(
            f"a sample needs {size} items and there are {len(items)}; pass more --groups"
        )
    starts = range(0, len(items) - size + 1, size)
    return fmean(measure(items[start : start + size]) for start in starts)


class Figure(NamedTuple):
    """A figure of both sources.

    Attributes:
        name: What it measures.
        generated, manual: Its values.
        unit: "%" for a share, in percent, or "".
    """

    name: str
    generated: float
    manual: float
    unit: Literal["%", ""] = ""

    @property
    def is_like(self) -> bool:
        """Whether the generated figure is close enough to the manual one."""
        allowed = max(RATIO * self.manual, POINTS if self.unit else 0)
        return abs(self.generated - self.manual) <= allowed

    def to_text(self) -> str:
        """Return the figure as a line of the table."""
        values = "".join(f"{value:10.2f} {self.unit:1}" for value in (self.generated, self.manual))
        ratio = f"{self.generated / self.manual:.2f}" if self.manual else "-"
        return f"{self.name:40}{values} {ratio:>7}  {'like' if self.is_like else 'DIFFERS'}"


def text_figures(generated: Sequence[Document], manual: Sequence[Document]) -> list[Figure]:
    """Return figures of the dialogues of the originals."""
    ours, theirs = _Texts(generated), _Texts(manual)

    def figure(
        name: str, measure: Callable[[_Texts], float], unit: Literal["%", ""] = ""
    ) -> Figure:
        return Figure(name, measure(ours), measure(theirs), unit)

    def different(items: Sequence[Hashable]) -> float:
        return len(set(items))

    half = len(theirs.frames) // 2
    known = set(theirs.frames[half:])

    def known_share(frames: Sequence[str]) -> float:
        return 100 * sum(item in known for item in frames) / len(frames)

    return [
        figure("turns in a dialogue", lambda texts: fmean(texts.turns)),
        figure("words in a dialogue", lambda texts: len(texts.words) / len(texts.turns)),
        figure("words in an utterance", lambda texts: len(texts.words) / len(texts.frames)),
        figure(
            "different words",
            lambda texts: sample_mean(texts.words, len(theirs.words), different),
        ),
        figure(
            "different trigrams",
            lambda texts: sample_mean(texts.trigrams, len(theirs.trigrams), different),
        ),
        figure(
            "different frames per utterance",
            lambda texts: (
                sample_mean(texts.frames, len(theirs.frames), different) / len(theirs.frames)
            ),
        ),
        figure(
            f"utterances with the {MOST_COMMON} commonest frames",
            lambda texts: sample_mean(texts.frames, len(theirs.frames), common_share),
            "%",
        ),
        # The frames of one half of the manual split, looked for in the other half.
        figure(
            "utterances with a frame of the split",
            lambda texts: sample_mean(
                texts.frames[:half] if texts is theirs else texts.frames, half, known_share
            ),
            "%",
        ),
    ]


class _Texts:
    """The dialogues of the originals among some documents, taken apart."""

    def __init__(self, documents: Sequence[Document]) -> None:
        dialogues = [utterances(document) for document in documents if document.is_original]
        texts = [text for dialogue in dialogues for text in dialogue]
        names = proper_names(texts)
        self.turns = [len(dialogue) for dialogue in dialogues]
        self.words = [word for text in texts for word in tokens(text)]
        self.frames = [frame(text, names) for text in texts]
        self.trigrams = trigrams(texts)


def question_figures(generated: Sequence[Document], manual: Sequence[Document]) -> list[Figure]:
    """Return the share of each type of question among the documents."""
    ours, theirs = (
        Counter(question_type(document) for document in source) for source in (generated, manual)
    )
    return [
        Figure(name, 100 * ours[name] / ours.total(), 100 * theirs[name] / theirs.total(), "%")
        for name in QUESTION_TYPES
    ]


def alteration_figures(generated: Sequence[Document], manual: Sequence[Document]) -> list[Figure]:
    """Return figures of the altered variants and of the answers."""
    figures = []
    for name, is_counted, is_in in _SHARES:
        ours, theirs = (
            [is_counted(document) for document in source if is_in(document)]
            for source in (generated, manual)
        )
        figures.append(Figure(name, 100 * fmean(ours), 100 * fmean(theirs), "%"))
    variants = [
        len(source) / sum(document.is_original for document in source) - 1
        for source in (generated, manual)
    ]
    return [Figure("variants of an original", variants[0], variants[1]), *figures]


Condition = Callable[[Document], bool]


def _is_altered(document: Document) -> bool:
    return not document.is_original


def _has_alteration(name: str) -> Condition:
    return lambda document: document.alteration == name


def _has_effect(effect: str) -> Condition:
    return lambda document: document.effect == effect


def _is_yes(document: Document) -> bool:
    return document.answer == "yes"


# Shares of the documents that meet the first condition among those that meet the second.
_SHARES: list[tuple[str, Condition, Condition]] = [
    *((name, _has_alteration(name), _is_altered) for name in ALTERATIONS),
    ("flips", _has_effect("flip"), _is_altered),
    ("yes, originals", _is_yes, lambda document: document.is_original),
    ("yes, flips", _is_yes, _has_effect("flip")),
    ("yes, invariants", _is_yes, _has_effect("invariant")),
]


def main() -> None:
    """Print the figures of both sources."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000, help="groups to generate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--domains", default=",".join(DOMAINS), help="default: %(default)s")
    options = parser.parse_args()
    try:
        settings = GeneratorSettings.from_metadata(vars(options))
        manual = load_split("manual")
        generated = list(documents(generate(settings)))
        tables = {
            "dialogues (originals)": text_figures(generated, manual),
            "questions": question_figures(generated, manual),
            "alterations and answers": alteration_figures(generated, manual),
        }
    except InputError as error:
        sys.exit(str(error))
    print(f"{'':40}{'generated':>10}  {'manual':>10}  {'ratio':>8}")
    for title, figures in tables.items():
        print("\n".join([f"\n{title}", *(figure.to_text() for figure in figures)]))
    alike = [figure.is_like for figures in tables.values() for figure in figures]
    print(f"\n{sum(alike)} of {len(alike)} figures are like the manual split's")


if __name__ == "__main__":
    main()
