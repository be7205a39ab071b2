"""What a sweep ablates, one run each: a layer, several layers together, or a head of a layer."""

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pragworld_tasks.errors import InputError

Module = Literal["mlp", "attention", "heads"]

# As a user names them: a layer alone, or layers together.
Layers: TypeAlias = Sequence[int | Sequence[int]]


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


def choose_targets(
    layers: Layers | None, count: int, heads: Sequence[int] | None = None
) -> tuple[Target, ...]:
    """Return the targets that a user chose.

    Args:
        layers: Layers, each alone, or a sequence of those to ablate together; None for every layer.
        count: The layers of the model.
        heads: The number of heads of each layer, each of which is a target; None for whole modules.

    Raises:
        InputError: A layer is not a number, does not exist or occurs twice, or heads are of several
            layers together.

    Examples:
        >>> [target.name for target in choose_targets([0, (1, 2)], 3)]
        ['0', '1+2']
        >>> [target.name for target in choose_targets([1], 2, heads=[2, 2])]
        ['1.0', '1.1']
    """
    chosen = [Target(own) for own in _numbers(range(count) if layers is None else layers)]
    if not chosen or not all(target.layers for target in chosen):
        raise InputError("layers: there are none; name at least one, or leave out layers for all")
    for target in chosen:
        if wrong := [layer for layer in target.layers if not 0 <= layer < count]:
            raise InputError(
                f"layer {wrong[0]} does not exist; the model has layers 0 to {count - 1}"
            )
        if len({*target.layers}) < len(target.layers) or chosen.count(target) > 1:
            raise InputError(f"layers {target.name}: given twice; give each of them once")
        if heads is not None and len(target.layers) > 1:
            raise InputError(
                f"layers {target.name}: heads are ablated one at a time; give single layers"
            )
    if heads is None:
        return tuple(chosen)
    return tuple(
        Target((layer,), head)
        for (layer,) in (target.layers for target in chosen)
        for head in range(heads[layer])
    )


def _numbers(layers: Layers) -> list[tuple[int, ...]]:
    """Return the layers of each target, ascending."""
    try:
        entries = [[*entry] if isinstance(entry, Iterable) else [entry] for entry in layers]
        if any(isinstance(layer, bool) for entry in entries for layer in entry):
            raise TypeError("True and False are integers")
        return [tuple(sorted(int(operator.index(layer)) for layer in entry)) for entry in entries]
    except TypeError as error:
        raise InputError(
            f"layers={layers!r}: not a list of layers; give numbers, in brackets those to ablate "
            "together, such as [3, (5, 7)]"
        ) from error


def parse_layers(text: str) -> list[int | tuple[int, ...]]:
    """Return the layers that a text names: with commas each alone, with + together.

    Raises:
        InputError: The text has another form.

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
