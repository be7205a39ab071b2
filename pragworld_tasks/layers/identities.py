"""Identities of the model and the documents behind a report, recorded in every result file."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pragworld_tasks.data.documents import Document, Effect, Split

Dtype = Literal["auto", "float32", "bfloat16", "float16"]  # of weights; auto: as they are stored


@dataclass(frozen=True)
class OwnPrompt:
    """A prompt of a user's own, whose next token is one of some labels.

    Attributes:
        row: The number of the prompt.
        group: The number of its group; groups are independent of each other.
        is_original: Whether it is the first of its group.
        answer: The label that is right.
        labels: The labels.
        columns: Where the logits of its labels are among those of all labels, the right one first.
        text: The prompt.
        alteration, effect, split: As in `Document`.
    """

    row: int
    group: int
    is_original: bool
    answer: str
    labels: tuple[str, ...]
    columns: tuple[int, ...]
    text: str
    alteration: str | None = None
    effect: Effect | None = None
    split: Literal["own"] = "own"


@dataclass(frozen=True)
class ModelIdentity:
    """The model that was swept.

    Attributes:
        name: The name on the Hugging Face hub, or the folder, as the user gave it.
        revision: The revision of the weights, if known.
        adapter: The folder or the name of the PEFT adapter on top of the model, if any, and behind
            an @ the first digits of a digest of its weights.
        dtype: The type of the weights during the sweep.
        layers: The number of blocks.
        labels: The tokens whose probabilities are compared: yes, then no; those of all prompts of
            a user's own. As text, or as the vocabulary has them where two have the same text.
        chat_template: Whether prompts went through the model's chat template.
        quantization: The quantization of the weights, if any.
    """

    name: str
    revision: str | None
    adapter: str | None
    dtype: str
    layers: int
    labels: tuple[str, ...]
    chat_template: bool
    quantization: str | None = None


@dataclass(frozen=True)
class DataIdentity:
    """The documents that the model was evaluated on.

    Attributes:
        split: The split that the documents are from; "own" for a user's own documents or prompts.
        documents, groups: How many documents and groups there are.
        fingerprint: A digest of the documents and their prompts; see `fingerprint`.
        generator: The settings of generated documents; None for released ones.
    """

    split: Split
    documents: int
    groups: int
    fingerprint: str
    generator: dict[str, Any] | None = None


def data_identity(
    documents: Sequence[Document | OwnPrompt],
    prompts: Sequence[str],
    generator: dict[str, Any] | None = None,
) -> DataIdentity:
    """Return the identity of documents of one split and their prompts, before a chat template."""
    return DataIdentity(
        split=documents[0].split,
        documents=len(documents),
        groups=len({document.group for document in documents}),
        fingerprint=fingerprint(documents, prompts),
        generator=generator,
    )


def fingerprint(documents: Sequence[Document | OwnPrompt], prompts: Sequence[str]) -> str:
    """Return the SHA-256 digest, in hexadecimal, of documents and their prompts.

    Equal fingerprints mean that two models were evaluated on the same prompts and labels. Chat
    templates differ between models, so `prompts` are the texts before a template is applied.
    """
    digest = hashlib.sha256()
    for d, prompt in zip(documents, prompts, strict=True):
        labels = [sorted(d.labels)] if isinstance(d, OwnPrompt) else []
        record = [d.split, d.row, d.group, d.answer, d.alteration, d.effect, prompt, *labels]
        digest.update(json.dumps(record).encode() + b"\n")
    return digest.hexdigest()


def model_titles(models: Sequence[ModelIdentity]) -> list[str]:
    """Return a short, unique title for each model: its name, adapter and quantization."""
    titles: list[str] = []
    for model in models:
        parts = [model.name, model.adapter, model.quantization]
        title = " + ".join(part.rstrip("/").rpartition("/")[2] for part in parts if part)
        numbered = (f"{title} ({number})" for number in itertools.count(2))
        titles.append(
            next(name for name in itertools.chain([title], numbered) if name not in titles)
        )
    return titles


def is_same_model(first: str, second: str) -> bool:
    """Return whether two names are those of one model on the hub, or of one folder."""
    folders = [Path(name) for name in (first, second)]
    if all(folder.is_dir() for folder in folders):
        return folders[0].samefile(folders[1])
    return first == second
