"""The lm_eval command with a task manager that scans our tasks only.

lm-eval's own index takes seconds at every start, most of what a test on the small model needs.
`test_lm_eval.py` runs the plain command with the whole index, too.
"""

import functools

from lm_eval.__main__ import cli_evaluate
from lm_eval.tasks import TaskManager


def scan_our_tasks_only() -> None:
    """Leave lm-eval's own tasks out of every task manager of this process."""
    TaskManager.__init__ = functools.partialmethod(TaskManager.__init__, include_defaults=False)


if __name__ == "__main__":
    scan_our_tasks_only()
    cli_evaluate()
