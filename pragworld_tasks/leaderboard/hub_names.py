"""Names on the Hugging Face Hub: of repositories, and of the tasks of the benchmark's dataset."""

import re

from pragworld_tasks.data.documents import has_alterations
from pragworld_tasks.data.sources import FILES
from pragworld_tasks.errors import InputError

_LONGEST_NAME = 96
_REPOSITORY = re.compile(r"[a-z0-9]([\w.-]*\w)?/[a-z0-9]([\w.-]*\w)?", re.ASCII | re.IGNORECASE)

_RANKED = {  # the metrics that the Hub ranks models by
    f"pragworld_{split}": ("robust_acc", "acc") if has_alterations(split) else ("acc",)
    for split in FILES
}


def is_repository(name: str) -> bool:
    """Return whether a repository on the Hub can have a name.

    Examples:
        >>> is_repository("Qwen/Qwen2.5-0.5B-Instruct"), is_repository("gpt-4o")
        (True, False)
    """
    return (
        bool(_REPOSITORY.fullmatch(name))
        and len(name) <= _LONGEST_NAME
        and "--" not in name
        and ".." not in name
    )


def check_repository(name: str, option: str) -> None:
    """Refuse what cannot be the name of a repository on the Hub.

    Args:
        name: the name to check.
        option: the option that it was passed to.

    Raises:
        InputError: It is not of the form OWNER/NAME.
    """
    if not is_repository(name):
        raise InputError(
            f"{option} {name}: not the name of a repository on a hub; it must have the form "
            "OWNER/NAME, of letters, digits and -_."
        )


def hub_task_ids(task: str) -> dict[str, str]:
    """Return the ids of an lm-eval task in the `eval.yaml` of the benchmark's dataset, by metric.

    A task on the Hub has one value, so each metric is a task of its own. There are such tasks for
    the paper's evaluation of each released split, and none for other prompts.

    Examples:
        >>> hub_task_ids("pragworld_manual")["robust_acc"]
        'pragworld_manual_robust_acc'
        >>> hub_task_ids("pragworld_manual_label")
        {}
    """
    return {metric: f"{task}_{metric}" for metric in _RANKED.get(task, ())}
