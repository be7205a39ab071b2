"""Runs of the commands `pragworld-tasks`, `pragworld-interp` and `pragworld-train`."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from servers import serve
from warm_commands import install_clients

_PROGRAMS = "PRAGWORLD_PROGRAMS"  # the environment variable that names their folder


@contextmanager
def serve_programs() -> Iterator[None]:
    """Serve our commands to this process and its children, unless its parent already does."""
    if _PROGRAMS in os.environ:
        yield
        return
    with (
        TemporaryDirectory() as folder,
        serve("warm_commands.py", str(Path(folder, "socket"))) as address,
    ):
        install_clients(Path(folder), Path(address))
        os.environ[_PROGRAMS] = folder
        yield
        del os.environ[_PROGRAMS]


def programs() -> Path:
    """Return the folder of programs that run our commands without importing anything themselves."""
    return Path(os.environ[_PROGRAMS])


@contextmanager
def refused(pattern: str) -> Iterator[io.StringIO]:
    """Expect a command's `main` to end with status 2 and a line on stderr that has the pattern."""
    with redirect_stderr(io.StringIO()) as stderr, pytest.raises(SystemExit) as ended:
        yield stderr
    assert ended.value.code == 2
    *_, line = stderr.getvalue().splitlines()
    assert re.search(pattern, line), line


def run_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `pragworld-tasks` in a new process, with these environment variables besides ours."""
    return _run([sys.executable, "-m", "pragworld_tasks"], arguments, environment)


def run_program(
    name: str, *arguments: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command, or `python`, in a fork of a process that has imported torch and lm-eval."""
    return _run([str(programs() / name)], arguments, environment)


def _run(
    command: Sequence[str], arguments: Sequence[str | Path], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
