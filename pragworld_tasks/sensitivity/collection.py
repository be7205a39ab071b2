"""Collecting responses: lm-eval in chunks, so that an interrupted run resumes.

The model is loaded once, and lm-eval's own `evaluate` runs on a few documents at a time. Their
samples are appended, in lm-eval's format, to a file for each task; a resumed run skips the chunks
that are there. Each chunk is seeded by its task, first document and round, not by what ran before
it, so on one machine a model that samples with torch writes the same responses whether or not its
run was interrupted, or divided into shards of whole chunks.
"""

import contextlib
import functools
import hashlib
import json
import logging
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.command_line import at_least, launched_processes
from pragworld_tasks.errors import InputError
from pragworld_tasks.files import json_object, read_json, read_json_lines, write_json
from pragworld_tasks.journal import difference, exclusive, open_journal
from pragworld_tasks.link import task_folder
from pragworld_tasks.log import logger
from pragworld_tasks.shards import SERVER_SETTINGS, Shard, check_enough_units

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.api.task import Task
    from lm_eval.tasks import TaskManager


@dataclass(frozen=True)
class CollectionSettings:
    """What to collect, and how.

    Attributes:
        tasks: Names of tasks or groups, separated by commas.
        output_path: The folder for the results; each model gets a folder in it.
        chunk: Documents at a time, which is what an interruption may cost.
        top_up: Rounds in which prompts that lack readable responses are repeated.
        shard: The part of the chunks to evaluate, in a folder of its own; None for all of them.

    The others mean what lm-eval's options of the same names do.
    """

    tasks: str
    output_path: Path
    model: str = "hf"
    model_args: str = ""
    batch_size: str = "1"
    max_batch_size: int | None = None
    device: str = "cuda:0"
    gen_kwargs: str = ""
    metadata: str = "{}"
    include_path: str | None = None
    system_instruction: str | None = None
    apply_chat_template: str | bool = False
    seed: int = 1234
    chunk: int = 15
    top_up: int = 0
    shard: Shard | None = None


@dataclass(frozen=True)
class Chunk:
    """Documents that are evaluated together.

    Attributes:
        round: 0; from 1 in rounds that top up.
        documents: Their numbers in the task.
        repeats: The number of responses to each.
    """

    round: int
    documents: tuple[int, ...]
    repeats: int

    @property
    def name(self) -> str:
        """What its lines in the file are marked with."""
        return f"{self.round}: {','.join(map(str, self.documents))}"


def collect(settings: CollectionSettings) -> None:
    """Collect the responses to tasks that generate text, or resume doing so.

    Raises:
        InputError: A setting is wrong or differs from that of the results so far, the model fails,
            or the results cannot be written.
    """
    at_least(settings, chunk=1, top_up=0, seed=0)
    if launched_processes() > 1:
        raise InputError(
            "collect: runs in one process only; let the model use several devices "
            "(parallelize=True, tensor_parallel_size=…), serve it, or divide the run by --shard"
        )
    if settings.shard and settings.top_up:
        raise InputError(
            "--top_up: which prompts lack responses is known once all shards are merged; leave it "
            "out, merge them, then rerun the command without --shard"
        )
    evaluator = _Evaluator(settings)
    tasks = _tasks(settings)
    folder = settings.output_path / _model_folder(settings)
    if settings.shard:
        folder /= settings.shard.name
        for task in tasks.values():
            chunks = first_round(len(task.eval_docs), task.config.repeats, settings.chunk)
            check_enough_units(settings.shard, chunks, "a smaller --chunk")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; choose another place") from error
    with exclusive(folder / ".collect.lock", folder):
        _check_settings(folder / "collect.json", settings, tasks)
        for name, task in tasks.items():
            _collect_task(settings, evaluator, folder / f"samples_{name}.jsonl", name, task)


def _collect_task(
    settings: CollectionSettings, evaluator: "_Evaluator", path: Path, name: str, task: "Task"
) -> None:
    """Collect all rounds of one task."""
    from tqdm import tqdm

    wanted = task.config.repeats
    with open_journal(
        path,
        decode=lambda sample: (str(sample["chunk"]), int(sample["doc_id"])),
        complete=_in_complete_chunks,
    ) as journal:
        done = {name for name, _ in journal.records}
        for round_ in range(settings.top_up + 1):
            plan = _plan(task, wanted, path, round_, settings.chunk)
            if not plan:
                break
            if settings.shard:
                plan = [*settings.shard.units(plan)]
            prompts = sum(len(chunk.documents) for chunk in plan)
            label = name if round_ == 0 else f"{name}, topped up ({round_})"
            with tqdm(total=prompts, desc=label, unit="prompt", disable=None) as bar:
                for chunk in plan:
                    if chunk.name not in done:
                        journal.append(*evaluator.samples(name, task, chunk))
                    bar.update(len(chunk.documents))
    print(path)
    if settings.top_up and (lacking := _lacking(path, wanted, settings.top_up + 1)):
        print(f"{name}: {len(lacking)} prompts still have fewer than {wanted} readable responses")


def _in_complete_chunks(lines: Sequence[tuple[str, int]]) -> list[bool]:
    """Tell which lines, by their chunks and documents, to keep: one of each in complete chunks."""
    names = {name for name, _ in lines}
    documents = {name: {*name.partition(": ")[2].split(",")} for name in names}  # see `Chunk.name`
    own = {line for line in lines if str(line[1]) in documents[line[0]]}
    sizes = Counter(name for name, _ in own)
    places = {line: place for place, line in reversed([*enumerate(lines)])}
    return [
        line in own and sizes[line[0]] == len(documents[line[0]]) and places[line] == place
        for place, line in enumerate(lines)
    ]


# Tasks and chunks ---------------------------------------------------------------------------------


def _tasks(settings: CollectionSettings) -> dict[str, "Task"]:
    """Return the tasks by name, those of groups too, with the settings' changes."""
    metadata = json_object(settings.metadata, "--metadata")
    changes = _arguments(settings.gen_kwargs)
    wanted = [name.strip() for name in settings.tasks.split(",")]
    metadata = {**_arguments(settings.model_args), **metadata}
    manager = _manager(settings.include_path, metadata, wanted)
    if unknown := [name for name in wanted if name not in manager.all_tasks]:
        raise InputError(f"no task {unknown[0]!r}; `pragworld-tasks list` lists ours")
    tasks: dict[str, Task] = manager.load(wanted)["tasks"]
    for name, task in tasks.items():
        if task.OUTPUT_TYPE != "generate_until":
            raise InputError(f"{name}: generates no text; run it with lm_eval")
        if settings.top_up and "unit" not in task.eval_docs[0]:
            raise InputError(f"{name}: --top_up is for the world_model tasks; leave it out")
        if changes:
            task.set_config("generation_kwargs", changes, update=True)
        if task.get_config("num_fewshot") is None:
            task.set_config("num_fewshot", 0)
    return tasks


def _manager(folder: str | None, metadata: dict[str, Any], wanted: list[str]) -> "TaskManager":
    """Return an index of tasks; of ours alone if that will do, for lm-eval's take seconds."""
    from lm_eval.tasks import TaskManager

    if folder is None:
        ours = TaskManager(
            include_path=str(task_folder()), include_defaults=False, metadata=metadata
        )
        if set(wanted) <= set(ours.all_tasks):
            return ours
    elif not Path(folder).is_dir():
        raise InputError(f"--include_path {folder}: not a folder; name one that holds tasks")
    return TaskManager(include_path=folder, metadata=metadata)


def _plan(task: "Task", repeats: int, path: Path, round_: int, size: int) -> list[Chunk]:
    """Return the chunks of a round: all documents, later those that lack readable responses.

    A round depends on the rounds before it alone, so it is the same after an interruption.
    """
    if round_ == 0:
        return first_round(len(task.eval_docs), repeats, size)
    return _chunks(round_, _lacking(path, repeats, round_), size)


def first_round(documents: int, repeats: int, size: int) -> list[Chunk]:
    """Return the chunks of the round in which each document gets `repeats` responses."""
    return _chunks(0, [(document, repeats) for document in range(documents)], size)


def _chunks(round_: int, wanted: Sequence[tuple[int, int]], size: int) -> list[Chunk]:
    """Divide documents, and how many responses each gets, into chunks."""
    chunks = [wanted[start : start + size] for start in range(0, len(wanted), size)]
    return [
        Chunk(round_, tuple(document for document, _ in chunk), max(number for _, number in chunk))
        for chunk in chunks
    ]


def _lacking(path: Path, repeats: int, round_: int) -> list[tuple[int, int]]:
    """Return the documents that lack readable responses before a round, and how many.

    Those that lack most come first, so that a chunk's documents lack about the same.
    """
    readable: Counter[int] = Counter()
    for _, record in read_json_lines(path):
        if record["round"] < round_:
            item = record["unreadable"]
            # Items of earlier versions do not name their metric.
            _intent, _paraphrase, values, _texts = item if len(item) == 4 else item[1]
            readable[record["doc_id"]] += sum(value is not None for value in values)
    lacking = [
        (document, repeats - number) for document, number in readable.items() if number < repeats
    ]
    return sorted(lacking, key=lambda pair: (-pair[1], pair[0]))


class _Evaluator:
    """lm-eval with one model, which is loaded when the first chunk needs it."""

    def __init__(self, settings: CollectionSettings) -> None:
        from lm_eval.api.registry import get_model

        self._settings = settings
        try:
            self._kind: type[LM] = get_model(settings.model)
        except (KeyError, ValueError) as error:
            raise InputError(
                f"--model {settings.model}: unknown to lm_eval; use one of its kinds of models, "
                "such as hf, vllm or local-chat-completions"
            ) from error

    @functools.cached_property
    def _model(self) -> "LM":
        settings = self._settings
        more = {
            "batch_size": settings.batch_size,
            "max_batch_size": settings.max_batch_size,
            "device": settings.device,
        }
        return self._kind.create_from_arg_obj(_arguments(settings.model_args), more)

    def samples(self, name: str, task: "Task", chunk: Chunk) -> list[dict[str, Any]]:
        """Return the samples of a chunk as lm-eval logs them, marked with chunk and round.

        Raises:
            InputError: The model cannot be loaded or run.
        """
        from lm_eval.evaluator import evaluate
        from lm_eval.utils import handle_non_serializable

        repeats = task.config.repeats
        try:
            model = self._model
            _seed(self._settings.seed, name, chunk)
            task.set_config("repeats", chunk.repeats)
            with _each_error_once(), _without_cut_groups():
                results = evaluate(
                    lm=model,
                    task_dict={"tasks": {name: task}, "groups": {}},
                    samples={name: list(chunk.documents)},
                    bootstrap_iters=0,
                    system_instruction=self._settings.system_instruction,
                    apply_chat_template=self._settings.apply_chat_template,
                )
        except Exception as error:  # whatever a model, its server or lm-eval may raise
            logger.debug("collect", exc_info=True)
            message = " ".join(str(error).split())
            raise InputError(
                f"{name}: lm_eval failed with {type(error).__name__} ({message:.300}); "
                "correct that, then rerun the command to resume"
            ) from error
        finally:
            task.set_config("repeats", repeats)
        marks = {"round": chunk.round, "chunk": chunk.name}
        marked = [{**sample, **marks} for sample in results["samples"][name]]
        samples: list[dict[str, Any]] = json.loads(
            json.dumps(marked, default=handle_non_serializable)
        )
        return samples


@contextlib.contextmanager
def _each_error_once() -> Iterator[None]:
    """Keep lm-eval from logging an error for each of hundreds of requests, and the server's key."""
    log, logged = logging.getLogger("lm_eval.models.api_models"), set[str]()

    def is_new(record: logging.LogRecord) -> bool:
        record.msg, record.args = re.sub("Bearer [^']+", "Bearer …", record.getMessage()), ()
        before = len(logged)
        logged.add(re.sub(r"\d+", "", record.msg))  # without times and sizes
        return len(logged) > before

    log.addFilter(is_new)
    # When lm-eval gives up, its other requests fail, too, some of them after this block.
    logging.getLogger("asyncio").addFilter(_concerns_more_than_a_lost_task)
    try:
        yield
    finally:
        log.removeFilter(is_new)


def _concerns_more_than_a_lost_task(record: logging.LogRecord) -> bool:
    """Return whether a log record is other than of a task whose error nobody awaits."""
    return not record.getMessage().startswith("Task exception was never retrieved")


@contextlib.contextmanager
def _without_cut_groups() -> Iterator[None]:
    """Keep our metrics from warning of the groups that a chunk cuts: the run has all of them."""
    from pragworld_tasks.evaluation.task_metrics import LACKS_DOCUMENTS

    def concerns_run(record: logging.LogRecord) -> bool:
        return LACKS_DOCUMENTS not in record.getMessage()

    logger.addFilter(concerns_run)
    try:
        yield
    finally:
        logger.removeFilter(concerns_run)


def _seed(seed: int, task: str, chunk: Chunk) -> None:
    """Seed what a model may draw from. Without this, a round would repeat the one before it."""
    import numpy as np
    from lm_eval.utils import set_torch_seed

    entropy = [seed, zlib.crc32(task.encode()), chunk.round, chunk.documents[0]]
    number = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    random.seed(number)
    np.random.seed(number)
    set_torch_seed(number)


# Settings -----------------------------------------------------------------------------------------


def _check_settings(path: Path, settings: CollectionSettings, tasks: Mapping[str, "Task"]) -> None:
    """Write what the responses depend on, or refuse to mix them with responses of others."""
    arguments = _arguments(settings.model_args)
    now: dict[str, Any] = {
        "model": settings.model,
        "model_args": {name: arguments[name] for name in arguments if name not in SERVER_SETTINGS},
        "apply_chat_template": settings.apply_chat_template,
        "system_instruction": settings.system_instruction,
        "seed": settings.seed,
        "chunk": settings.chunk,
        "versions": {name: version(name) for name in ("pragworld", "lm_eval")},
        "tasks": {name: _task_settings(task) for name, task in tasks.items()},
    }
    if settings.shard:
        now["shard"] = asdict(settings.shard)
        for name, task in tasks.items():
            now["tasks"][name]["prompts"] = len(task.eval_docs)
    now = json.loads(json.dumps(now))
    for file in (path.with_name(f"samples_{name}.jsonl") for name in tasks):
        if not path.exists() and file.exists() and file.stat().st_size:
            raise InputError(
                f"{path}: missing, beside {file.name}; restore it, or choose another --output_path"
            )
    if path.exists() and any(file.stat().st_size for file in path.parent.glob("samples_*.jsonl")):
        before = read_settings(path)
        earlier, these = before["tasks"], now["tasks"]
        now["tasks"] = earlier | these
        if changed := difference(before | {"tasks": these | earlier}, now):
            raise InputError(
                f"{path}: the responses there were collected with {changed}; use that again, or "
                "choose another --output_path"
            )
    write_json(path, now)


def read_settings(path: Path) -> dict[str, Any]:
    """Return what `collect.json` says, with its `tasks` by name.

    Raises:
        InputError: The file cannot be read, or is not like those that `collect` writes.
    """
    settings = read_json(path)
    tasks = settings.get("tasks") if isinstance(settings, dict) else None
    if not isinstance(tasks, dict) or not all(isinstance(task, dict) for task in tasks.values()):
        raise corrupt_settings(path)
    return {**settings}


def corrupt_settings(path: Path) -> InputError:
    """Return the error for a `collect.json` that `collect` cannot have written."""
    return InputError(
        f"{path}: not settings as `pragworld-tasks collect` writes them; restore the file"
    )


def _task_settings(task: "Task") -> dict[str, Any]:
    """Return how often which prompts are repeated, and how responses are generated."""
    return {
        "repeats": task.config.repeats,
        "generation_kwargs": task.config.generation_kwargs,
        "documents": prompts_digest(task.eval_docs),
    }


def prompts_digest(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the SHA-256 digest that `collect.json` has of a task's documents, in their order."""
    content = json.dumps(list(documents), sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def collected_digest(samples: Path) -> str | None:
    """Return the digest of all documents of a task; None unless `collect` wrote its samples.

    Args:
        samples: The file of the task's samples.
    """
    settings = samples.with_name("collect.json")
    if not settings.is_file():
        return None
    task = read_settings(settings)["tasks"].get(samples.stem.removeprefix("samples_"), {})
    digest: str | None = task.get("documents")
    return digest


def _model_folder(settings: CollectionSettings) -> str:
    """Return what lm-eval calls the folder of a model's results."""
    from lm_eval.utils import sanitize_model_name

    arguments = _arguments(settings.model_args)
    named = [arguments[name] for name in ("pretrained", "model", "path") if name in arguments]
    return str(sanitize_model_name(str(named[0] if named else settings.model)))


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments in `a=1,b=2` or JSON, as lm-eval reads it."""
    from lm_eval.utils import simple_parse_args_string

    if text.lstrip().startswith("{"):
        return json_object(text, "arguments")
    if any("=" not in part for part in text.split(",") if part.strip()):
        raise InputError(f"{text!r:.80}: not like name=value,name=value; write that, or JSON")
    arguments: dict[str, Any] = simple_parse_args_string(text)
    return arguments
