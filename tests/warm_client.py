"""Send a command to the process of `warm_commands.py`; importing this takes a moment only."""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PYTHON = "python"
KILLED = 137  # the status of a command that ends without one, as shells have it


def send(
    address: str,
    command: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    files: Sequence[int],
) -> socket.socket:
    """Have a command run in this process's folder.

    Args:
        address: The socket that the process listens on.
        command: The name of the command.
        arguments: Its arguments.
        environment: All of its environment variables.
        files: The descriptors of its standard input, output and error output.

    Returns:
        A connection from which two lines can be read: the id of the process that runs the command,
        and its exit status once it has ended, unless it was killed.
    """
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    request = {
        "command": command,
        "arguments": list(arguments),
        "folder": str(Path.cwd()),
        "environment": dict(environment),
        "python": str(Path(address).with_name(PYTHON)),
    }
    socket.send_fds(connection, [json.dumps(request).encode() + b"\n"], files)
    return connection


def main(address: str, command: str) -> None:
    """Run a command with the arguments, environment and files of this process, and end as it does.

    As `python`, only scripts and modules run in this way.
    """
    if command == PYTHON and sys.argv[1:2] != ["-m"] and not sys.argv[1].endswith(".py"):
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    with send(address, command, sys.argv[1:], os.environ, [0, 1, 2]).makefile() as replies:
        _, status = replies.readline(), replies.readline()
    sys.exit(int(status or KILLED))
