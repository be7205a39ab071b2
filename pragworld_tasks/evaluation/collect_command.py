"""The command `pragworld-tasks collect`: it runs lm_eval so that an interrupted run resumes.

Its model answers a few prompts at a time and keeps their responses in a journal. Each chunk is
seeded by its requests, not by what ran before it, so on one machine a model that samples with torch
writes the same responses whether or not its run was interrupted.
"""

import argparse
import functools
import hashlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pragworld_tasks.command_line import Commands, add_command, at_least
from pragworld_tasks.errors import InputError, printable
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.journal import open_journal
from pragworld_tasks.link import task_folder

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM

_MAY_CHANGE = read_package_toml(__package__, "model_arguments.toml")["may_change"]


def add_collect(commands: Commands) -> None:
    """Add the command `collect`."""
    command = add_command(
        commands,
        "collect",
        _collect,
        "run lm_eval so that an interrupted run resumes",
        description="It passes further options to lm_eval and keeps the responses to a few "
        "prompts at a time in FOLDER. Rerun the same command to resume an interrupted run.",
        example="pragworld-tasks collect --tasks world_model --output_path runs \\\n"
        "  --model hf --model_args pretrained=… --apply_chat_template",
    )
    command.add_argument("--output_path", required=True, type=Path, metavar="FOLDER")
    command.add_argument("--chunk", type=int, default=15, help="prompts at a time; default: 15")
    command.add_argument("--seed", type=int, default=1234, help="default: 1234")
    command.set_defaults(passed_on=[])


def _collect(options: argparse.Namespace) -> None:
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api import registry

    at_least(options, chunk=1, seed=0)
    get_model, arguments = registry.get_model, sys.argv
    registry.get_model = lambda name: _resumable(name, get_model(name), options)
    sys.argv = [
        *("lm_eval", "run", "--log_samples", "--output_path", str(options.output_path)),
        *("--seed", str(options.seed), "--include_path", str(task_folder()), *options.passed_on),
    ]
    try:
        cli_evaluate()
    except InputError:
        raise
    except Exception as error:  # whatever a model, its server or lm-eval may raise
        raise InputError(
            f"lm_eval failed with {type(error).__name__} ({printable(error):.300}); "
            "correct that, then rerun the command to resume"
        ) from error
    finally:
        registry.get_model, sys.argv = get_model, arguments


def _resumable(name: str, kind: type["LM"], options: argparse.Namespace) -> SimpleNamespace:
    """Return what stands for one of lm-eval's kinds of models, and whose models resume."""

    def create(arguments: Mapping[str, Any], more: dict[str, Any]) -> "LM":
        model = kind.create_from_arg_obj({**arguments}, more)
        identity = {
            "model": name,
            "model_args": {key: arguments[key] for key in arguments if key not in _MAY_CHANGE},
            "chunk": options.chunk,
            "seed": options.seed,
        }
        path = options.output_path / f"responses-{_digest(identity)[:12]}.journal"
        model.generate_until = functools.partial(_resume, model.generate_until, path, identity)
        return model

    return SimpleNamespace(create_from_arg_obj=create)


def _resume(
    ask: Callable[[list["Instance"]], list[str | None]],
    path: Path,
    identity: Mapping[str, Any],
    requests: Sequence["Instance"],
) -> list[str | None]:
    """Return the responses to requests, and ask only for those that are not in the journal yet."""
    import numpy as np
    from lm_eval.utils import set_torch_seed
    from tqdm import tqdm

    responses: list[str | None] = []
    with open_journal(path, identity) as journal:
        kept = {record["chunk"]: record["responses"] for record in journal.records}
        chunks = itertools.groupby(
            requests, key=lambda one: (one.task_name, one.doc_id // identity["chunk"])
        )
        for chunk in tqdm([[*group] for _, group in chunks], desc="chunks", disable=None):
            content = [(one.task_name, one.doc_id, one.args) for one in chunk]
            name = _digest([identity["seed"], content])
            if name not in kept:
                for seed in (random.seed, np.random.seed, set_torch_seed):
                    seed(int(name[:8], 16))
                kept[name] = ask(chunk)
                journal.append({"chunk": name, "responses": kept[name]})
            responses += kept[name]
    return responses


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
