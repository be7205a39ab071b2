"""Everything that the task YAML names, and nothing else: lm-eval's way into this package.

This is also where a user's mistake becomes one line. lm-eval would show an `InputError` with a
traceback, so the functions that can raise one end the process with its message instead (a
`SystemExit`, whose message Python prints last, after lm-eval's progress bars).
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lm_eval.api.task import ConfigurableTask

from pragworld_tasks.chat import content_text
from pragworld_tasks.data.document_files import with_further_fields
from pragworld_tasks.data.documents import OWN, Split
from pragworld_tasks.data.prompts import conventions_prompt, evaluation_prompt, label_prompt
from pragworld_tasks.data.splits import split_documents
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.lm_eval_checks import check_run
from pragworld_tasks.evaluation.metrics import LOWER_IS_BETTER
from pragworld_tasks.evaluation.task_metrics import (
    data_set_rows,
    document_labels,
    robust_share,
    robust_share_stderr,
    score_likelihoods,
    score_response,
    share,
    share_stderr,
    task_metric_names,
    unreadable_share,
)
from pragworld_tasks.sensitivity.articulations import (
    ARTICULATION_METRICS,
    articulation_share,
    articulation_share_stderr,
    score_worded_likelihoods,
    worded_prompt,
    worded_records,
)
from pragworld_tasks.sensitivity.world_model_tasks import (
    WORLD_MODEL_METRICS,
    all_responses,
    estimate,
    estimate_stderr,
    first_paraphrases,
    own_question_records,
    question_records,
    score_quantities,
)

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = [
    "all_responses",
    "conventions_prompt",
    "document_labels",
    "evaluation_prompt",
    "first_paraphrases",
    "label_prompt",
    "score_likelihoods",
    "score_quantities",
    "score_response",
    "score_worded_likelihoods",
    "worded_prompt",
]


@contextlib.contextmanager
def _exiting() -> Iterator[None]:
    """Turn an `InputError` into the end of the process."""
    try:
        yield
    except InputError as error:
        raise SystemExit(str(error)) from error


def _data_set(records: Callable[..., list[dict[str, Any]]]) -> Callable[..., dict[str, "Dataset"]]:
    """Return a function for `custom_dataset`: the records as the data set `test`.

    lm-eval passes all of `--metadata` and `--model_args` along; the functions read what is theirs.
    """

    @functools.wraps(records)
    def data_set(*args: Any, **kwargs: Any) -> dict[str, "Dataset"]:
        from datasets import Dataset

        with _exiting():
            return {"test": Dataset.from_list(records(*args, **kwargs))}

    return data_set


# Data sets ----------------------------------------------------------------------------------------


@_data_set
def split_dataset(pragworld_split: Split, **metadata: Any) -> list[dict[str, Any]]:
    """Return the documents of a split; `metadata` has the settings of generated or own ones."""
    return with_further_fields(data_set_rows(split_documents(pragworld_split, metadata)), metadata)


@_data_set
def originals_dataset(pragworld_split: Split, **metadata: Any) -> list[dict[str, Any]]:
    """Return documents without altered variants, which repeat their originals."""
    documents = split_documents(pragworld_split, metadata)
    return data_set_rows([document for document in documents if document.is_original])


@_data_set
def articulation_dataset(pragworld_split: Split, **metadata: Any) -> list[dict[str, Any]]:
    """Return documents, each in ten wordings."""
    return worded_records(split_documents(pragworld_split, metadata))


question_dataset = _data_set(question_records)
own_question_dataset = _data_set(own_question_records)


# Tasks --------------------------------------------------------------------------------------------


GENERATOR_SETTINGS = [field.name for field in fields(GeneratorSettings)]
# The classes of lm-eval 0.5 by type of output; lm-eval 0.4 has one for all.
_KINDS: Mapping[str, type] = getattr(ConfigurableTask, "_registry", {})


class CheckedTask(ConfigurableTask):
    """A task that checks its run before the first request is sent.

    `aggregations` says how the items of each metric give its value, and its standard error, which
    lm-eval looks for under `<metric>_stderr`; `settings`, which keys of `--metadata` it reads.
    """

    aggregations: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}

    def __new__(cls, config: Mapping[str, Any]) -> Any:
        """Return a task of the kind that the type of output needs."""
        kind = _KINDS.get(config["output_type"])
        return super().__new__(type(cls.__name__, (cls, kind), {}) if kind else cls)

    def __init__(self, config: Mapping[str, Any]) -> None:
        metric_list = [
            {
                # By a name alone, lm-eval 0.5 would look for a metric of its own.
                "metric": type(name + suffix, (), {}) if _KINDS else name + suffix,
                "aggregation": aggregation,
                "higher_is_better": not suffix and name not in LOWER_IS_BETTER,
            }
            for name, aggregations in self.aggregations.items()
            for suffix, aggregation in zip(("", "_stderr"), aggregations, strict=True)
        ]
        self.settings = config.get("settings", [])
        kept = {name: config[name] for name in config if name not in ("class", "settings")}
        super().__init__(config=kept | ({"metric_list": metric_list} if metric_list else {}))

    def aggregate(self, bootstrap_iters: int | None = None) -> Any:
        """Aggregate as lm-eval 0.5 does, without its bootstrap: our metrics have their errors."""
        return super().aggregate(bootstrap_iters=0 if self.aggregations else bootstrap_iters)

    def build_all_requests(self, **options: Any) -> None:
        """Build the requests as lm-eval does, and check the run.

        Examples would give away the answers to their altered variants; the paper has none.
        """
        if shots := self.config.num_fewshot:
            raise SystemExit(
                f"--num_fewshot {shots}: the pragworld tasks are zero-shot; leave the option out"
            )
        # Its cache of requests knows them by the task's name, whatever documents they are about.
        super().build_all_requests(**{**options, "cache_requests": False})
        with _exiting():
            check_run(self.instances)

    def apply_filters(self) -> Any:
        """Filter the responses as lm-eval does, all as text: some servers send lists of parts."""
        for request in self.instances:
            if request.request_type == "generate_until":
                request.resps[:] = map(content_text, request.resps)
        return super().apply_filters()


class PragWorldTask(CheckedTask):
    """A task with questions, each asked once; it has the metrics of its split."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        robust, plain = (robust_share, robust_share_stderr), (share, share_stderr)
        split = config["dataset_kwargs"]["pragworld_split"]
        with _exiting():
            documents = split_documents(OWN, config["metadata"]) if split == OWN else []
        names = task_metric_names(split, documents)
        self.aggregations = {name: robust if name.startswith("robust") else plain for name in names}
        written = config["output_type"] == "generate_until"
        self.aggregations["unreadable"] = (lambda i: unreadable_share(i, written), share_stderr)
        super().__init__(config)


class ArticulationTask(CheckedTask):
    """A task with questions in ten wordings: how sensitive to these, and how right, a model is."""

    aggregations = dict.fromkeys(
        ARTICULATION_METRICS, (articulation_share, articulation_share_stderr)
    )


class WorldModelTask(CheckedTask):
    """A task with an open question in many paraphrases: the components of the variance."""

    aggregations = dict.fromkeys(WORLD_MODEL_METRICS, (estimate, estimate_stderr))

    def __init__(self, config: Mapping[str, Any]) -> None:
        repeats = config["metadata"].get("repeats", config["repeats"])
        if not isinstance(repeats, int) or repeats < 1:
            raise SystemExit(f"--metadata: repeats: {repeats!r} must be a whole number above 0")
        super().__init__({**config, "repeats": repeats})

    def process_results(self, doc: Mapping[str, Any], results: Sequence[Any]) -> Any:
        """Score the responses to a prompt, which lm-eval 0.5 passes without a list around them."""
        is_flat = len(results) == self.config.repeats and isinstance(results[0], str)
        with _exiting():
            return super().process_results(doc, [results] if is_flat else results)
