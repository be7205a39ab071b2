"""A random stream that is the same on every machine and in every version of Python.

Of Python's generators, only `random()` seeded with a string is guaranteed never to change. Every
other draw here is derived from it.
"""

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

_Option = TypeVar("_Option")


class StableRandom:
    """A stream of random draws that depends on nothing but its seed.

    >>> StableRandom("seed").sample(["pears", "plums", "figs"], 2)
    ['pears', 'figs']
    """

    def __init__(self, seed: str) -> None:
        self.source = random.Random(seed)
        self._random = self.source.random

    def below(self, limit: int) -> int:
        """Return an integer from 0 to `limit - 1`."""
        return int(self._random() * limit)

    def happens(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self._random() < probability

    def choice(self, options: Sequence[_Option]) -> _Option:
        """Return one of the options."""
        return options[int(self._random() * len(options))]

    def weighted_choice(self, weights: Mapping[_Option, float]) -> _Option:
        """Return one of the keys, each with a probability in proportion to its value."""
        bounds = list(accumulate(weights.values()))
        number = bisect(bounds, self._random() * bounds[-1])
        return list(weights)[min(number, len(bounds) - 1)]

    def rounded(self, number: float) -> int:
        """Return one of the two integers around a number, which is the mean of many draws."""
        return int(number) + self.happens(number % 1)

    def shuffled(self, options: Sequence[_Option]) -> list[_Option]:
        """Return all of the options in random order."""
        shuffled, uniform = list(options), self._random
        for last in range(len(shuffled) - 1, 0, -1):
            other = int(uniform() * (last + 1))
            shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
        return shuffled

    def sample(self, options: Sequence[_Option], size: int) -> list[_Option]:
        """Return `size` of the options without replacement, or all of them if there are fewer."""
        remaining, uniform = list(options), self._random
        drawn = []
        for last in range(len(remaining) - 1, max(len(remaining) - 1 - size, -1), -1):
            index = int(uniform() * (last + 1))
            drawn.append(remaining[index])
            remaining[index] = remaining[last]
        return drawn
