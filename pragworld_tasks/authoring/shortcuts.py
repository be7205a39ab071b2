"""Whether words alone tell the answers: a split that they do tests no understanding.

A logistic regression on the words of question and conversation learns from some groups and answers
those of others. Originals and variants share most of their words, so a group is never divided.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pragworld_tasks.data.documents import Document
from pragworld_tasks.evaluation.statistics import Interval, bootstrap_intervals, tally

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

LEAST_LABELLED = 30  # fewer tell nothing
_FOLDS = 5


class ShortcutCheck(NamedTuple):
    """How often words of some texts alone give the right answer.

    It is the balanced accuracy, cross-validated by group: the mean of the shares of right answers
    where yes is right, and where no is. An answer that is always the same gets 0.5.
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

    There is no check of fewer than 30 groups, or where all answers to learn from are the same.
    """
    from sklearn.model_selection import GroupKFold, cross_val_predict

    answers = np.array([document.answer for document in documents])
    groups = [document.group for document in documents]
    if len({*groups}) < LEAST_LABELLED:
        return []
    folds = list(GroupKFold(_FOLDS).split(answers, groups=groups))
    if any(len({*answers[train]}) < 2 for train, _ in folds):
        return []
    weights = [1 / (answers == answer).sum() for answer in answers]
    texts: dict[str, list[tuple[str, ...]]] = {
        "question and conversation": [(each.question, each.context) for each in documents],
        "question": [(document.question,) for document in documents],
    }
    tallies = {}
    for name, of_documents in texts.items():
        model = word_regression(len(of_documents[0]), longest=1, least_documents=2, strength=0.1)
        predicted = cross_val_predict(model, np.array(of_documents, object), answers, cv=folds)
        tallies[name] = tally((predicted == answers).tolist(), weights, groups)
    intervals = bootstrap_intervals(tallies)
    return [ShortcutCheck(name, tallies[name].share, intervals[name]) for name in texts]


def word_regression(texts: int, longest: int, least_documents: int, strength: float) -> "Pipeline":
    """Return an untrained logistic regression on the words of each text of a document.

    It learns from an array with a row for each document and a column for each of its texts. Up to
    `longest` consecutive words of a text are a feature, if they occur in `least_documents`; the
    regularization has the inverse `strength`. Yes and no weigh the same, however often they occur.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    words = CountVectorizer(
        ngram_range=(1, longest), min_df=least_documents, binary=True, token_pattern=r"\w+"
    )
    columns = [(words, column) for column in range(texts)]  # each is fitted on its own
    return make_pipeline(
        make_column_transformer(*columns, sparse_threshold=1),
        LogisticRegression(C=strength, solver="liblinear", class_weight="balanced"),
    )
