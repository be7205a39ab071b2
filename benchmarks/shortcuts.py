"""Test whether generated questions can be answered without understanding the dialogue.

python benchmarks/shortcuts.py [--groups 2000] [--seed 0] [--train-documents 20000]

Prints the share of yes, the scores of constant answers and of repeating the original's answer, the
share of yes after each common frame of the last utterance, and the scores of logistic regressions
on one to three consecutive words or sentence frames of question and context. Exits with status 1 if
a limit is broken. The originals are also measured alone: unlike a variant, an original has no twin
with the other answer.
"""

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count, islice

import numpy as np
from likeness import frame, utterances

from pragworld_tasks.authoring.shortcuts import word_regression
from pragworld_tasks.data.breakdowns import BREAKDOWNS, NOT_ALTERED, alteration_category
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.dialogues.generate import documents, generate, make_group
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.dialogues.vocabulary import DOMAINS, domain_vocabulary
from pragworld_tasks.evaluation.metrics import tallies, to_arrays

# Limits in percent.
YES_OVERALL = (48.0, 52.0)
YES_IN_CLASS = (45.0, 55.0)
CONSTANT_ROBUST = 2.0
REGRESSION_ACCURACY = 55.0
REGRESSION_ROBUST = 5.0
LAST_UTTERANCE_ACCURACY = 53.0
COMMON_FRAMES = 20  # last utterances to print

_NAMES = frozenset(
    name.lower()
    for domain in DOMAINS
    for part in ("regular", "held out")
    for name in domain_vocabulary(domain, part).agents
)


@cache
def _frame(text: str) -> str:
    return frame(text, _NAMES)


def _frames(document: Document) -> str:
    """Return the frames of all utterances, each as a word."""
    return " ".join(_frame(text).replace(" ", "_") for text in utterances(document))


def _last_utterance(document: Document) -> str:
    return utterances(document)[-1]


TextsOf = Callable[[Document], tuple[str, ...]]
# The input of the regressions. The words of each text are separate features.
TEXTS: dict[str, TextsOf] = {
    "question, context": lambda document: (document.question, document.context),
    "joined in one text": lambda document: (f"{document.question}\n{document.context}",),
    "question alone": lambda document: (document.question,),
    "question, last utterance": lambda document: (document.question, _last_utterance(document)),
    "frames": lambda document: (_frame(document.question), _frames(document)),
}


class Limits:
    """Prints numbers next to their limits and records which limits are broken."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    def check(self, name: str, percent: float, low: float, high: float) -> None:
        """Print a number, in percent, and record it if it is outside its limits."""
        limits = f"{low:.0f} to {high:.0f} %" if low else f"at most {high:.0f} %"
        is_within = low <= percent <= high
        print(f"  {name:46} {percent:6.2f} % ({limits}){'' if is_within else '  BROKEN'}")
        if not is_within:
            self.broken.append(f"{name}: {percent:.2f} % ({limits})")


def check_balance(test: Sequence[Document], limits: Limits) -> None:
    """Check the share of yes in every class, and the scores of answers that ignore the dialogue."""
    print(f"share of yes, {len(test)} documents of the test split")
    limits.check("all", yes_percent(test), *YES_OVERALL)
    for effect in ("flip", "invariant"):
        members = [document for document in test if document.effect == effect]
        limits.check(f"effect: {effect} ({len(members)})", yes_percent(members), *YES_OVERALL)
    for name, (class_of, classes) in BREAKDOWNS.items():
        for class_name in classes:
            members = [document for document in test if class_of(document) == class_name]
            label = f"{name}: {class_name}"
            if members:
                limits.check(f"{label} ({len(members)})", yes_percent(members), *YES_IN_CLASS)
            else:
                print(f"  {label} (none)")
    print("robust accuracy of answers that ignore the dialogue")
    originals = {document.group: document.answer for document in test if document.is_original}
    answers: dict[str, list[str]] = {
        "always yes": ["yes"] * len(test),
        "always no": ["no"] * len(test),
        "the original's answer": [originals[document.group] for document in test],
    }
    for name, given in answers.items():
        limits.check(name, percents(test, given)["robust_acc"], 0, CONSTANT_ROBUST)


def check_last_utterance(
    train: Sequence[Document], test: Sequence[Document], limits: Limits
) -> None:
    """Check the accuracy of the answer that more often follows the last utterance's frame."""
    for name in ("all documents", "originals"):
        if name == "originals":
            train = [document for document in train if document.is_original]
            test = [document for document in test if document.is_original]
        print(f"share of yes after the commonest frames of the last utterance, {name}")
        answers: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for document in train:
            answers[_frame(_last_utterance(document))][document.answer] += 1
        for text in sorted(answers, key=lambda text: -answers[text].total())[:COMMON_FRAMES]:
            yes = 100 * answers[text]["yes"] / answers[text].total()
            print(f"    {text[:38]:38} {answers[text].total():5} {yes:6.2f} %")
        correct = [
            (document.answer == "yes") == (frequency["yes"] > frequency["no"])
            for document in test
            if (frequency := answers[_frame(_last_utterance(document))])
        ]
        accuracy = 100 * sum(correct) / len(correct)
        limits.check("accuracy of the commoner answer", accuracy, 0, LAST_UTTERANCE_ACCURACY)


def check_regressions(train: Sequence[Document], test: Sequence[Document], limits: Limits) -> None:
    """Check the accuracy of regressions on words and frames."""
    print(f"logistic regression on 1 to 3 words or frames, trained on {len(train)} documents")
    for name, texts_of in TEXTS.items():
        # Counts, tf-idf and other values of the strength (0.001 to 10) score at most half a point
        # higher.
        known, asked = (
            np.array([texts_of(document) for document in split], object) for split in (train, test)
        )
        model = word_regression(known.shape[1], longest=3, least_documents=5, strength=0.01)
        answers = model.fit(known, [document.answer for document in train]).predict(asked).tolist()
        scores = percents(test, answers)
        limits.check(f"{name}: accuracy", scores["acc"], 0, REGRESSION_ACCURACY)
        limits.check(f"{name}: robust accuracy", scores["robust_acc"], 0, REGRESSION_ROBUST)
        for category in (*ALTERATIONS, NOT_ALTERED):
            correct = [
                answer == document.answer
                for document, answer in zip(test, answers, strict=True)
                if alteration_category(document) == category
            ]
            if category == NOT_ALTERED:
                accuracy = 100 * sum(correct) / len(correct)
                limits.check(f"{name}: originals", accuracy, 0, REGRESSION_ACCURACY)
            elif correct:
                print(f"    {category:44} {100 * sum(correct) / len(correct):6.2f} %")


def percents(test: Sequence[Document], answers: Sequence[str]) -> dict[str, float]:
    """Return the metrics of the answers, in percent."""
    shares = tallies(to_arrays(test, answers))
    return {name: 100 * tally.share for name, tally in shares.items()}


def yes_percent(members: Sequence[Document]) -> float:
    """Return how many of the gold answers are yes, in percent."""
    return 100 * sum(document.answer == "yes" for document in members) / len(members)


def main() -> int:
    """Run all checks. Return 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=2000, help="groups of the test split")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-documents", type=int, default=20_000)
    parser.add_argument("--domains", default=",".join(DOMAINS), help="default: %(default)s")
    options = parser.parse_args()
    settings = GeneratorSettings.from_metadata({**vars(options), "split": "test"})
    test = list(documents(generate(settings)))
    limits = Limits()
    check_balance(test, limits)
    train_settings = GeneratorSettings(seed=options.seed, split="train", domains=settings.domains)
    train_groups = (make_group(train_settings, number) for number in count())
    train = list(islice(documents(train_groups), options.train_documents))
    check_last_utterance(train, test, limits)
    check_regressions(train, test, limits)
    print("\n".join(["", "broken:", *limits.broken]) if limits.broken else "\nall within limits")
    return 1 if limits.broken else 0


if __name__ == "__main__":
    sys.exit(main())
