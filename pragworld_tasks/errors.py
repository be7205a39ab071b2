"""The exceptions that a user's mistake raises."""


class InputError(ValueError):
    """Something the user gave is wrong: a file, a setting, an option.

    Its message is one line: what is wrong and where (file, row, task, model), what is required,
    and what to do. The commands print it and exit with status 2; so do the functions that lm-eval
    calls (`pragworld_tasks.harness`).
    """
