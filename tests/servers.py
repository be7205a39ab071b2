"""Server processes on this machine, for as long as a test needs them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def serve(script: str, *arguments: str) -> Iterator[str]:
    """A script of this folder that prints its address once it listens: that address."""
    command = [sys.executable, str(Path(__file__).with_name(script)), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()
