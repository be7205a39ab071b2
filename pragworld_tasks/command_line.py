"""How a command of ours runs, and how it ends where a shell or its user ends it."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from pragworld_tasks.errors import InputError


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """Runs the `run` of what the arguments (None: those of the command line) are parsed to."""
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def at_least(options: object, **least: int) -> None:
    """Refuses options, by their names, that are less than they have to be.

    Raises:
        InputError: one of them is.
    """
    for name, needed in least.items():
        if (given := getattr(options, name)) < needed:
            raise InputError(f"--{name} {given}: at least {needed} is needed")
