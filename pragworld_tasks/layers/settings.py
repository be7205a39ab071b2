"""Settings of layer sweeps: what is ablated or patched, where, in which model, on which documents.

A setting `positions` is a string: `all`; `dialogue`, `question` or `last`, a part of the prompt; or
a span `start:stop`, which means what a Python slice of the prompt's tokens does. For a pair of an
original and an altered variant, it may also be `altered`, the tokens that differ, or `utterance`,
the rest of the utterances that hold a difference.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from pragworld_tasks.data.documents import Split
from pragworld_tasks.errors import InputError

Module = Literal["mlp", "attention", "heads"]
PatchedModule = Literal["residual", "mlp", "attention", "heads"]
Into = Literal["original", "altered"]  # which prompt of a pair is patched
Null = Literal["zero", "mean", "resample", "counterfactual"]
Replacement = Literal[Null, "all"]
NULLS: tuple[Null, ...] = get_args(Null)

PARTS = ("all", "dialogue", "question", "last")
PARTS_OF_PAIRS = (*PARTS, "altered", "utterance")

_SPAN = re.compile("(-?[0-9]{1,9})?:(-?[0-9]{1,9})?")


@dataclass(frozen=True)
class ModelIdentity:
    """The model that was swept.

    Attributes:
        name: The name on the Hugging Face hub, or the folder, as the user gave it.
        adapter: The PEFT adapter, if any, and behind an @ the first digits of a digest of its
            weights.
        labels: The tokens whose probabilities are compared: yes, then no; or the labels of all
            prompts. As text, or as the vocabulary has them where two have the same text.
    """

    name: str
    revision: str | None
    adapter: str | None
    dtype: str
    layers: Annotated[int, Field(ge=1)]
    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    chat_template: bool
    quantization: str | None = None

    @property
    def title(self) -> str:
        """A short name: the model, and its adapter and quantization if it has any."""
        parts = [self.name, self.adapter, self.quantization]
        return " + ".join(part.rstrip("/").rpartition("/")[2] for part in parts if part)


@dataclass(frozen=True)
class DataIdentity:
    """The documents that the model was evaluated on.

    Attributes:
        split: Where they are from; "own" for a user's documents or prompts.
        fingerprint: A digest of the documents, their prompts and labels.
        generator: The settings of generated documents.
    """

    split: Split
    documents: int
    groups: int
    fingerprint: str
    generator: dict[str, Any] | None = None


def is_same_model(first: str, second: str) -> bool:
    """Return whether two names are those of one model on the hub, or of one folder."""
    one, other = Path(first), Path(second)
    return first == second or (one.is_dir() and other.is_dir() and one.samefile(other))


@dataclass(frozen=True)
class Intervention:
    """What the sweep does to each target.

    Attributes:
        module: The part of the block whose output is replaced; "heads" for the parts of attention.
        replacement: What replaces it: zeros, its mean at positions of the same kind, its output at
            a random position, that of the counterpart prompt at the aligned position; or all of
            these, one after the other.
        seed: The seed of "resample"; None without it.
        base: The model whose layers, as whole blocks, take the place of the model's.
    """

    module: Literal["mlp", "attention", "heads", "block"]
    replacement: Replacement | Literal["base"]
    seed: int | None = None
    positions: str = "all"
    base: str | None = None

    def __post_init__(self) -> None:
        if self.base is None:
            check_choice("module", self.module, Module)
            check_choice("replacement", self.replacement, Replacement)
        is_of_pairs = self.replacement == "counterfactual"
        check_positions(self.positions, PARTS_OF_PAIRS if is_of_pairs else PARTS)

    @property
    def nulls(self) -> tuple[str, ...]:
        """What replaces outputs in turn."""
        return NULLS if self.replacement == "all" else (self.replacement,)

    @property
    def name(self) -> str:
        """The intervention in words, without the seed."""
        if self.base is not None:
            return f"layers reverted to {self.base}"
        at = "" if self.positions == "all" else f" at positions {self.positions}"
        return f"{self.module} {self.replacement} ablation{at}"


@dataclass(frozen=True)
class Target:
    """What one run ablates.

    Attributes:
        layers: The layer, or the layers that are ablated together, ascending.
        head: The head of the layer; None for all of the module.
    """

    layers: tuple[int, ...]
    head: int | None = None

    @property
    def name(self) -> str:
        """The target in short.

        Examples:
            >>> Target((5,)).name, Target((5, 7)).name, Target((5,), 3).name
            ('5', '5+7', '5.3')
        """
        layers = "+".join(map(str, self.layers))
        if len(self.layers) > 3 and self.layers[-1] - self.layers[0] == len(self.layers) - 1:
            layers = f"{self.layers[0]}+…+{self.layers[-1]}"
        return layers if self.head is None else f"{layers}.{self.head}"

    @property
    def place(self) -> int | tuple[int, ...]:
        """The layer as a number, several layers as a tuple, or a layer and its head."""
        if self.head is not None:
            return (*self.layers, self.head)
        return self.layers if len(self.layers) > 1 else self.layers[0]


def every_layer(count: int) -> tuple[Target, ...]:
    """Return each of `count` layers alone."""
    return tuple(Target((layer,)) for layer in range(count))


def check_positions(positions: str, parts: Sequence[str] = PARTS) -> None:
    """Refuse positions that are neither a span nor one of the parts.

    Examples:
        >>> check_positions("dialog")
        Traceback (most recent call last):
        ...
        pragworld_tasks.errors.InputError: positions dialog: must be all, dialogue, question, last,
        or a span of tokens such as 3:8 or -5:
    """
    if positions not in parts and not _SPAN.fullmatch(positions):
        names = ", ".join(parts)
        raise InputError(
            f"positions {positions}: must be {names}, or a span of tokens such as 3:8 or -5:"
        )


def check_choice(name: str, value: str, choices: Any) -> None:
    """Refuse a setting that is not one of its choices, the arguments of a `Literal`."""
    if value not in get_args(choices):
        raise InputError(f"{name}={value!r}: must be one of {', '.join(get_args(choices))}")
