"""How a command runs, and how it ends when its user, its input or a shell ends it."""

import argparse
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from pragworld_tasks.errors import InputError, printable


@contextmanager
def clean_exit() -> Iterator[None]:
    """Turn what ends a command early into one line and an exit status, without a traceback.

    An `InputError` exits with 2, Ctrl-C with 130, and a reader of our output that has gone, such as
    `head`, with 141.
    """
    try:
        yield
        sys.stdout.flush()
    except InputError as error:
        print(printable(error), file=sys.stderr)
        sys.exit(2)
    except SystemExit as end:  # of a function that lm-eval calls: see `harness`
        if isinstance(end.code, str):
            print(printable(end.code), file=sys.stderr)
            end.code = 2
        raise
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], object],
    summary: str,
    *,
    example: str,
    description: str = "",
) -> argparse.ArgumentParser:
    """Add a command, which calls `run` with its options, and return its parser.

    The summary is a sentence without its full stop; the example has a command line in each line.
    """
    whole = f"{summary[0].upper()}{summary[1:]}. {description}"
    command = commands.add_parser(
        name,
        help=summary,
        description=textwrap.fill(whole, 80),
        epilog="example:\n" + textwrap.indent(example, "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> None:
    """Parse the arguments (None: those of the command line) and call the `run` of the result.

    A command with a default for `passed_on` takes unknown options as that, for another program.
    """
    options, unknown = parser.parse_known_args(arguments)
    if hasattr(options, "passed_on"):
        options.passed_on = unknown
    elif unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    with clean_exit():
        options.run(options)


def at_least(options: object, **least: int) -> None:
    """Refuse options, given by name, that are smaller than they have to be."""
    for name, needed in least.items():
        given = getattr(options, name)
        if given is not None and given < needed:
            option = name.replace("_", "-")
            raise InputError(f"--{option} {given}: must be at least {needed}")
