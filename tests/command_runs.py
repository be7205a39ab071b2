"""Runs of the command `pragworld-tasks`."""

import os
import subprocess
import sys
from pathlib import Path


def run_command(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with these environment variables besides ours."""
    command = [sys.executable, "-m", "pragworld_tasks", *map(str, arguments)]
    environment = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)
