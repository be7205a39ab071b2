"""Random choices that are the same on every machine and in every version of Python.

Of Python's generators only `random()`, seeded with a text, is promised never to change; all else is
made of it here.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """A stream of choices, wholly determined by the text that seeds it."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        """A whole number from 0 up to, but not, `limit`."""
        return int(self._random() * limit)

    def happens(self, probability: float) -> bool:
        """True with that probability."""
        return self._random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[int(self._random() * len(options))]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """All of the options in random order."""
        shuffled = list(options)
        for last in range(len(shuffled) - 1, 0, -1):
            other = int(self._random() * (last + 1))
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """So many different ones of the options, or all where they are fewer."""
        left = list(options)
        taken = []
        for last in range(len(left) - 1, max(len(left) - 1 - count, -1), -1):
            index = int(self._random() * (last + 1))
            taken.append(left[index])
            left[index] = left[last]
        return taken
