"""Joining the shards of an evaluation: lm-eval's results with `shard` in their `--metadata`.

The documents are made again, and lm-eval's own `evaluate` runs on them with the logged responses in
place of a model. So every metric of the joined results is computed by the code of a single run.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lm_eval.api.model import LM
from lm_eval.evaluator import evaluate
from lm_eval.tasks import TaskManager
from lm_eval.utils import (
    handle_non_serializable,
    hash_string,
    sanitize_list,
    simple_parse_args_string,
)

from pragworld_tasks.errors import InputError
from pragworld_tasks.files import read_json, read_json_lines, write_files
from pragworld_tasks.link import task_folder
from pragworld_tasks.shards import SERVER_SETTINGS, Shard, check_shards, parse_shard

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import Task

Response = TypeVar("Response")

# What lm-eval's results say about the documents of one shard, or about the machine.
_OF_THE_SHARD = ("results", "groups", "n-samples", "task_hashes")
_OF_THE_MACHINE = (
    *("date", "total_evaluation_time_seconds"),
    *("pretty_env_info", "git_hash", "upper_git_hash"),
)
_OF_THE_RUN = ("use_cache", "device", "batch_size", "batch_sizes")
# Where a function lies in a process: lm-eval writes functions of a task as `<function f at 0x7f…>`.
_ADDRESS = re.compile("(?<= at )0x[0-9a-f]+")
# What depends on the chat template and on how responses are generated.
_OF_THE_REQUEST = ("doc_id", "arguments", "prompt_hash")


def merge_evaluated(folders: Sequence[Path], out: Path, overwrite: bool = False) -> None:
    """Join the results that lm-eval wrote for the shards of a run to those of the whole run.

    Args:
        folders: Folders with the results of all shards and their samples (`--log_samples`), in any
            order.
        out: The folder to write, with the files that lm-eval writes into the folder of a model.
            Their date, the time and the description of the machine are those of the first shard,
            and the duration is that of all shards together.
        overwrite: Whether its files may be replaced.

    Raises:
        InputError: A folder holds no results, they are not all shards of one run, each once, they
            lack documents or contradict their responses, or the result cannot be written.
    """
    results: dict[Path, _Results] = {}
    for folder in folders:
        found = sorted(folder.rglob("results_*.json"))
        if not found:
            raise InputError(
                f"{folder}: no results_*.json; pass folders that lm_eval wrote with --output_path"
            )
        results |= {path: _read(path) for path in found}
    ordered = check_shards([(path, one.shard, one.identity) for path, one in results.items()])
    first = results[ordered[0]].content
    tasks = _load(first)
    joined = {
        name: _join(task, [(path, results[path].shard) for path in ordered])
        for name, task in tasks["tasks"].items()
    }
    computed = evaluate(lm=_Logged(joined), task_dict=tasks)
    for name, samples in joined.items():
        _check_scores(name, samples, computed["samples"][name])
    for config in first["configs"].values():
        del config["metadata"]["shard"]
    for part in ("results", "groups", "n-samples"):
        if part in first:
            first[part] = {name: computed[part][name] for name in first[part]}
    first["task_hashes"] = {name: _hash(joined[name]) for name in first["task_hashes"]}
    first["total_evaluation_time_seconds"] = str(sum(one.seconds for one in results.values()))
    date = _date(ordered[0])
    files = {}
    for name, samples in joined.items():
        lines = [json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples]
        files[out / f"samples_{name}_{date}.jsonl"] = "".join(lines).encode()
    text = json.dumps(first, indent=2, ensure_ascii=False)
    files[out / ordered[0].name] = text.encode()
    if {path.resolve() for path in files} & {path.resolve() for path in ordered}:
        raise InputError(f"{out}: holds one of the shards; choose another --out")
    write_files(files, overwrite)


@dataclass(frozen=True)
class _Results:
    """A results file of lm-eval.

    Attributes:
        content: its content.
        shard: the shard that all of its tasks were evaluated on.
        identity: what the responses depend on.
        seconds: how long the evaluation took.
    """

    content: dict[str, Any]
    shard: Shard
    identity: dict[str, Any]
    seconds: float


def _read(path: Path) -> _Results:
    """Return the results in a file.

    Raises:
        InputError: They are not of a shard.
    """
    content = read_json(path)
    try:
        (shard,) = {config["metadata"]["shard"] for config in content["configs"].values()}
        identity, seconds = _identity(content), float(content["total_evaluation_time_seconds"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"{path}: not of a shard; pass results of lm_eval with --metadata "
            '\'{"shard": "1/4"}\' and so on'
        ) from error
    return _Results(content, parse_shard(str(shard), f"{path}: shard"), identity, seconds)


def _date(results: Path) -> str:
    """Return the date in the name of a results file, which its samples have in theirs."""
    return results.stem.removeprefix("results_")


def _identity(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the responses of a shard depend on."""
    kept = _without(content, *_OF_THE_SHARD, *_OF_THE_MACHINE)
    kept["config"] = _without(content["config"], *_OF_THE_RUN)
    arguments = content["config"]["model_args"] or {}
    if isinstance(arguments, str):
        arguments = simple_parse_args_string(arguments)
    kept["config"]["model_args"] = _without(arguments, *SERVER_SETTINGS)
    kept["configs"] = {
        name: {**config, "metadata": _without(config["metadata"], "shard", *SERVER_SETTINGS)}
        for name, config in content["configs"].items()
    }
    identity: dict[str, Any] = json.loads(_ADDRESS.sub("", json.dumps(kept)))
    return identity


def _without(content: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name not in names}


def _load(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tasks and groups of results, with all documents, as `evaluate` takes them.

    Raises:
        InputError: A task is not one of ours.
    """
    configs, groups = content["configs"], content["group_subtasks"]
    # Every task has the settings of --metadata, and besides them the version in its own file.
    metadata = _without(next(iter(configs.values()))["metadata"], "shard", "version")
    manager = TaskManager(
        include_path=str(task_folder()), include_defaults=False, metadata=metadata
    )
    in_groups = {name for names in groups.values() for name in names}
    wanted = [*groups, *(name for name in configs if name not in in_groups)]
    if unknown := [name for name in wanted if name not in manager.all_tasks]:
        raise InputError(
            f"{unknown[0]}: not a task of pragworld, which alone have shards; evaluate it by itself"
        )
    return dict(manager.load(wanted))


def _join(task: "Task", shards: Iterable[tuple[Path, Shard]]) -> list[dict[str, Any]]:
    """Return the samples of all documents of a task, in the order of the documents.

    Raises:
        InputError: A sample is not of its document, occurs twice, or is missing.
    """
    documents = list(task.eval_docs)
    name, groups = task.config.task, [document["group"] for document in documents]
    samples: dict[int, dict[str, Any]] = {}
    for results, shard in shards:
        path = results.with_name(f"samples_{name}_{_date(results)}.jsonl")
        positions = shard.positions(groups)
        before = len(samples)
        for where, sample in read_json_lines(path):
            number = sample.get("doc_id")
            if type(number) is not int or not 0 <= number < len(positions):
                where.refuse(f"not a document of shard {shard}; rerun the shard")
            position = positions[number]
            if position in samples:
                where.refuse(f"document {number} occurs twice; rerun the shard")
            if sample.get("doc") != documents[position]:
                where.refuse(
                    f"another one than document {position} of {name} here; merge with the "
                    "version and the data that lm_eval ran with"
                )
            samples[position] = {**sample, "doc_id": position}
        if (done := len(samples) - before) < len(positions):
            raise InputError(
                f"{path}: shard {shard} has {done} of its {len(positions)} documents; rerun it, "
                "without --limit or --samples"
            )
    return [samples[position] for position in range(len(documents))]


def _hash(samples: Iterable[Mapping[str, Any]]) -> str:
    """Return lm-eval's hash of a task's samples."""
    parts = ("doc_hash", "prompt_hash", "target_hash")
    return str(hash_string("".join(sample[part] for sample in samples for part in parts)))


def _check_scores(
    name: str, samples: Sequence[Mapping[str, Any]], computed: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse samples that state something else than lm-eval computes from their responses."""
    for logged, again in zip(samples, computed, strict=True):
        plain = {**again, "target": str(again["target"])}
        plain |= {part: sanitize_list(again[part]) for part in ("resps", "filtered_resps")}
        expected = json.loads(json.dumps(plain, default=handle_non_serializable))
        if changed := [
            part
            for part in {**expected, **logged}
            if part not in _OF_THE_REQUEST and expected.get(part) != logged.get(part)
        ]:
            raise InputError(
                f"{name}, document {logged['doc_id']}: {changed[0]} of the sample is not what its "
                "responses give; merge with the version that lm_eval ran with, or rerun the shard"
            )


class _Logged(LM):
    """Stands for a model, and returns the responses in samples.

    Args:
        samples: The samples of each task, in the order of its documents.
    """

    def __init__(self, samples: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        super().__init__()
        self._samples = samples

    def loglikelihood(self, requests: list["Instance"]) -> list[tuple[float, bool]]:
        """Return the likelihood of each continuation, and whether it is the likeliest."""
        return self._read(requests, lambda response: (float(response[0]), response[1] == "True"))

    def loglikelihood_rolling(self, requests: list["Instance"]) -> list[float]:
        """Return the likelihood of each text."""
        return self._read(requests, float)

    def generate_until(self, requests: list["Instance"]) -> list[str]:
        """Return the response to each prompt."""
        return self._read(requests, str)

    def _read(
        self, requests: Iterable["Instance"], read: Callable[[Any], Response]
    ) -> list[Response]:
        responses = []
        for request in requests:
            name, number = request.task_name, request.doc_id
            try:
                responses.append(read(self._samples[name][number]["resps"][request.idx][0]))
            except (LookupError, TypeError, ValueError) as error:
                raise InputError(
                    f"{name}, document {number}: not lm-eval's 'resps'; rerun the shard"
                ) from error
        return responses
