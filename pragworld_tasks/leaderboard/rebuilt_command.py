"""The command that repeats a run, rebuilt from its record."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from pragworld_tasks.evaluation.run_record import RunRecord


def lm_eval_command(record: RunRecord) -> str | None:
    """Return the `lm_eval` command of a run, or None where the record does not say how it ran.

    Secrets are not in a record, and so not in the command. Settings that cannot change an answer,
    such as the batch size, are left out.
    """
    environment = record.environment
    if environment.task is None or environment.backend is None:
        return None
    # Until a version of lm-eval reads entry points, `pragworld-interp lm_eval` knows these alone.
    program = ["pragworld-interp"] if environment.backend in ("hf-tree", "hf-ablated") else []
    parts = [*program, "lm_eval", "--model", environment.backend]
    if environment.model_args:
        parts += ["--model_args", _pairs(environment.model_args)]
    parts += ["--tasks", environment.task]
    if record.data.generator:
        parts += ["--metadata", json.dumps(record.data.generator)]
    if environment.generation:
        parts += ["--gen_kwargs", json.dumps(environment.generation)]
    if environment.system_instruction:
        parts += ["--system_instruction", environment.system_instruction]
    if record.model.chat_template:
        parts.append("--apply_chat_template")
    return shlex.join([*parts, "--log_samples", "--output_path", "results"])


def _pairs(arguments: Mapping[str, Any]) -> str:
    """Return arguments as lm-eval reads them: `name=value`, or JSON where that says too little."""
    if all(isinstance(value, str | int | float | bool) for value in arguments.values()) and not any(
        "," in str(value) for value in arguments.values()
    ):
        return ",".join(f"{name}={value}" for name, value in arguments.items())
    return json.dumps(dict(arguments))
