"""The one error that a user's mistake raises."""


class InputError(SystemExit, ValueError):
    """Something the user gave is wrong: a file, a setting, an option.

    Its message is one line: what was wrong, where (file, row, task, model), and what to do.

    It is a `ValueError`, so code that calls this library catches it as any other exception. It is
    a `SystemExit` too, so that where nothing catches it, under `lm_eval` as under our own commands,
    Python prints that one line and exits with status 1, without a traceback.
    """
