"""The command `pragworld-tasks collect`: lm-eval in chunks, so that a killed run goes on.

The model is loaded once, and lm-eval's own `evaluate` is called on a few documents at a time. What
comes back is appended, in lm-eval's format, to a file for each task. A run that is started again
skips the chunks that are there. Each chunk is seeded by what it is (task, first document, round),
not by what ran before it, so on one machine a model that samples by torch writes the same
responses whether its run was killed or not.
"""

import argparse
import functools
import hashlib
import json
import os
import random
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.command_line import at_least
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import json_object, read_json_lines, read_text
from pragworld_tasks.link import task_folder

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.api.task import Task
    from lm_eval.tasks import TaskManager

_CHUNK = 15
_SETTINGS = "collect.json"
# Of --model_args: how a server is reached, which may change from day to day, and secrets.
_NOT_KEPT = (
    *("base_url", "num_concurrent", "max_retries", "timeout", "batch_size", "device"),
    *("token", "api_key", "header"),
)


def add_collect(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to those of `pragworld-tasks`."""
    command = commands.add_parser(
        "collect",
        help="run lm-eval in chunks; a killed run goes on where it was",
        description="Runs lm-eval on tasks that generate text, a few documents at a time, and "
        "appends what comes back to OUTPUT_PATH/MODEL/samples_TASK.jsonl. The same command goes on "
        "where a killed one was. `pragworld-tasks decompose` reads the files.",
    )
    lm_eval = command.add_argument_group("as for lm_eval")
    lm_eval.add_argument("--model", default="hf", help="default: hf")
    lm_eval.add_argument("--model_args", default="", help="as in pretrained=…,dtype=bfloat16")
    lm_eval.add_argument("--tasks", required=True, help="names, with commas")
    lm_eval.add_argument("--output_path", required=True, type=Path, metavar="FOLDER")
    lm_eval.add_argument("--batch_size", default="1")
    lm_eval.add_argument("--max_batch_size", type=int)
    lm_eval.add_argument("--device", default="cuda:0", help="default: cuda:0, else the CPU")
    lm_eval.add_argument("--gen_kwargs", default="", help="as in max_gen_toks=1024, or JSON")
    lm_eval.add_argument("--metadata", default="{}", help="JSON for the tasks")
    lm_eval.add_argument("--include_path", help="a folder of tasks")
    lm_eval.add_argument("--system_instruction")
    lm_eval.add_argument(
        "--apply_chat_template", nargs="?", const=True, default=False, metavar="NAME"
    )
    lm_eval.add_argument("--seed", type=int, default=1234, help="default: 1234")
    command.add_argument(
        "--chunk",
        type=int,
        default=_CHUNK,
        metavar="N",
        help=f"documents at a time, which is what a kill may cost; default: {_CHUNK}",
    )
    command.add_argument(
        "--top_up",
        type=int,
        default=0,
        metavar="ROUNDS",
        help="ask prompts that are short of readable responses again, so often at most",
    )
    command.set_defaults(run=_collect)


@dataclass(frozen=True)
class _Chunk:
    """Documents that are asked together.

    Attributes:
        round: 0; from 1 where prompts are topped up.
        documents: their numbers in the task.
        repeats: responses to each.
    """

    round: int
    documents: tuple[int, ...]
    repeats: int

    @property
    def name(self) -> str:
        """What its lines in the file are marked with."""
        return f"{self.round}: {','.join(map(str, self.documents))}"


def _collect(options: argparse.Namespace) -> None:
    from filelock import FileLock, Timeout

    at_least(options, chunk=1, top_up=0, seed=0)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError(
            "collect: one process only; let the model take several devices (parallelize=True, "
            "tensor_parallel_size=…) or serve it"
        )
    ask = _Asker(options)
    tasks = _tasks(options)
    folder = options.output_path / _model_folder(options)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; name another place") from error
    try:
        with FileLock(folder / ".collect.lock", blocking=False):
            _keep_settings(folder, _settings(options), tasks)
            for name, task in tasks.items():
                _collect_task(options, ask, folder / f"samples_{name}.jsonl", name, task)
    except Timeout as error:
        raise InputError(f"{folder}: another process collects there; wait for its end") from error


def _collect_task(
    options: argparse.Namespace, ask: "_Asker", path: Path, name: str, task: "Task"
) -> None:
    """All rounds of one task."""
    from tqdm import tqdm

    wanted = task.config.repeats
    done = _done(path)
    for round_ in range(options.top_up + 1):
        plan = _plan(task, wanted, path, round_, options.chunk)
        if not plan:
            break
        asked = sum(len(chunk.documents) for chunk in plan)
        what = name if round_ == 0 else f"{name}, topped up ({round_})"
        with tqdm(total=asked, desc=what, unit="prompt", disable=None) as bar:
            for chunk in plan:
                if chunk.name not in done:
                    _append(path, chunk, ask(name, task, chunk))
                bar.update(len(chunk.documents))
    print(path)
    if options.top_up and (short := _short(path, wanted, options.top_up + 1)):
        print(f"{name}: {len(short)} prompts are still short of {wanted} readable responses")


# What is asked ------------------------------------------------------------------------------------


def _tasks(options: argparse.Namespace) -> dict[str, "Task"]:
    """The tasks by name, those of groups too, with what the command line changes in them."""
    metadata = json_object(options.metadata, "--metadata")
    changes = _arguments(options.gen_kwargs)
    wanted = [name.strip() for name in options.tasks.split(",")]
    manager = _manager(options.include_path, {**_arguments(options.model_args), **metadata}, wanted)
    if unknown := [name for name in wanted if name not in manager.all_tasks]:
        raise InputError(f"no task {unknown[0]!r}; `pragworld-tasks list` names ours")
    tasks: dict[str, Task] = manager.load(wanted)["tasks"]
    for name, task in tasks.items():
        if task.OUTPUT_TYPE != "generate_until":
            raise InputError(f"{name}: it generates no text; run it with lm_eval")
        if options.top_up and "unit" not in task.eval_docs[0]:
            raise InputError(f"{name}: --top_up is for the world_model tasks")
        if changes:
            task.set_config("generation_kwargs", changes, update=True)
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
    return tasks


def _manager(folder: str | None, metadata: dict[str, Any], wanted: list[str]) -> "TaskManager":
    """What knows the tasks; ours alone if no others are wanted, since lm-eval's take seconds."""
    from lm_eval.tasks import TaskManager

    if folder is None:
        ours = TaskManager(
            include_path=str(task_folder()), include_defaults=False, metadata=metadata
        )
        if set(wanted) <= set(ours.all_tasks):
            return ours
    return TaskManager(include_path=folder, metadata=metadata)


def _plan(task: "Task", repeats: int, path: Path, round_: int, size: int) -> list[_Chunk]:
    """The chunks of a round: all documents, later those short of readable responses till then.

    What a round asks depends on the rounds before it alone, so it is the same after a kill.
    """
    if round_ == 0:
        wanted = [(number, repeats) for number in range(len(task.eval_docs))]
    else:
        wanted = _short(path, repeats, round_)
    chunks = [wanted[start : start + size] for start in range(0, len(wanted), size)]
    return [
        _Chunk(round_, tuple(number for number, _ in chunk), max(repeats for _, repeats in chunk))
        for chunk in chunks
    ]


def _short(path: Path, repeats: int, round_: int) -> list[tuple[int, int]]:
    """Documents with too few readable responses before a round, and how many they lack.

    Those that lack most come first, so that a chunk's documents lack about the same.
    """
    from pragworld_tasks.sensitivity.task_metrics import Prompted

    readable: Counter[int] = Counter()
    for _, record in read_json_lines(path):
        if record["round"] < round_:
            values = Prompted(*record["unreadable"]).values
            readable[record["doc_id"]] += sum(value is not None for value in values)
    short = [(number, repeats - there) for number, there in readable.items() if there < repeats]
    return sorted(short, key=lambda one: (-one[1], one[0]))


class _Asker:
    """lm-eval with one model, which is loaded when the first question is asked."""

    def __init__(self, options: argparse.Namespace) -> None:
        from lm_eval.api.registry import get_model

        self._options = options
        try:
            self._kind: type[LM] = get_model(options.model)
        except (KeyError, ValueError) as error:
            raise InputError(f"--model {options.model}: lm_eval knows no such kind") from error

    @functools.cached_property
    def _model(self) -> "LM":
        options = self._options
        more = {
            "batch_size": options.batch_size,
            "max_batch_size": options.max_batch_size,
            "device": options.device,
        }
        return self._kind.create_from_arg_obj(_arguments(options.model_args), more)

    def __call__(self, name: str, task: "Task", chunk: _Chunk) -> list[dict[str, Any]]:
        """The samples of a chunk, as lm-eval logs them.

        Raises:
            InputError: the model cannot be loaded or asked.
        """
        from lm_eval.evaluator import evaluate

        from pragworld_tasks.log import logger

        repeats = task.config.repeats
        try:
            model = self._model
            _seed(self._options.seed, name, chunk)
            task.set_config("repeats", chunk.repeats)
            found = evaluate(
                lm=model,
                task_dict={"tasks": {name: task}, "groups": {}},
                samples={name: list(chunk.documents)},
                bootstrap_iters=0,
                system_instruction=self._options.system_instruction,
                apply_chat_template=self._options.apply_chat_template,
            )
        except Exception as error:  # whatever a model, its server or lm-eval may raise
            logger.debug("collect", exc_info=True)
            said = " ".join(str(error).split())
            raise InputError(
                f"{name}: lm_eval ends with {type(error).__name__} ({said:.300}); what was "
                "collected stays, and the same command goes on"
            ) from error
        finally:
            task.set_config("repeats", repeats)
        samples: list[dict[str, Any]] = found["samples"][name]
        return samples


def _seed(seed: int, task: str, chunk: _Chunk) -> None:
    """Seeds what a model may draw from. Without this, a round would repeat the one before it."""
    import numpy as np
    from lm_eval.utils import set_torch_seed

    entropy = [seed, zlib.crc32(task.encode()), chunk.round, chunk.documents[0]]
    number = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    random.seed(number)
    np.random.seed(number)
    set_torch_seed(number)


# What is written ----------------------------------------------------------------------------------


def _append(path: Path, chunk: _Chunk, samples: Iterable[Mapping[str, Any]]) -> None:
    """Appends a chunk's samples; they are on the disk when this returns."""
    from lm_eval.utils import handle_non_serializable

    lines = [
        json.dumps(
            {**sample, "round": chunk.round, "chunk": chunk.name},
            default=handle_non_serializable,
            ensure_ascii=False,
        )
        for sample in samples
    ]
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write("".join(line + "\n" for line in lines))
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; run the command again to go on") from error


def _done(path: Path) -> set[str]:
    """The names of the chunks that are whole; what a kill left of another is taken off the file."""
    from pragworld_tasks.files import write_whole

    if not path.exists():
        return set()
    content = path.read_bytes()
    lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
    try:
        names = [str(json.loads(line)["chunk"]) for line in lines]
    except (ValueError, LookupError, TypeError) as error:
        raise InputError(f"{path}: not what collect wrote; move it away") from error
    sizes = Counter(names)
    whole = {name for name, size in sizes.items() if size == name.count(",") + 1}
    kept = b"".join(line for line, name in zip(lines, names, strict=True) if name in whole)
    if kept != content:
        write_whole(path, kept)
    return whole


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What makes responses what they are; not how a server is reached, and no secrets."""
    arguments = _arguments(options.model_args)
    return {
        "model": options.model,
        "model_args": {name: arguments[name] for name in arguments if name not in _NOT_KEPT},
        "apply_chat_template": options.apply_chat_template,
        "system_instruction": options.system_instruction,
        "seed": options.seed,
        "chunk": options.chunk,
        "versions": {name: version(name) for name in ("pragworld", "lm_eval")},
    }


def _task_settings(task: "Task") -> dict[str, Any]:
    """How often which prompts are asked, and how responses are generated."""
    documents = json.dumps(list(task.eval_docs), sort_keys=True, default=str)
    return {
        "repeats": task.config.repeats,
        "generation_kwargs": task.config.generation_kwargs,
        "documents": hashlib.sha256(documents.encode()).hexdigest(),
    }


def _keep_settings(folder: Path, settings: Mapping[str, Any], tasks: Mapping[str, "Task"]) -> None:
    """Writes the settings, or refuses to go on with responses that had others."""
    from pragworld_tasks.files import write_json

    path = folder / _SETTINGS
    given = json.loads(
        json.dumps({**settings, "tasks": {name: _task_settings(tasks[name]) for name in tasks}})
    )
    if path.exists() and any(folder.glob("samples_*.jsonl")):
        before = json_object(read_text(path), str(path))
        for name in settings:
            _refuse_other(path, name, before.get(name), given[name])
        known = before.get("tasks", {})
        for task in tasks:
            for name in known.get(task, ()):
                _refuse_other(
                    path, f"{name} of {task}", known[task][name], given["tasks"][task][name]
                )
        given["tasks"] = {**known, **given["tasks"]}
    write_json(path, given)


def _refuse_other(path: Path, name: str, before: Any, given: Any) -> None:
    if before != given:
        raise InputError(
            f"{path}: begun with {name} {before!r:.200}, not {given!r:.200}; go on with that, or "
            "name another --output_path"
        )


def _model_folder(options: argparse.Namespace) -> str:
    """What lm-eval calls the folder of a model's results."""
    from lm_eval.utils import sanitize_model_name

    arguments = _arguments(options.model_args)
    named = [arguments[name] for name in ("pretrained", "model", "path") if name in arguments]
    return str(sanitize_model_name(str(named[0] if named else options.model)))


# What was typed -----------------------------------------------------------------------------------


def _arguments(text: str) -> dict[str, Any]:
    """`a=1,b=2`, or JSON, as lm-eval reads it."""
    from lm_eval.utils import simple_parse_args_string

    if text.lstrip().startswith("{"):
        return json_object(text, "arguments")
    if any("=" not in part for part in text.split(",") if part.strip()):
        raise InputError(f"{text!r:.80}: not like name=value,name=value; or give JSON")
    arguments: dict[str, Any] = simple_parse_args_string(text)
    return arguments
