"""What is checked of a run of lm-eval before its first request, which may be paid for.

lm-eval tells a task neither the model nor its arguments nor the other tasks. They are in the
variables of its `simple_evaluate` and `evaluate`, which call the task.
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.runs import loaded_model, model_arguments

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance

_MODEL_KEY = "pragworld: the model"  # in a cache of responses, whose other keys are digests
_LONG = 8_000  # characters: about 2,000 tokens, more than any prompt of ours has


def check_run(requests: Sequence["Instance"]) -> None:
    """Refuse a run whose figures would be wrong without a word, by the requests of one task."""
    run = _evaluator_variables()
    if "task_manager" in run:
        arguments = model_arguments(run["model_args"])
        metadata = run["task_manager"].metadata or {}
        _check_settings([key for key in metadata if key not in arguments], run["eval_tasks"])
        _check_cache(run["lm"], arguments)
        _check_output(run["evaluation_tracker"])
    if "lm" in run:
        _check_lengths(run["lm"], requests)


def _evaluator_variables() -> dict[str, Any]:
    """Return the variables of the functions of lm-eval's evaluator that are running."""
    variables: dict[str, Any] = {}
    frame = inspect.currentframe()
    while frame := frame and frame.f_back:
        if frame.f_globals["__name__"] == "lm_eval.evaluator":
            variables = {**frame.f_locals, **variables}
    return variables


def _check_settings(keys: Sequence[str], tasks: Mapping[str, Any]) -> None:
    """Refuse keys that no task reads; those of other packages may read any."""
    settings = {name for task in tasks.values() for name in getattr(task, "settings", keys)}
    if unread := [key for key in keys if key not in settings]:
        raise InputError(
            f"--metadata: {unread[0]!r} is not a setting of the tasks of this run; they have "
            f"{sorted(settings)}"
        )


def _check_cache(lm: Any, arguments: Mapping[str, Any]) -> None:
    """Refuse a cache of another model's responses: lm-eval finds them by their prompts alone."""
    responses = getattr(lm, "dbdict", None)
    loaded = loaded_model(arguments)
    if responses is None or not loaded["name"]:
        return
    model = ", ".join(str(part) for part in (*loaded.values(), arguments.get("revision")) if part)
    if (kept := responses.setdefault(_MODEL_KEY, model)) != model:
        raise InputError(
            f"--use_cache {lm.cache_db}: holds responses of {kept}, and lm-eval would take them "
            f"for those of {model}; name a file for each model"
        )


def _check_output(tracker: Any) -> None:
    """Refuse a folder of results that cannot be made, which lm-eval would find out at the end."""
    if not (path := tracker and tracker.output_path and Path(tracker.output_path)):
        return
    folder = path / tracker.general_config_tracker.model_name_sanitized
    try:
        (path.parent if path.suffix == ".json" else folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"--output_path {path}: {error.strerror}; lm-eval writes to a folder named after the "
            "model, or beside a path that ends with .json: pass one that it can write"
        ) from error


def _check_lengths(lm: Any, requests: Sequence["Instance"]) -> None:
    """Refuse prompts that lm-eval would cut; warn of a long one whose tokens it doesn't count."""
    for request in sorted(requests, key=lambda request: len(str(request.args[0])), reverse=True):
        prompt, *options = request.args
        if not options:  # perplexity, which is measured in windows
            return
        room = _room(lm, *options) if isinstance(prompt, str) else None
        if room is None and len(str(prompt)) > _LONG:
            logger.warning(
                "%s: the prompt of document %d has %d characters, whose tokens lm-eval doesn't "
                "count; see that the server has room for them (num_ctx of Ollama)",
                *(request.task_name, request.doc_id, len(str(prompt))),
            )
        if room is None:
            return  # the others are shorter
        text = prompt if isinstance(options[0], Mapping) else prompt + options[0]
        # A token has a byte at least.
        if len(text.encode()) > room and (tokens := len(lm.tok_encode(text))) > room:
            raise InputError(
                f"{request.task_name}: the prompt of document {request.doc_id} has {tokens:,} "
                f"tokens, and lm-eval would cut it to {max(room, 0):,}; pass a smaller "
                "max_gen_toks in --gen_kwargs, or a larger max_length in --model_args if the model "
                "takes more"
            )


def _room(lm: Any, options: str | Mapping[str, Any]) -> int | None:
    """Return how many tokens a request may have: those that lm-eval doesn't cut off.

    None where it counts none, as it sends the text or has no tokenizer. `options` is a label where
    its likelihood is asked for.
    """
    sends_text = not (isinstance(options, str) or getattr(lm, "tokenized_requests", True))
    length: int | None = getattr(lm, "max_length", None)
    if sends_text or length is None or not lm.tokenizer:
        return None
    if isinstance(options, str) or getattr(lm, "backend", "") == "seq2seq":  # an encoder apart
        return length
    return length - int(options.get("max_gen_toks", 0))
