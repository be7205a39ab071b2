"""What the metrics are called and what they count, for tables and submissions."""

from collections.abc import Mapping
from typing import NamedTuple

from pragworld_tasks.files import read_package_toml


class MetricText(NamedTuple):
    """The label in the head of a column, and what the metric is the share of."""

    label: str
    meaning: str


METRIC_TEXTS: Mapping[str, MetricText] = {
    name: MetricText(**texts)
    for name, texts in read_package_toml(__package__, "metric_texts.toml").items()
}
