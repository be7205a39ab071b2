"""What the metrics are called and what they count, for tables and submissions."""

from collections.abc import Mapping
from typing import NamedTuple


class MetricText(NamedTuple):
    """How a metric is presented.

    Attributes:
        label: what the head of a column says.
        meaning: what the metric is the share of.
    """

    label: str
    meaning: str


# In the order in which tables show them.
METRIC_TEXTS: Mapping[str, MetricText] = {
    "robust_acc": MetricText(
        "Robust accuracy", "groups in which the original and every variant are answered right"
    ),
    "robust_acc_undisputed": MetricText(
        "Robust, undisputed",
        "groups answered right as a whole, without the documents whose label is disputed",
    ),
    "acc": MetricText("Accuracy", "documents answered right"),
    "acc_undisputed": MetricText(
        "Accuracy, undisputed",
        "documents answered right, without those whose label is disputed",
    ),
    "yes_acc": MetricText("Gold yes", "documents with gold answer yes, answered right"),
    "no_acc": MetricText("Gold no", "documents with gold answer no, answered right"),
    "original_acc": MetricText("Originals", "originals answered right"),
    "altered_acc": MetricText("Altered", "altered variants answered right"),
    "flip_acc": MetricText(
        "Answer flips", "variants whose alteration flips the answer, answered right"
    ),
    "invariant_acc": MetricText(
        "Answer stays", "variants whose alteration keeps the answer, answered right"
    ),
    "unreadable": MetricText(
        "Unreadable", "responses in which no answer can be read; they count as wrong"
    ),
    "determined_acc": MetricText(
        "Determined labels",
        "documents whose answer follows from what was said, answered right",
    ),
    "entailed_acc": MetricText(
        "Entailed", "documents in which what was said entails a yes, answered right"
    ),
    "excluded_acc": MetricText(
        "Excluded", "documents in which what was said excludes a yes, answered right"
    ),
    "undetermined_acc": MetricText(
        "Undetermined labels",
        "documents whose label rests on a convention, answered as labelled",
    ),
}
