"""Whether words alone tell the answers: a split that they do tests no understanding.

A logistic regression on the words of question and conversation learns from some groups and answers
those of others. Originals and variants share most of their words, so a group is never divided.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.evaluation.metrics import Interval, bootstrap_intervals, tally

LEAST_LABELLED = 30  # fewer tell nothing
_FOLDS = 5
_STRENGTH = 0.1

Texts: TypeAlias = tuple[str, ...]  # of a document; the words of each are features of their own


class ShortcutCheck(NamedTuple):
    """How often words alone give the right answer.

    Attributes:
        texts: Whose words.
        accuracy: The balanced accuracy, cross-validated by group: the mean of the shares of right
            answers where yes is right, and where no is. An answer that is always the same gets 0.5.
        interval: Its 95% interval, by bootstrap over groups.
    """

    texts: str
    accuracy: float
    interval: Interval

    @property
    def is_shortcut(self) -> bool:
        """Whether words alone give more right answers than one that is always the same."""
        return self.interval.low > 0.5


def check_shortcuts(documents: Sequence[Document]) -> list[ShortcutCheck]:
    """Check the words of questions, and all words.

    There is no check of fewer than 30 groups, or where all answers are the same.
    """
    answers = [document.answer for document in documents]
    groups = [document.group for document in documents]
    if len({*groups}) < LEAST_LABELLED or len({*answers}) < 2:
        return []
    weights = [1 / answers.count(answer) for answer in answers]
    texts: dict[str, list[Texts]] = {
        "question and conversation": [(each.question, each.context) for each in documents],
        "question": [(document.question,) for document in documents],
    }
    tallies = {}
    for name, of_documents in texts.items():
        predicted = _cross_validated(of_documents, answers, groups)
        right = [guess == answer for guess, answer in zip(predicted, answers, strict=True)]
        tallies[name] = tally(right, weights, groups)
    intervals = bootstrap_intervals(tallies)
    return [ShortcutCheck(name, tallies[name].share, intervals[name]) for name in texts]


def _cross_validated(
    texts: Sequence[Texts], answers: Sequence[Answer], groups: Sequence[int]
) -> list[Answer]:
    """Return the answer to each document of a regression that learned from other groups."""
    from sklearn.model_selection import GroupKFold

    predicted = list(answers)
    for train, test in GroupKFold(_FOLDS).split(answers, groups=groups):
        known, asked = ([texts[place] for place in places] for places in (train, test))
        learned = [answers[place] for place in train]
        of_fold = regression_answers(
            known, learned, asked, longest=1, least_documents=2, strength=_STRENGTH
        )
        for place, answer in zip(test, of_fold, strict=True):
            predicted[place] = answer
    return predicted


def regression_answers(
    train: Sequence[Texts],
    answers: Sequence[Answer],
    test: Sequence[Texts],
    longest: int,
    least_documents: int,
    strength: float,
) -> list[Answer]:
    """Return the answers of a logistic regression on the words of each text of a document.

    Yes and no weigh the same, however often they are right.

    Args:
        train: the texts of the documents to learn from.
        answers: their answers; if all are the same, so are those returned.
        test: the texts of the documents to answer.
        longest: the largest number of consecutive words that make a feature.
        least_documents: in how many of the documents to learn from a feature has to occur.
        strength: the inverse of the regularization.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    if len({*answers}) < 2:
        return [answers[0]] * len(test)
    words = CountVectorizer(
        ngram_range=(1, longest), min_df=least_documents, binary=True, token_pattern=r"\w+"
    )
    columns = [(words, column) for column in range(len(train[0]))]  # each is fitted on its own
    model = make_pipeline(
        make_column_transformer(*columns, sparse_threshold=1),
        LogisticRegression(C=strength, solver="liblinear", class_weight="balanced"),
    )
    model.fit(np.array(train, dtype=object), answers)
    predicted: list[Answer] = model.predict(np.array(test, dtype=object)).tolist()
    return predicted
