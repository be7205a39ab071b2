"""Runs of the commands `pragworld-tasks`, `pragworld-interp` and `pragworld-train`."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import pytest


@contextmanager
def refused(pattern: str) -> Iterator[io.StringIO]:
    """Expect a command's `main` to end with status 2 and a line on stderr that has the pattern."""
    with redirect_stderr(io.StringIO()) as stderr, pytest.raises(SystemExit) as ended:
        yield stderr
    assert ended.value.code == 2
    *_, line = stderr.getvalue().splitlines()
    assert re.search(pattern, line), line


def run_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`pragworld-tasks` in a process of its own, with these environment variables besides ours."""
    return _run("pragworld_tasks", arguments, environment)


def run_interp(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same of `pragworld-interp`."""
    return _run("pragworld_interp", arguments, environment)


def run_train(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The same of `pragworld-train`."""
    return _run("pragworld_train", arguments, environment)


def _run(
    package: str, arguments: Sequence[str | Path], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", package, *map(str, arguments)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)
