"""Write the tasks on the released splits as a folder for lm-eval without this plugin.

    python scripts/export_lm_eval.py pragworld --dataset pragworld-dataset
    lm_eval --include_path pragworld --tasks pragworld_manual …

lm-eval asks a new task for a folder with a README, YAML files, and Python beside them
(https://github.com/EleutherAI/lm-evaluation-harness/blob/main/docs/new_task_guide.md). The YAML
files and almost all of `utils.py` are the text of our own, so that they can't come to differ. The
data comes from a dataset that `scripts/hub_dataset.py` wrote: a folder, or its name on the Hub.
"""

import argparse
import ast
import json
import re
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from pprint import pformat
from typing import cast

from hub_dataset import fill_template, write_new_folder

from pragworld_tasks.data.documents import Split
from pragworld_tasks.data.sources import COMMIT, FILES, HUB_DATASET, REPOSITORY
from pragworld_tasks.evaluation.metrics import LOWER_IS_BETTER
from pragworld_tasks.evaluation.task_metrics import task_metric_names
from pragworld_tasks.link import task_folder

_FORMS = ("", "_label", "_mc")
_INCLUDED = ("_pragworld", "_written", "_likelier")


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the folder that the arguments name, or those of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument(
        "--dataset",
        default=HUB_DATASET,
        help="name of the dataset on the Hub, or its folder; default: %(default)s",
    )
    options = parser.parse_args(arguments)
    folder = Path(options.dataset)
    dataset = str(folder.resolve()) if folder.is_dir() else options.dataset
    contents = lm_eval_files(dataset)
    write_new_folder(options.folder, contents, parser)
    print(f"{len(contents)} files written to {options.folder}")


def lm_eval_files(dataset: str) -> dict[str, bytes]:
    """Return the files of the task folder by their names.

    Args:
        dataset: what `datasets.load_dataset` takes for the data: a name on the Hub, or a folder.
    """
    texts = _task_files(dataset)
    summaries = {
        name.removesuffix(".yaml"): text.split("\n")[0].removeprefix("# ")
        for name, text in texts.items()
        if not name.startswith("_")
    }
    groups = [f"pragworld{form}" for form in _FORMS]
    texts["utils.py"] = _utilities()
    texts["README.md"] = fill_template(
        "lm_eval_readme.md.jinja",
        groups={name: summaries[name] for name in groups},
        tasks={name: summary for name, summary in summaries.items() if name not in groups},
        dataset=dataset,
        repository=REPOSITORY,
        commit=COMMIT,
        version=version("pragworld"),
    )
    return {name: text.encode() for name, text in texts.items()}


def _task_files(dataset: str) -> dict[str, str]:
    """Return the YAML files with the dataset in place of ours and `utils.py` in place of ours."""
    splits = ("", *(f"_{split}" for split in FILES))
    tasks = [f"pragworld{split}{form}" for form in _FORMS for split in splits]
    return {
        f"{name}.yaml": _task_file((task_folder() / f"{name}.yaml").read_text("utf-8"), dataset)
        for name in (*tasks, *_INCLUDED)
    }


def _task_file(text: str, dataset: str) -> str:
    """Return a task's file without our class of tasks, but with its metrics of the split."""
    text = re.sub(r"(class: !function pragworld_tasks\.harness|settings:).*\n", "", text)
    text = text.replace("!function pragworld_tasks.harness.", "!function utils.")
    if split := re.search(r"dataset_kwargs: \{pragworld_split: (\w+)\}", text):
        text = text.replace(split[0], f"dataset_name: {split[1]}") + _metric_list(
            cast("Split", split[1])
        )
    return text.replace(
        "custom_dataset: !function utils.split_dataset",
        f"dataset_path: {json.dumps(dataset)}\nprocess_docs: !function utils.process_docs\n"
        "fewshot_config:\n  sampler: !function utils.ZeroShotOnly",
    )


def _metric_list(split: Split) -> str:
    """Return the metrics of a task on a split, each with its standard error."""
    lines = ["metric_list:"]
    for name in task_metric_names(split):
        share = "robust_share" if name.startswith("robust") else "share"
        higher = json.dumps(name not in LOWER_IS_BETTER)
        lines += [
            f"  - {{metric: {name}, aggregation: !function utils.{share}, "
            f"higher_is_better: {higher}}}",
            f"  - {{metric: {name}_stderr, aggregation: !function utils.{share}_stderr, "
            "higher_is_better: false}",
        ]
    return "\n".join(lines) + "\n"


def _utilities() -> str:
    """Return `utils.py`: our own definitions, and what the template adds to them."""
    aggregations = (
        *("NotAvailable", "shown_value", "share", "share_stderr", "robust_share"),
        *("robust_share_stderr", "_complete_groups"),
    )
    tallies = ("LEAST_GROUPS", "Tally", "tally", "robust_tally")
    items = ("Clustered", "InGroup", "score_response", "score_likelihoods", "document_labels")
    task_metrics = "evaluation/task_metrics.py"
    return fill_template(
        "lm_eval_utils.py.jinja",
        version=version("pragworld"),
        prompts=_definitions("data/prompts.py", "_QUESTION", "_PROMPT_1", "_PROMPT_2"),
        markers=_phrases("reasoning_markers.toml"),
        reasoning=_definitions("text.py", "pattern_compiler", "_marker", "strip_reasoning"),
        content=_definitions("chat.py", "content_text"),
        phrases=_phrases("evaluation/answer_phrases.toml"),
        answers=_definitions("evaluation/answers.py", without="_PHRASES"),
        tallies=_definitions("evaluation/statistics.py", *tallies),
        items=_definitions(task_metrics, *items),
        aggregations=_definitions(task_metrics, *aggregations),
    )


def _definitions(path: str, *names: str, without: str = "") -> str:
    """Return the source of top-level definitions of a module, with the comments above them.

    Args:
        path: the module's file in this package.
        names: what to return, in the order of the file; by default everything that is not an
            import.
        without: a name to leave out.
    """
    text = _source(path)
    lines = text.splitlines()
    parts: list[tuple[bool, str]] = []  # whether it is a function or class, and its source
    for node in ast.parse(text).body[1:]:  # the first is the docstring
        defined = _defined_names(node)
        if not defined or without in defined or (names and not defined & set(names)):
            continue
        block = isinstance(node, ast.FunctionDef | ast.ClassDef)
        start = min(part.lineno for part in ast.walk(node) if isinstance(part, ast.stmt | ast.expr))
        start -= 1  # lines are counted from 1, and the first may be a decorator's
        while lines[start - 1].startswith("#"):
            start -= 1
        parts.append((block, "\n".join(lines[start : node.end_lineno])))
    return "".join(
        [
            part + ("\n\n\n" if block or next_block else "\n")
            for (block, part), (next_block, _) in pairwise(parts)
        ]
        + [parts[-1][1]]
    )


def _defined_names(node: ast.stmt) -> set[str]:
    """Return the names that a top-level statement defines; none for an import."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name for target in targets for name in ast.walk(target)]
        return {name.id for name in names if isinstance(name, ast.Name)}
    return set()


def _phrases(path: str) -> str:
    """Return the lists and patterns of a TOML file as a Python dictionary."""
    phrases = tomllib.loads(_source(path))
    return pformat(phrases, width=100, sort_dicts=False)


def _source(path: str) -> str:
    return (files("pragworld_tasks") / path).read_text(encoding="utf-8")


if __name__ == "__main__":
    main()
