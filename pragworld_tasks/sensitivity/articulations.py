"""PragWorld under rewording: every document in ten wordings, and what the answers vary with.

A group's documents are intents: they differ in the conversation. The wordings are articulations.
They differ in the question (`worded_question`), in what stands around it, and in whether the
question or the conversation comes first. The gold answer stays. The probabilities of yes and no are
known, so the decomposition by entropy (`components.entropy_components`) is exact: no sampling, no
floor.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any, NamedTuple

import numpy as np
from lm_eval.utils import warning_once

from pragworld_tasks.data.documents import Document
from pragworld_tasks.data.prompts import label_prompt
from pragworld_tasks.errors import logger
from pragworld_tasks.evaluation.answers import likelier_answer, yes_share
from pragworld_tasks.evaluation.metrics import unreadable_warning
from pragworld_tasks.evaluation.statistics import Tally
from pragworld_tasks.evaluation.task_metrics import NotAvailable, data_set_rows, shown_value
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.sensitivity.components import entropy_components

ARTICULATION_METRICS = ("ps", "as", "mu", "mvs", "acc", "acc_worst_wording", "robust_acc")
_REWORDINGS = read_package_toml(__package__, "rewordings.toml")["rewordings"]
WORDINGS = 1 + len(_REWORDINGS)


def worded_question(question: str, wording: int) -> str:
    """Return a yes/no question as it is put in a wording, 0 to 9; the answer stays what it is."""
    if wording == 0:
        return question
    question = question.strip()
    form = Template(_REWORDINGS[wording - 1]["question"])
    return form.substitute(question=question, unmarked=question.removesuffix("?"))


def worded_prompt(document: Mapping[str, Any]) -> str:
    """Return the prompt of a document in its `wording`, 0 to 9; 0 is Prompt 2."""
    wording = document["wording"]
    if wording == 0:
        return label_prompt(document)
    question = worded_question(document["question"], wording)
    prompt = Template(_REWORDINGS[wording - 1]["prompt"])
    return prompt.substitute(context=document["context"], question=question)


def worded_records(documents: Sequence[Document]) -> list[dict[str, Any]]:
    """Return a record for each document in each wording."""
    return [
        {**record, "wording": wording}
        for record in data_set_rows(documents)
        for wording in range(WORDINGS)
    ]


class Worded(NamedTuple):
    """What every metric needs to know about a document in a wording.

    `size` is the number of documents of its group in the whole split, `yes` the probability of yes
    among yes and no, and `right` whether the likelier answer is the gold one.
    """

    group: int
    size: int
    row: int
    wording: int
    yes: float
    right: bool


def score_worded_likelihoods(
    record: Mapping[str, Any], results: Sequence[tuple[float, bool]]
) -> dict[str, tuple[str, Worded]]:
    """Return a document's items by metric; each names its metric, as lm-eval passes only items."""
    (yes, _), (no, _) = results
    item = Worded(
        record["group"],
        record["group_size"],
        record["row"],
        record["wording"],
        yes_share(yes, no),
        likelier_answer([yes, no]) == record["answer"],
    )
    return {
        f"{name}{end}": (name, item) for name in ARTICULATION_METRICS for end in ("", "_stderr")
    }


def articulation_share(items: Sequence[tuple[str, Worded]]) -> float | NotAvailable:
    """Return a metric over the groups with every document in every wording; N/A if none."""
    (name, *_), worded = zip(*items, strict=True)
    return shown_value(_tallies(worded)[name].share)


def articulation_share_stderr(items: Sequence[tuple[str, Worded]]) -> float | NotAvailable:
    """Return the standard error of a metric, clustered by group; N/A where it is not defined."""
    (name, *_), worded = zip(*items, strict=True)
    return shown_value(_tallies(worded)[name].standard_error)


@functools.lru_cache(maxsize=1)  # all metrics of a task ask for the same
def _tallies(items: tuple[Worded, ...]) -> dict[str, Tally]:
    """Return the metrics by name: two numbers for each complete group, whose sums are divided.

    Entropies are summed over groups before one is divided by another. So a group on which the model
    is certain, whose own shares would be noise divided by almost nothing, has little weight.
    """
    if warning := unreadable_warning(sum(i.yes == 0.5 for i in items), len(items), ["not known"]):
        logger.warning(warning)
    parts, right = [], []  # a row for each group
    for of_group in _whole_groups(items):
        yes = np.reshape([item.yes for item in of_group], (-1, WORDINGS)).T
        found = entropy_components(np.stack([yes, 1 - yes], axis=-1))
        shares = np.nan_to_num([found.ps, found.as_, found.mu])  # NaN where the entropy is 0
        parts.append(shares * found.variance)
        right.append(np.reshape([item.right for item in of_group], (-1, WORDINGS)))
    purpose, articulation, chance = np.reshape(parts, (-1, 3)).T
    total = purpose + articulation + chance
    sizes = np.array([len(of_group) for of_group in right], dtype=np.float64)
    by_wording = np.reshape([of_group.sum(axis=0) for of_group in right], (-1, WORDINGS))
    worst = by_wording.sum(axis=0).argmin()
    all_right = np.array([float(of_group.all()) for of_group in right])
    return {
        "ps": Tally(purpose, total),
        "as": Tally(articulation, total),
        "mu": Tally(chance, total),
        "mvs": Tally(purpose, purpose + articulation),
        "acc": Tally(by_wording.sum(axis=1) / WORDINGS, sizes),
        "acc_worst_wording": Tally(by_wording[:, worst].astype(np.float64), sizes),
        "robust_acc": Tally(all_right, np.ones(len(right))),
    }


def _whole_groups(items: Sequence[Worded]) -> list[list[Worded]]:
    """Return complete groups, sorted by document and wording; warn about the others."""
    groups: dict[int, list[Worded]] = defaultdict(list)
    for item in sorted(items, key=lambda item: (item.row, item.wording)):
        groups[item.group].append(item)
    whole = [items for items in groups.values() if len(items) == WORDINGS * items[0].size]
    if lacking := len(groups) - len(whole):
        text = f"rewording: {lacking} of {len(groups)} groups lack documents or wordings (--limit)"
        warning_once(logger, f"{text} and do not count; {len(whole)} are complete")
    return whole
