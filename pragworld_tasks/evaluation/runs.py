"""The runs that `score` takes: files, folders of lm-eval's results, and shipped answers."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.data.sources import is_released
from pragworld_tasks.data.splits import SPLIT_NAMES
from pragworld_tasks.errors import InputError, logger
from pragworld_tasks.evaluation.published import (
    published_answers,
    published_models,
    reading_answers,
)
from pragworld_tasks.evaluation.responses import Predictions, read_predictions, sampled_documents
from pragworld_tasks.files import read_json, read_json_lines, whole_characters

_SAMPLES = re.compile(r"(?:samples_)?(?P<task>.+?)(?:_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+))?")


@dataclass(frozen=True)
class RunSource:
    """A run that a user names: files that have not been read yet, or answers that ship with us.

    Attributes:
        name: what tables call it.
        split: the split that the responses are to; None where the files do not say.
        files: the files of its responses.
        shipped: its answers, where there are no files.
    """

    name: str
    split: str | None
    files: tuple[Path, ...] = ()
    shipped: Predictions | None = None

    def read(self, documents: Sequence[Document]) -> Predictions:
        """Return the run's answers to the documents, in their order.

        Raises:
            InputError: The files are not a whole run on the documents.
        """
        if self.shipped and len(self.shipped.ours) != len(documents):
            raise InputError(
                f"{self.name}: answers to {len(self.shipped.ours)} documents, but the split here "
                f"has {len(documents)}; use the released file"
            )
        return self.shipped or read_predictions(self.files, documents)


def find_runs(arguments: Sequence[str], split: str | None) -> list[RunSource]:
    """Return the runs that a user names, without reading their responses.

    Args:
        arguments: files of responses, folders of lm-eval's results, `published:MODEL` for the
            paper's released answers of a model (`published:all` for all models), and
            `readings:majority`, `readings:1` and so on for the readers of the labels. The split of
            a run may stand before it: `entity_tracking:published:all`, `manual:outputs.jsonl`.
        split: the split that the responses are to; None to take it from the samples.

    Raises:
        InputError: A folder holds no samples of the split, or there is no such file.
    """
    runs: list[RunSource] = []
    for argument in arguments:
        kind, _, name = argument.partition(":")
        if kind in SPLIT_NAMES and name:
            if split not in (None, kind):
                raise InputError(f"{argument}: responses to the split {kind}, not to {split}")
            runs += [replace(run, split=kind) for run in find_runs([name], kind)]
        elif kind == "published":
            runs += _published_runs(name, split or "manual")
        elif kind == "readings":
            runs.append(RunSource(argument, "manual", shipped=reading_answers(name)))
        elif Path(argument).is_dir():
            runs += _runs_in_folder(Path(argument), split)
        else:
            path = Path(argument)
            refuse_results(path)
            sampled = sampled_split(path)
            if sampled and not _answers_questions(path):
                raise _of_other_task(path)
            if sampled and (part := part_of_run(path)):
                raise InputError(f"{path}: {part}; pass a whole run")
            runs.append(RunSource(path.name, sampled, (path,)))
    for run in runs:
        if split and run.split not in (None, split):
            raise InputError(f"{run.name}: responses to the split {run.split}, not to {split}")
    return _with_different_names(runs)


def refuse_results(path: Path) -> None:
    """Refuse a file of lm-eval's results, which has metrics and no answers.

    Raises:
        InputError: The file is one.
    """
    if path.match("results_*.json"):
        try:
            content = read_json(path)
        except InputError:  # JSON lines of that name, or no such file
            return
        if isinstance(content, dict) and isinstance(content.get("config"), dict):
            raise InputError(
                f"{path}: lm-eval's results, which hold no answers; pass their folder, or the "
                "samples_*.jsonl beside them"
            )


def task_and_date(samples: Path) -> tuple[str, str | None]:
    """Return the task and the date in the name of a file of lm-eval's samples.

    The results of the run have the same date in theirs.

    Examples:
        >>> task_and_date(Path("samples_pragworld_manual_2026-01-02T03-04-05.678.jsonl"))
        ('pragworld_manual', '2026-01-02T03-04-05.678')
    """
    named = _SAMPLES.fullmatch(samples.stem)
    return (named["task"], named["date"]) if named else (samples.stem, None)


def part_of_run(samples: Path, documents: int | None = None) -> str:
    """Return what makes samples a part of a run; "" if the results beside them name nothing.

    Args:
        samples: the file that lm-eval or `pragworld-tasks collect` wrote.
        documents: how many documents the samples in it are of; None if they were not counted.
    """
    task, date = task_and_date(samples)
    beside = samples.with_name(f"results_{date}.json" if date else "collect.json")
    content = read_json(beside) if beside.is_file() else None
    settings = content if isinstance(content, dict) else {}
    whole, evaluated = (
        _within(settings, "n-samples", task, kind) for kind in ("original", "effective")
    )
    limit = _within(settings, "config", "limit")
    if limit and (whole is None or evaluated != whole):
        return f"run with --limit {limit}".removesuffix(".0")
    if shard := _within(settings, "shard", "number"):
        return f"shard {shard} of a run, to be joined by `pragworld-tasks merge`"
    if evaluated != whole:
        return f"run with --samples, on {evaluated} of {whole} documents"
    if documents is not None and whole is not None and documents != whole:
        return f"has {documents} of the {whole} documents of the run"
    return ""


def common_split(runs: Sequence[RunSource]) -> str:
    """Return the one split that the runs are on, where their files say so.

    Raises:
        InputError: They don't say, or they are on several splits.
    """
    splits = sorted({run.split for run in runs if run.split})
    if len(splits) != 1:
        held = f"are to the splits {', '.join(splits)}" if splits else "do not name their split"
        names = ", ".join(run.name for run in runs)
        raise InputError(
            f"{names:.200}: the responses {held}; pass --split, or put it before the name of a "
            "run, as in manual:outputs.jsonl"
        )
    return splits[0]


def sampled_split(path: Path) -> str | None:
    """Return the split of the document in a file's first sample; None where it names none.

    Raises:
        InputError: The file cannot be read or does not hold JSON lines.
    """
    _, record = next(iter(read_json_lines(path)))
    document = record.get("doc")
    split = document.get("split") if isinstance(document, dict) else None
    return split if isinstance(split, str) else None


def documents_in_samples(runs: Sequence[RunSource]) -> list[Document]:
    """Return the documents that the samples of one of the runs hold, generated or a user's own.

    Raises:
        InputError: No run has samples, or not all documents of the run are there.
    """
    for run in runs:
        if len(run.files) == 1 and sampled_split(run.files[0]):
            return sampled_documents(run.files[0])
    raise InputError(
        "the responses do not hold their documents; pass lm-eval's samples, --metadata with the "
        "settings of generated documents, or --documents with a file of your own"
    )


def read_runs(
    sources: Sequence[RunSource], documents: Sequence[Document]
) -> dict[str, Predictions]:
    """Return the answers of each run by its name.

    Several files that have as many responses together as there are documents are the parts of one
    run: the released runs on the synthetic split come in two files.

    Raises:
        InputError: A run is not a whole run on the documents.
    """
    files = [path for source in sources for path in source.files]
    if len(files) == len(sources) > 1:
        lengths = [sum(1 for _ in read_json_lines(path)) for path in files]
        if sum(lengths) == len(documents):
            name = " + ".join(source.name for source in sources)
            logger.warning("%s: each holds a part of the split; they count as one run", name)
            sources = [RunSource(name, None, tuple(files))]
    runs = {source.name: source.read(documents) for source in sources}
    digest = documents_digest(documents)
    for name, predictions in runs.items():
        if predictions.documents_digest not in (None, digest):
            logger.warning(
                "%s: given to other documents than these (digest %.12s instead of %.12s): texts or "
                "gold answers differ",
                name,
                predictions.documents_digest,
                digest,
            )
    return runs


def _published_runs(name: str, split: str) -> list[RunSource]:
    if not (is_released(split) and published_models(split)):
        raise InputError(
            f"published:{name}: there are no published answers to the split {split}; leave it out"
        )
    return [
        RunSource(f"published:{model}", split, shipped=published_answers(model, split))
        for model in (published_models(split) if name == "all" else [name])
    ]


def _runs_in_folder(folder: Path, split: str | None) -> list[RunSource]:
    """Return a run for each file of samples below a folder of lm-eval's results.

    Runs on a part of the documents, by `--limit`, are left out with a warning.
    """
    runs, parts, others = [], [], []
    for path in sorted(folder.rglob("samples_*.jsonl")):
        sampled = sampled_split(path)
        if sampled and split in (None, sampled):
            if not _answers_questions(path):
                others.append(path)
            elif part := part_of_run(path):
                parts.append(f"{path}: {part}")
            else:
                task, _ = task_and_date(path)
                runs.append(RunSource(f"{path.parent.name}/{task}", sampled, (path,)))
    if parts and not runs:
        raise InputError(f"{parts[0]}; pass a whole run")
    for part in parts:
        logger.warning("%s; it is left out", part)
    if others and not runs:
        raise _of_other_task(others[0])
    if not runs:
        wanted = f"of the split {split}" if split else "of a pragworld task"
        raise InputError(
            f"{folder}: no samples_*.jsonl {wanted}; run lm_eval with --log_samples and "
            "--output_path and without --limit, and pass that folder"
        )
    return runs


def _within(content: Any, *names: str) -> Any:
    """Return what stands at the end of a path of names; None where the path ends early."""
    for name in names:
        content = content.get(name) if isinstance(content, dict) else None
    return content


def _of_other_task(path: Path) -> InputError:
    return InputError(
        f"{path}: samples of a task that does not answer each question once (it has several "
        "wordings, or measures perplexity); pass those of another task"
    )


def _answers_questions(path: Path) -> bool:
    """Return whether samples answer each question once: not in ten wordings, nor perplexity."""
    _, record = next(iter(read_json_lines(path)))
    is_perplexity = "word_perplexity" in record.get("metrics", [])
    return "wording" not in record["doc"] and not is_perplexity


def _with_different_names(runs: Sequence[RunSource]) -> list[RunSource]:
    """Return the runs, those of the same name with the whole path of their file instead."""
    names = Counter(run.name for run in runs)
    return [
        replace(
            run,
            name=whole_characters(
                str(run.files[0]) if names[run.name] > 1 and run.files else run.name
            ),
        )
        for run in runs
    ]
