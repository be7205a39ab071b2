"""Measure how much generated documents resemble those of the manual split.

python benchmarks/likeness.py [--groups 1000] [--seed 0] [--domains household,conversation]

Prints figures of dialogues, questions, alterations and answers for generated documents and for the
manual split, side by side, of dialogues about things and places (GRICE-like) and of conversations
(CICERO-like). The last column says whether a figure is like the manual split's: within 20 % of it
or, for a share, within 2 points.

Figures that grow with the size of a sample compare samples as large as the manual split, averaged
over all such samples of the generated documents.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

from blind_reading import utterances as labelled_utterances
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline, make_union

from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError

RATIO = 0.2  # largest difference from the manual split's figure, relative to it
POINTS = 2.0  # the same for shares, in points; the larger of the two differences is allowed
LEAST_SHARE = 1.0  # of the questions, in percent; rarer forms are not printed
CHANCE, TOLD_APART = 50.0, 65.0  # questions that guessing tells apart, and the limit, in percent
MOST_SAMPLES = 10  # of generated questions, for the classifier
# What no question of the manual split has, or hardly any, in lower case.
MARKS = {
    "leave any, at least some": r"\bleave any\b|\bat least some\b",
    "exactly": r"\bexactly\b",
    "all under know or sure": r"\b(know|sure)\b.*\ball\b",
    "cleft": r"^(is|was|are|were|will|would) it\b.*\b(that|which|whom?|what|where|when)\b"
    r"|^(is|was|are|were)\b.+( what| the (\w+ )?(that|who|when|in which))\b",
    "according to": r"\baccording to\b",
}

Item = TypeVar("Item")

_TOKEN = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_LABEL = re.compile(r"\s*[\w .]{1,20}?\s*:\s*")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS = _words(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty "
    "sixty seventy eighty ninety hundred thousand"
)
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
# Words of questions that real and generated ones may share or not, so that they get no slot.
_KEPT = _words("speaker listener woman man know sure put leave agree think want like exactly")
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

    Proper names become NAME, numbers NUMBER, and the one or two words between a determiner or
    number and the next function word become NOUN. So objects and places have the same slot.
    Punctuation, letter case and speaker labels don't count.

    >>> frame("Mia said there are three green apples in the living_room.", {"mia"})
    'NAME said there are NUMBER NOUN in the NOUN'
    """
    words: list[str] = []
    noun_words = _MOST_NOUN_WORDS  # words of the present noun phrase; at the limit outside of one
    for word in tokens(text):
        if word in names or word.removesuffix("'s") in names:
            slot, noun_words = "NAME", _MOST_NOUN_WORDS
        elif word in _NUMBERS or word[0].isdigit():
            slot, noun_words = "NUMBER", 0
        elif word in _DETERMINERS:
            slot, noun_words = word, 0
        elif word in _FUNCTION_WORDS or word in _KEPT:
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
        allowed: The largest difference that counts as like, if it is a special one.
    """

    name: str
    generated: float
    manual: float
    unit: Literal["%", ""] = ""
    allowed: float | None = None

    @property
    def is_like(self) -> bool:
        """Whether the generated figure is close enough to the manual one."""
        allowed = self.allowed or max(RATIO * self.manual, POINTS if self.unit else 0)
        return abs(self.generated - self.manual) <= allowed

    def to_text(self) -> str:
        """Return the figure as a line of the table."""
        values = "".join(f"{value:10.2f} {self.unit:1}" for value in (self.generated, self.manual))
        ratio = f"{self.generated / self.manual:.2f}" if self.manual else "-"
        return f"{self.name:40}{values} {ratio:>7}  {'like' if self.is_like else 'DIFFERS'}"


def is_conversation(document: Document) -> bool:
    """Return whether a document is about a conversation, whose speakers are A and B."""
    return document.context.lstrip('"').startswith(("A:", "B:"))


class Source:
    """Documents of one kind, with the utterances of the originals, their words, and all frames."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = documents
        self.dialogues = [utterances(document) for document in documents if document.is_original]
        texts = [text for dialogue in self.dialogues for text in dialogue]
        # A and B are speakers, not an article and a noun.
        asked = [re.sub(r"\b[AB]\b", "speaker", document.question) for document in documents]
        names = proper_names([*texts, *asked])
        self.words = [word for text in texts for word in tokens(text)]
        self.frames = [frame(text, names) for text in texts]
        self.questions = [frame(text, names) for text in asked]


def text_figures(generated: Source, manual: Source) -> Iterator[Figure]:
    """Yield figures of the dialogues of the originals."""
    both = (generated, manual)
    ours, theirs = (fmean(map(len, one.dialogues)) for one in both)
    yield Figure("turns in a dialogue", ours, theirs)
    ours, theirs = (len(one.words) / len(one.frames) for one in both)
    yield Figure("words in an utterance", ours, theirs)
    size = len(manual.words)
    ours, theirs = (sample_mean(one.words, size, lambda words: len({*words})) for one in both)
    yield Figure("different words", ours, theirs)
    # The frames of one half of the manual split, looked for in the other half.
    half = len(manual.frames) // 2
    known = {*manual.frames[half:]}
    ours, theirs = (
        sample_mean(frames, half, lambda part: 100 * fmean(text in known for text in part))
        for frames in (generated.frames, manual.frames[:half])
    )
    yield Figure("utterances with a frame of the split", ours, theirs, "%")


def question_figures(generated: Source, manual: Source) -> Iterator[Figure]:
    """Yield figures of the questions: their length, their marks, and how many are told apart."""
    both = [[each.question.lower() for each in one.documents] for one in (generated, manual)]
    ours, theirs = (fmean(len(tokens(text)) for text in texts) for texts in both)
    yield Figure("words in a question", ours, theirs)
    for name, pattern in MARKS.items():
        ours, theirs = (100 * fmean(bool(re.search(pattern, q)) for q in texts) for texts in both)
        yield Figure(name, ours, theirs, "%")
    percent = told_apart(generated, manual)
    yield Figure("told apart by the question", percent, CHANCE, "%", TOLD_APART - CHANCE)


def told_apart(generated: Source, manual: Source) -> float:
    """Return how many questions a classifier tells apart by their frames alone, in percent.

    A logistic regression on one or two words and two to four letters is cross-validated by group,
    with as many generated as real questions. Those of a group that share a frame count once.
    """
    model = make_pipeline(
        make_union(
            CountVectorizer(ngram_range=(1, 2), binary=True),
            CountVectorizer(ngram_range=(2, 4), binary=True, analyzer="char_wb"),
        ),
        LogisticRegression(C=1.0, max_iter=1000),
    )
    ours, theirs = (
        sorted({(d.group, text) for d, text in zip(one.documents, one.questions, strict=True)})
        for one in (generated, manual)
    )

    def accuracy(sample: Sequence[tuple[int, str]]) -> float:
        groups, texts = zip(*sample, *((-1 - group, text) for group, text in theirs), strict=True)
        is_real = [group < 0 for group in groups]
        folds = StratifiedGroupKFold(5)
        return 100 * fmean(cross_val_score(model, texts, is_real, groups=groups, cv=folds))

    return sample_mean(ours[: MOST_SAMPLES * len(theirs)], len(theirs), accuracy)


def form_figures(generated: Source, manual: Source) -> Iterator[Figure]:
    """Yield the share of each form of questions, and how much of all forms both have in common.

    Hardly two questions about conversations have the same frame, so their form is the first two
    words of it: "Does SPEAKER", "Is the".
    """
    most = 2 if is_conversation(manual.documents[0]) else None
    ours, theirs = (
        Counter(" ".join(text.split()[:most]) for text in one.questions)
        for one in (generated, manual)
    )
    in_common = 0.0
    for form in sorted(ours | theirs, key=lambda form: (-theirs[form], -ours[form], form)):
        shares = [100 * forms[form] / forms.total() for forms in (ours, theirs)]
        figure = Figure(form, shares[0], shares[1], "%")
        in_common += min(figure.generated, figure.manual)
        if max(figure.generated, figure.manual) >= LEAST_SHARE:
            yield figure
    yield Figure("all forms: shares in common", in_common, 100, "%")


def alteration_figures(generated: Source, manual: Source) -> Iterator[Figure]:
    """Yield figures of the altered variants and of the answers."""
    both = (generated.documents, manual.documents)
    for category in (*ALTERATIONS, "flip"):
        ours, theirs = (
            100 * fmean(category in (d.alteration, d.effect) for d in source if d.effect)
            for source in both
        )
        yield Figure(category, ours, theirs, "%")
    for effect in (None, "flip", "invariant"):
        ours, theirs = (
            100 * fmean(d.answer == "yes" for d in source if d.effect == effect) for source in both
        )
        yield Figure(f"yes, {effect or 'original'}", ours, theirs, "%")


def tables(
    generated: Sequence[Document], manual: Sequence[Document]
) -> Iterator[tuple[str, list[Figure]]]:
    """Yield all figures of documents of one kind, each table with its title."""
    ours, theirs = Source(generated), Source(manual)
    yield "dialogues (originals)", [*text_figures(ours, theirs)]
    yield "questions", [*question_figures(ours, theirs)]
    for title, is_original in (("originals", True), ("variants", False)):
        parts = (
            Source([document for document in source if document.is_original == is_original])
            for source in (generated, manual)
        )
        yield f"forms of questions, {title}", [*form_figures(*parts)]
    yield "alterations and answers", [*alteration_figures(ours, theirs)]


def main() -> None:
    """Print the figures of both sources."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=1000, help="groups to generate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--domains", default="household,conversation", help="default: %(default)s")
    options = parser.parse_args()
    alike = []
    try:
        generated = list(documents(generate(GeneratorSettings.from_metadata(vars(options)))))
        for is_chat in sorted({is_conversation(document) for document in generated}):
            kind = "conversations" if is_chat else "things and places"
            print(f"\n{kind.upper():40}{'generated':>10}  {'manual':>10}  {'ratio':>8}")
            ours, theirs = (
                [document for document in source if is_conversation(document) == is_chat]
                for source in (generated, load_split("manual"))
            )
            for title, figures in tables(ours, theirs):
                print("\n".join([f"\n{title}", *(figure.to_text() for figure in figures)]))
                alike += [figure.is_like for figure in figures]
    except InputError as error:
        sys.exit(str(error))
    print(f"\n{sum(alike)} of {len(alike)} figures are like the manual split's")


if __name__ == "__main__":
    main()
