"""Runs of the commands `pragworld-tasks`, `pragworld-interp` and `pragworld-train`."""

import io
import os
import re
import select
import signal
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import pytest
from warm_client import KILLED, send
from warm_commands import install_clients

_SOCKET = "socket"
_PROGRAMS = "PRAGWORLD_PROGRAMS"  # the environment variable that names their folder


@contextmanager
def serve_programs() -> Iterator[None]:
    """Serve our commands to this process and its children, unless its parent already does."""
    if _PROGRAMS in os.environ:
        yield
        return
    with TemporaryDirectory() as folder:
        address = Path(folder, _SOCKET)
        command = [sys.executable, str(Path(__file__).with_name("warm_commands.py")), str(address)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
            assert server.stdout
            server.stdout.readline()  # it prints its address once it listens
            install_clients(Path(folder), address)
            os.environ[_PROGRAMS] = folder
            yield
            del os.environ[_PROGRAMS]
            server.kill()


def programs() -> Path:
    """Return the folder of programs that run our commands without importing anything themselves."""
    return Path(os.environ[_PROGRAMS])


def commands_of(parser: ArgumentParser, name: str) -> Iterator[tuple[str, ArgumentParser]]:
    """Yield the commands of a program, each with its parser; a program may be one itself."""
    subparsers = [each for each in parser._actions if isinstance(each, _SubParsersAction)]
    for action in subparsers:
        for command, below in action.choices.items():
            yield from commands_of(below, f"{name} {command}")
    if not subparsers:
        yield name, parser


def parsers() -> dict[str, ArgumentParser]:
    """Return the parser of every command of our three programs, by its words."""
    from pragworld_interp import cli as interp
    from pragworld_tasks import cli as tasks
    from pragworld_train import cli as train

    with mock.patch.object(tasks, "run_command") as run:
        tasks.main([])
    (tasks_parser, _), _ = run.call_args
    programs = {"pragworld-tasks": tasks_parser, "pragworld-interp": interp._parser()}
    programs["pragworld-train"] = train.help_parser()
    return dict(each for name, parser in programs.items() for each in commands_of(parser, name))


@contextmanager
def refused(pattern: str) -> Iterator[io.StringIO]:
    """Expect a command's `main` to end with status 2 and a line on stderr that has the pattern."""
    with redirect_stderr(io.StringIO()) as stderr, pytest.raises(SystemExit) as ended:
        yield stderr
    assert ended.value.code == 2
    *_, line = stderr.getvalue().splitlines()
    assert re.search(pattern, line), line


def run_program(
    name: str, *arguments: str | Path, status: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command, or `python`, in a fork of a process that has imported torch and lm-eval.

    It has to end with an exit status.
    """
    command = [str(programs() / name), *map(str, arguments)]
    variables = {**os.environ, **environment}
    process = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert process.returncode == status, process.stderr
    return process


def run_in_two_processes(
    name: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program in two processes, which torchrun launches and connects."""
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "--no-python")
    words = [*launcher, programs() / name, *arguments]
    return run_program("python", *words, status=0, **environment)


class Program:
    """A run of one of our programs in the background.

    Attributes:
        pid: The id of its process.
    """

    def __init__(self, name: str, *arguments: str | Path, log: Path) -> None:
        """Start the program; what it prints goes to `log`."""
        address, words = str(programs() / _SOCKET), [str(word) for word in arguments]
        with log.open("wb") as output, Path(os.devnull).open() as nothing:
            files = [nothing.fileno(), output.fileno(), output.fileno()]
            self._replies = send(address, name, words, os.environ, files).makefile()
        self.pid = int(self._replies.readline())

    def runs(self) -> bool:
        """Return whether it has not ended."""
        return not select.select([self._replies], [], [], 0)[0]

    def stop(self, how: signal.Signals) -> int:
        """Send a signal, unless it has ended, and return its exit status, as shells have it."""
        if self.runs():
            os.kill(self.pid, how)
        with self._replies:
            return int(self._replies.readline() or KILLED)
