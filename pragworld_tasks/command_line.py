"""How a command runs, and how it ends when its user, its input or a shell ends it."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from pragworld_tasks.errors import InputError


def end_with(error: InputError) -> NoReturn:
    """End the process with the error's message on one line and exit status 2."""
    print(error, file=sys.stderr)
    sys.exit(2)


@contextmanager
def clean_exit() -> Iterator[None]:
    """Turn what ends a command early into one line and an exit status, without a traceback.

    An `InputError` exits with 2, Ctrl-C with 130, and a reader of our output that has gone, such
    as `head`, with 141.
    """
    try:
        yield
        sys.stdout.flush()
    except InputError as error:
        end_with(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """Parse the arguments (None: those of the command line) and call the `run` of the result."""
    options = parser.parse_args(arguments)
    with clean_exit():
        options.run(options)


def at_least(options: object, **least: int) -> None:
    """Refuse options, given by name, that are smaller than they have to be.

    Raises:
        InputError: An option is too small.
    """
    for name, needed in least.items():
        if (given := getattr(options, name)) < needed:
            raise InputError(f"--{name} {given}: must be at least {needed}")
