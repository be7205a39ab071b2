"""What the page of one run shows besides metrics: its command, calibration and broken groups."""

import json
import shlex
from collections import Counter
from typing import Any

from pragworld_tasks.evaluation.run_record import RunRecord
from pragworld_tasks.evaluation.scoring import ScoreReport
from pragworld_tasks.evaluation.statistics import calibrate
from pragworld_tasks.leaderboard.boards import BoardRun


def run_content(run: BoardRun) -> dict[str, Any]:
    """Return what the template of a run needs, besides the run."""
    report = run.report
    sure = [
        (answer.yes, report.documents[place].answer)
        for place, answer in enumerate(run.record.answers)
        if answer.yes is not None
    ]
    return {
        "undetermined": _undetermined_answers(report) if run.record.answers else {},
        "calibration": calibrate(*zip(*sure, strict=True)) if sure else None,
        "broken": _broken_groups(report) if report.main_metric == "robust_acc" else [],
    }


def lm_eval_command(record: RunRecord) -> str | None:
    """Return the `lm_eval` command of a run, or None where the record does not say how it ran.

    A record of a run by groups, without answers, lacks settings of other tasks than ours.
    """
    environment = record.environment
    if environment.task is None or environment.backend is None or not record.answers:
        return None
    # Until a version of lm-eval reads entry points, `pragworld-interp lm_eval` knows this alone.
    program = ["pragworld-interp"] if environment.backend == "hf-ablated" else []
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


def _undetermined_answers(report: ScoreReport) -> dict[str, int]:
    """Return how often each answer is given to the documents whose label rests on a convention."""
    answers = zip(report.predictions.ours, report.arrays.undetermined, strict=True)
    counts = Counter(answer or "unreadable" for answer, undetermined in answers if undetermined)
    return dict(counts.most_common())


def _broken_groups(report: ScoreReport) -> list[tuple[int | str, int, int]]:
    """Return name, wrong and all answers of each group that is not answered right."""
    answers = report.tallies["acc"]
    wrong = (answers.total - answers.right).astype(int).tolist()
    groups = zip(report.group_names, wrong, answers.total.astype(int).tolist(), strict=True)
    return [group for group in groups if group[1]]
