"""Runs of the commands `pragworld-tasks`, `pragworld-interp` and `pragworld-train`."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


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
