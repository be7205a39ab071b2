"""Serve the project's commands from a process that has imported everything once.

    python warm_commands.py SOCKET

Importing torch, transformers and lm-eval takes several seconds, too long to spend on every command
that the tests run. This process imports them once, at the first request on the socket, and answers
each request with a fork of itself, which takes over the directory, the environment and the open
files of the sender. `warm_client` sends a request, and `install_clients` writes programs that do.

Where the environment sets `PARSE_ONLY`, a command ends once its arguments are parsed: with status 0
if they are valid, and 2 if they are not. Of a script without arguments, only the imports are run.
Where it sets `WHOLE_INDEX`, lm-eval scans its own tasks, too, as it does outside of tests.
"""

import argparse
import ast
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from warm_client import PYTHON

import pragworld_interp
import pragworld_tasks
import pragworld_train

PARSE_ONLY = "PRAGWORLD_PARSE_ONLY"
WHOLE_INDEX = "PRAGWORLD_WHOLE_INDEX"
MAINS = {
    "lm_eval": ("lm_eval.__main__", "cli_evaluate"),
    "pragworld-tasks": ("pragworld_tasks.cli", "main"),
    "pragworld-interp": ("pragworld_interp.cli", "main"),
    "pragworld-train": ("pragworld_train.cli", "main"),
}
# What the commands import once they run, besides our own modules.
_LIBRARIES = (
    *("lm_eval.evaluator", "lm_eval.models.huggingface", "lm_eval.models.openai_completions"),
    *("pytablewriter", "scipy.stats", "transformers.models.llama.modeling_llama"),
)

_CLIENT = """#!{python} -IS
import sys
sys.path.insert(0, {folder!r})
from warm_client import main
main({address!r}, {command!r})
"""


def install_clients(folder: Path, address: Path) -> None:
    """Write a program for each command, and for `python`, that sends its call to the server."""
    for command in (*MAINS, PYTHON):
        names = {"folder": str(Path(__file__).parent), "address": str(address)}
        program = folder / command
        program.write_text(_CLIENT.format(python=sys.executable, command=command, **names))
        program.chmod(0o755)


def serve(address: str) -> None:
    """Answer requests until this process is ended."""
    signal.signal(signal.SIGCHLD, _collect_forks)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print(address, flush=True)
        while True:
            connection, _ = listener.accept()
            _import_all()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                # Whoever runs in the background ignores interrupts, and so do its children.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                _answer(connection)
            connection.close()


@cache
def _import_all() -> None:
    """Import what takes long, and every module of the three packages that a command may import."""
    os.environ["OMP_NUM_THREADS"] = "1"  # a fork has none of the threads of its parent
    for name in _LIBRARIES:
        importlib.import_module(name)
    for package in (pragworld_tasks, pragworld_interp, pragworld_train):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):  # those run as scripts
                importlib.import_module(module.name)
    for name, _ in MAINS.values():
        importlib.import_module(name)
    _leave_out_descriptions()
    gc.freeze()  # forks that collect garbage need not look for any among the modules


def _collect_forks(*_: object) -> None:
    """Wait for the forks that have ended, so that their time counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _scan_our_tasks_only() -> None:
    """Keep lm-eval from scanning its own tasks, which takes seconds, and let it find ours."""
    from lm_eval.tasks import TaskManager

    from pragworld_tasks.link import task_folder

    scan: Callable[..., None] = TaskManager.__init__

    def scan_ours(self: TaskManager, *args: Any, **kwargs: Any) -> None:
        kwargs["include_path"] = kwargs.get("include_path") or str(task_folder())
        scan(self, *args, **(kwargs | {"include_defaults": False}))

    mock.patch.object(TaskManager, "__init__", scan_ours).start()


def _leave_out_descriptions() -> None:
    """Keep lm-eval from describing the machine, and torchrun its method, which take a second each."""
    mock.patch("torch.utils.collect_env.get_pretty_env_info", return_value="").start()
    rendezvous = "torch.distributed.elastic.rendezvous.dynamic_rendezvous"
    mock.patch(f"{rendezvous}.get_method_name", return_value="").start()


def _answer(connection: socket.socket) -> NoReturn:
    """Send this process's id, run the command that the connection asks for, send its status, end."""
    text, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += connection.recv(1 << 20)
    for file, target in zip(files, (0, 1, 2), strict=True):
        os.dup2(file, target)
        os.close(file)
    status = 1
    try:
        connection.send(f"{os.getpid()}\n".encode())
        status = _run(json.loads(text))
    finally:  # whatever happened, this process must not go back to the server's loop
        if sys.exception():
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        with contextlib.suppress(OSError):  # the sender may have gone
            connection.send(f"{status}\n".encode())
        os._exit(status)


def _run(request: Mapping[str, Any]) -> int:
    """Run a command in this process and return its exit status."""
    os.chdir(request["folder"])
    sys.executable = request["python"]  # so that what the command starts is a fork, too
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if WHOLE_INDEX not in os.environ:
        _scan_our_tasks_only()
    if PARSE_ONLY in os.environ:
        _end_after_parsing()
    command, arguments = request["command"], request["arguments"]
    sys.argv = [command, *arguments]
    try:
        if command == PYTHON:
            _run_python(arguments)
        else:
            module, function = MAINS[command]
            getattr(sys.modules[module], function)()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _run_python(arguments: Sequence[str]) -> None:
    """Run a script or module as Python does; to parse one that takes no arguments is to run its imports."""
    is_script = arguments[0].endswith(".py")
    sys.path.insert(0, str(Path(arguments[0]).resolve().parent if is_script else Path.cwd()))
    sys.argv = list(arguments)
    if PARSE_ONLY in os.environ and len(arguments) == 1:
        script = ast.parse(Path(arguments[0]).read_text(encoding="utf-8"))
        script.body = [
            line for line in script.body if isinstance(line, ast.Import | ast.ImportFrom)
        ]
        exec(compile(script, arguments[0], "exec"), {})
    elif arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(arguments[0], run_name="__main__")


def _end_after_parsing() -> None:
    """Make a command end once its arguments are parsed, before anything is made of them.

    Our commands and TRL's parser call `parse_known_args`, not `parse_args`.
    """
    from trl import TrlParser

    parse_args: Callable[..., Any] = argparse.ArgumentParser.parse_args
    parse_known_args: Callable[..., Any] = argparse.ArgumentParser.parse_known_args

    def parse_and_end(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> NoReturn:
        parse_args(self, *args, **kwargs)
        sys.exit(0)

    def parse_known(self: argparse.ArgumentParser, *args: Any, **kwargs: Any) -> Any:
        parsed, unknown = parse_known_args(self, *args, **kwargs)
        if isinstance(self, TrlParser):
            if unknown:
                self.error(f"unrecognized arguments: {' '.join(unknown)}")
            sys.exit(0)
        return parsed, unknown

    mock.patch("pragworld_tasks.command_line.clean_exit", side_effect=SystemExit(0)).start()
    mock.patch.object(argparse.ArgumentParser, "parse_args", parse_and_end).start()
    mock.patch.object(argparse.ArgumentParser, "parse_known_args", parse_known).start()


if __name__ == "__main__":
    serve(sys.argv[1])
