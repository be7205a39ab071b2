"""What goes into a sweep, documents or prompts and layers, and what a report says of them."""

import re
from collections.abc import Iterable, Sequence
from operator import index
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from pragworld_interp.prompts.examples import Example, fingerprint
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.statistics import Floats
from pragworld_tasks.layers.layer_statistics import DocumentResult
from pragworld_tasks.layers.report import DIGITS
from pragworld_tasks.layers.settings import DataIdentity, Intervention, Target

# As a user names them: a layer alone, or layers together.
Layers: TypeAlias = Sequence[int | Sequence[int]]

# Of weights; auto: as they are stored.
Dtype = Literal["auto", "float32", "bfloat16", "float16"]


def data_identity(
    examples: Sequence[Example], generator: dict[str, Any] | None = None
) -> DataIdentity:
    """Return what reports say of examples of one split."""
    return DataIdentity(
        split=examples[0].split,
        documents=len(examples),
        groups=len({example.group for example in examples}),
        fingerprint=fingerprint(examples),
        generator=generator,
    )


def select_pair(documents: Sequence[Document], row: int | None) -> list[Document]:
    """Return the altered variant of a row, after its original."""
    place = f"split {documents[0].split}, row {row}"
    variants = {document.row: document for document in documents if not document.is_original}
    if row not in variants:
        rows = ", ".join(map(str, [*variants][:20])) or "another split, which has some"
        raise InputError(f"{place}: not an altered variant among the documents; choose {rows}")
    group = variants[row].group
    originals = [each for each in documents if each.is_original and each.group == group]
    if not originals:
        raise InputError(f"{place}: its original is not among the documents; add it")
    return [originals[0], variants[row]]


def chosen_intervention(
    module: Any, replacement: Any, seed: int, positions: str, base: str | None
) -> Intervention:
    """Return what an ablation does, or with a base model, a reversal to its layers."""
    if base is None:
        drawn = int(seed) if replacement in ("resample", "all") else None
        return Intervention(module, replacement, drawn, positions)
    if (module, replacement, positions) != ("mlp", "zero", "all"):
        raise InputError(
            "revert runs whole layers of another model; leave out module, replacement and positions"
        )
    return Intervention("block", "base", base=base)


def choose_targets(
    layers: Layers | None, count: int, heads: Sequence[int] | None = None
) -> tuple[Target, ...]:
    """Return the targets that a user chose.

    Examples:
        >>> [target.name for target in choose_targets([0, (1, 2)], 3)]
        ['0', '1+2']
        >>> [target.name for target in choose_targets([1], 2, heads=[2, 2])]
        ['1.0', '1.1']
    """
    try:
        given = range(count) if layers is None else layers
        entries = [entry if isinstance(entry, Iterable) else [entry] for entry in given]
        chosen = [Target(tuple(sorted(int(index(layer)) for layer in own))) for own in entries]
    except TypeError as error:
        raise InputError(
            f"layers={layers!r}: not a list of layers; give numbers, in brackets those to ablate "
            "together, such as [3, (5, 7)]"
        ) from error
    if not chosen or not all(target.layers for target in chosen):
        raise InputError("layers: there are none; name at least one, or leave out layers for all")
    for target in chosen:
        if wrong := [layer for layer in target.layers if not 0 <= layer < count]:
            raise InputError(
                f"layer {wrong[0]} does not exist; the model has layers 0 to {count - 1}"
            )
        if len({*target.layers}) < len(target.layers) or chosen.count(target) > 1:
            raise InputError(f"layers {target.name}: given twice; give each of them once")
    if heads is None:
        return tuple(chosen)
    if together := [target.name for target in chosen if len(target.layers) > 1]:
        raise InputError(f"layers {together[0]}: heads are ablated one at a time")
    alone = [layer for target in chosen for layer in target.layers]
    return tuple(Target((layer,), head) for layer in alone for head in range(heads[layer]))


def parse_layers(text: str) -> list[int | tuple[int, ...]]:
    """Return the layers that a text names: with commas each alone, with + together.

    Examples:
        >>> parse_layers("0-2,7,3+5")
        [0, 1, 2, 7, (3, 5)]
    """
    layers: list[int | tuple[int, ...]] = []
    for part in text.replace(" ", "").split(","):
        matches = [re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", item) for item in part.split("+")]
        ranges = [range(int(match[1]), int(match[2] or match[1]) + 1) for match in matches if match]
        numbers = [number for own in ranges for number in own]
        if not all(matches) or not all(ranges):
            raise InputError(
                f"layers {text}: must be numbers, ranges, or layers to ablate together, such as "
                "0-9,12 or 5+7"
            )
        layers += [tuple(numbers)] if "+" in part else numbers
    return layers


def document_results(
    examples: Sequence[Example], *observed: ArrayLike
) -> tuple[DocumentResult, ...]:
    """Return what a report says of examples, rounded to `DIGITS`, as its file has it."""
    rounded = [_rounded(np.asarray(part, dtype=np.float64)).tolist() for part in observed]
    return tuple(
        DocumentResult(d.row, d.group, d.answer, d.alteration, d.effect, *map(tuple, values))
        for d, *values in zip(examples, *rounded, strict=True)
    )


def _rounded(gold: Floats) -> Floats:
    """Return rounded probabilities. Rounding never creates a tie."""
    if not ((gold >= 0) & (gold <= 1)).all():
        raise ValueError("p(gold) has a value that is not from 0 to 1; it must hold probabilities")
    rounded = np.round(gold, DIGITS)
    new_tie = (rounded == 0.5) & (gold != 0.5)
    rounded[new_tie] = np.round(0.5 + np.sign(gold[new_tie] - 0.5) * 10.0**-DIGITS, DIGITS)
    return rounded
