"""The `lm_eval` command with an index of our tasks only: `python -m pragworld_train.lm_eval_ours`.

lm-eval reads the files of all its tasks at every start, which takes seconds. Where only our tasks
are evaluated, nothing else needs to be read. Name their folder with `--include_path`, whether they
are linked or not.
"""

import functools

from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager


def leave_out_other_tasks() -> None:
    """Leave lm-eval's own tasks out of every task manager of this process."""
    TaskManager.__init__ = functools.partialmethod(TaskManager.__init__, include_defaults=False)


if __name__ == "__main__":
    leave_out_other_tasks()
    cli_evaluate()
