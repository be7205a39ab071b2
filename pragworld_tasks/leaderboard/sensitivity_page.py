"""What the page of sensitivity shows: PS, AS and MU of several models by domain and question."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pragworld_tasks.errors import InputError
from pragworld_tasks.sensitivity.components import Scale
from pragworld_tasks.sensitivity.decomposition_file import (
    DomainDecomposition,
    EstimateRecord,
    TaskDecomposition,
    read_decomposition,
)
from pragworld_tasks.text import format_number


class DomainRow(NamedTuple):
    """A model on the questions of a domain.

    Attributes:
        means: the means over its questions.
        floor: the AS that these questions would show on average if wording had no effect; None
            where it is not defined.
        questions: the questions.
    """

    means: DomainDecomposition
    floor: float | None
    questions: Sequence[TaskDecomposition]


@dataclass(frozen=True)
class ScaleView:
    """All decompositions of values on one scale, by domain."""

    scale: Scale
    domains: dict[str, list[DomainRow]]


def read_sensitivity(paths: Sequence[Path]) -> list[ScaleView]:
    """Read decompositions, and return those of each scale together.

    Raises:
        InputError: A file cannot be read or contradicts itself, or two files have the same model
            on the same domain.
    """
    views: dict[Scale, ScaleView] = {}
    first: dict[tuple[str, str, str], Path] = {}
    for path in paths:
        content = read_decomposition(path)
        view = views.setdefault(content.scale, ScaleView(content.scale, {}))
        for means in content.domains:
            other = first.setdefault((content.scale, means.domain, means.model), path)
            rows = view.domains.setdefault(means.domain, [])
            if any(row.means.model == means.model for row in rows):
                raise InputError(
                    f"{path}: {means.model} on {means.domain} is also in {other}; give one of them"
                )
            questions = content.questions(means)
            rows.append(DomainRow(means, _floor(means, questions), questions))
    return list(views.values())


def share_text(estimate: EstimateRecord) -> str:
    """Return an estimate with three decimals and its interval, or a dash where it is undefined."""
    if estimate.value is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{format_number(estimate.value)} [-]"
    ends = ", ".join(map(format_number, (estimate.low, estimate.high)))
    return f"{format_number(estimate.value)} [{ends}]"


def _floor(means: DomainDecomposition, questions: Sequence[TaskDecomposition]) -> float | None:
    """Return the mean floor over the questions that the mean AS is over."""
    left_out = means.left_out.get("published", {}).get("as", [])
    floors = [task.floor for task in questions if task.question not in left_out]
    defined = [floor for floor in floors if floor is not None]
    if not defined or len(defined) < len(floors):
        return None
    return math.fsum(defined) / len(defined)
