"""The command that repeats a run, rebuilt from its record."""

import json
import shlex

from pragworld_tasks.evaluation.run_record import RunRecord


def lm_eval_command(record: RunRecord) -> str | None:
    """Return the `lm_eval` command of a run, or None where the record does not say how it ran.

    Settings that cannot change an answer, such as the batch size, are not in a record.
    """
    environment = record.environment
    if environment.task is None or environment.backend is None:
        return None
    # Until a version of lm-eval reads entry points, `pragworld-interp lm_eval` knows these alone.
    program = ["pragworld-interp"] if environment.backend in ("hf-tree", "hf-ablated") else []
    parts = [*program, "lm_eval", "--model", environment.backend]
    if arguments := environment.model_args:
        pairs = ",".join(f"{name}={value}" for name, value in arguments.items())
        is_plain = pairs.count(",") < len(arguments) and "{" not in pairs and "[" not in pairs
        parts += ["--model_args", pairs if is_plain else json.dumps(arguments)]
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
