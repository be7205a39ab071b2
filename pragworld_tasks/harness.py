"""Everything that the task YAML names, and nothing else: lm-eval's way into this package.

This is also where a user's mistake becomes one line. lm-eval would show an `InputError` with a
traceback, so the functions that can raise one end the process with its message instead (a
`SystemExit`, whose message Python prints last, after lm-eval's progress bars).
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec

from lm_eval.api.samplers import ContextSampler

from pragworld_tasks.data.documents import Document, ReleasedSplit
from pragworld_tasks.data.prompts import (
    conventions_prompt,
    evaluation_prompt,
    label_prompt,
)
from pragworld_tasks.data.sources import load_split
from pragworld_tasks.data.splits import own_documents
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.task_metrics import (
    own_records,
    robust_share,
    robust_share_stderr,
    score_likelihoods,
    score_response,
    share,
    share_stderr,
    to_records,
)
from pragworld_tasks.sensitivity.articulations import (
    articulation_share,
    articulation_share_stderr,
    score_worded_likelihoods,
    worded_prompt,
    worded_records,
)
from pragworld_tasks.sensitivity.world_model_tasks import (
    all_responses,
    estimate,
    estimate_stderr,
    first_paraphrases,
    own_question_records,
    question_records,
    score_responses,
    unreadable,
    unreadable_stderr,
)

if TYPE_CHECKING:
    from datasets import Dataset

__all__ = [
    "all_responses",
    "articulation_share",
    "articulation_share_stderr",
    "conventions_prompt",
    "estimate",
    "estimate_stderr",
    "evaluation_prompt",
    "first_paraphrases",
    "label_prompt",
    "robust_share",
    "robust_share_stderr",
    "score_likelihoods",
    "score_response",
    "score_responses",
    "score_worded_likelihoods",
    "share",
    "share_stderr",
    "unreadable",
    "unreadable_stderr",
    "worded_prompt",
]

Parameters = ParamSpec("Parameters")


def _data_set(
    records: Callable[Parameters, Iterable[Mapping[str, Any]]],
) -> Callable[Parameters, dict[str, "Dataset"]]:
    """Return a function for `custom_dataset`: the records as the data set `test`.

    lm-eval passes all of `--metadata` and `--model_args` along; the functions read what is theirs.
    """

    @functools.wraps(records)
    def data_set(*args: Parameters.args, **kwargs: Parameters.kwargs) -> dict[str, "Dataset"]:
        from datasets import Dataset

        try:
            return {"test": Dataset.from_list(list(records(*args, **kwargs)))}
        except InputError as error:
            raise SystemExit(str(error)) from error

    return data_set


# Data sets ----------------------------------------------------------------------------------------


@_data_set
def released_dataset(pragworld_split: ReleasedSplit, **_: Any) -> list[dict[str, Any]]:
    """Return the documents of a released split."""
    return to_records(load_split(pragworld_split))


@_data_set
def released_articulation_dataset(pragworld_split: ReleasedSplit, **_: Any) -> list[dict[str, Any]]:
    """Return the documents of a released split, each in ten wordings."""
    return worded_records(load_split(pragworld_split))


@_data_set
def generated_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return generated documents; `metadata` may hold the fields of `GeneratorSettings`."""
    return to_records(_generated(metadata))


@_data_set
def generated_originals_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return generated documents without altered variants, which repeat their originals."""
    return to_records([document for document in _generated(metadata) if document.is_original])


@_data_set
def generated_articulation_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return generated documents, each in ten wordings."""
    return worded_records(_generated(metadata))


@_data_set
def generated_tracking_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return generated entity tracking; the settings' groups are dialogues."""
    from pragworld_tasks.dialogues.settings import TrackingSettings
    from pragworld_tasks.dialogues.tracking import tracking_documents

    return to_records(list(tracking_documents(TrackingSettings.from_metadata(metadata))))


@_data_set
def own_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return documents of the user's own; `metadata` names their file."""
    return own_records(own_documents(metadata))


@_data_set
def question_dataset(world_model_question: str, **metadata: Any) -> list[dict[str, Any]]:
    """Return the prompts of one of the fifteen questions."""
    return question_records(world_model_question, metadata)


@_data_set
def own_question_dataset(**metadata: Any) -> list[dict[str, Any]]:
    """Return the prompts of a question of the user's own."""
    return own_question_records(metadata)


def _generated(metadata: Mapping[str, Any]) -> list[Document]:
    from pragworld_tasks.dialogues.generate import documents, generate
    from pragworld_tasks.dialogues.settings import GeneratorSettings

    return list(documents(generate(GeneratorSettings.from_metadata(metadata))))


class ZeroShotOnly(ContextSampler):
    """Refuses few-shot examples.

    The paper's prompts have none, and the only documents to take them from would give away the
    answers to each other's altered variants.
    """

    def sample(self, n: int, *_: Any, **__: Any) -> Sequence[dict[str, Any]]:
        """Return no examples where none are wanted; otherwise end with one line."""
        if n:
            raise SystemExit(
                f"--num_fewshot {n}: the pragworld tasks are zero-shot; leave the option out"
            )
        return []
