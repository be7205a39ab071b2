"""Layer reports for tests: made-up answers to made-up documents."""

from collections.abc import Sequence

import numpy as np

from pragworld_interp.prompts.examples import document_examples
from pragworld_interp.run.inputs import data_identity, document_results
from pragworld_tasks.data.documents import ALTERATIONS, Document, Split
from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.layer_statistics import StatisticsSettings
from pragworld_tasks.layers.settings import Intervention, ModelIdentity, every_layer

QUICK = StatisticsSettings(resamples=60)


def make_documents(sizes: Sequence[int], split: Split = "manual", seed: int = 0) -> list[Document]:
    """Return groups of these sizes, each an original and its variants."""
    generator = np.random.default_rng(seed)
    documents: list[Document] = []
    for group, size in enumerate(sizes):
        for number in range(size):
            is_original = number == 0 or split.endswith("entity_tracking")
            documents.append(
                Document(
                    row=len(documents),
                    context="A: hello",
                    question="Is it?",
                    answer="yes" if generator.integers(2) else "no",
                    group=group,
                    is_original=is_original,
                    alteration=None if is_original else ALTERATIONS[generator.integers(7)],
                    effect=None if is_original else ("flip", "invariant")[generator.integers(2)],
                    split=split,
                    released_group=group,
                    released_is_original=is_original,
                )
            )
    return documents


def to_yes(documents: Sequence[Document], correct: Sequence[Sequence[bool]]) -> Floats:
    """Return p(yes), [documents, runs], with which each run is as `correct` as given."""
    gold = np.array([document.answer == "yes" for document in documents])
    return np.where(gold[:, None] == np.array(correct).T, 0.8, 0.3)


def make_report(
    documents: Sequence[Document],
    yes: Floats,
    name: str = "org/model",
    adapter: str | None = None,
    settings: StatisticsSettings = QUICK,
    intervention: Intervention | None = None,
) -> LayerReport:
    intervention = intervention or Intervention("mlp", "zero")
    model = ModelIdentity(
        name=name,
        revision="main",
        adapter=adapter,
        dtype="float32",
        layers=(yes.shape[1] - 1) // len(intervention.nulls),
        labels=(" yes", " no"),
        chat_template=False,
    )
    examples = document_examples(documents)
    is_yes = np.array([document.answer == "yes" for document in documents])[:, None]
    gold = np.where(is_yes, yes, 1 - yes)
    return LayerReport(
        model,
        data_identity(examples),
        intervention,
        every_layer(model.layers),
        document_results(examples, gold),
        settings,
    )


def random_report(
    layers: int, split: Split = "manual", seed: int = 0, name: str = "org/model"
) -> LayerReport:
    """Return a report with random answers; the documents are the same for all seeds."""
    documents = make_documents([5] * 40, split)
    yes = np.random.default_rng(seed).random((len(documents), 1 + layers))
    return make_report(documents, yes, name)
