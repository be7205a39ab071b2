"""Shards: parts of a long run that several machines do without talking to each other.

A run is a sequence of units that are computed together, such as batches of groups, in an order that
follows from the data and the settings. Shard i of n is every n-th unit from the i-th one on. No
unit is cut, so that every number is computed exactly as in a run that is not divided.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import difference

Unit = TypeVar("Unit")

# Those of lm-eval's --model_args that say how a server is reached, which may change from day to day
# and from shard to shard, and secrets.
SERVER_SETTINGS = (
    *("base_url", "num_concurrent", "max_retries", "timeout", "batch_size", "device"),
    *("verify_certificate", "ca_cert_path", "token", "auth_token", "api_key", "header"),
)


@dataclass(frozen=True)
class Shard:
    """A part of a run.

    Attributes:
        number: Its number, from 1.
        count: How many shards the run has.
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        """Refuse a number that is not from 1 to the count."""
        if not 1 <= self.number <= self.count:
            raise ValueError(f"there is no shard {self}")

    def __str__(self) -> str:
        """Return the shard as `--shard` takes it."""
        return f"{self.number}/{self.count}"

    def units(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return those of a run's units that belong to the shard.

        Examples:
            >>> Shard(2, 3).units("abcdefg")
            'be'
        """
        return units[self.number - 1 :: self.count]

    def positions(self, groups: Sequence[Hashable]) -> list[int]:
        """Return the positions of those of a run's documents whose group belongs to the shard.

        Args:
            groups: The group of each document. Groups are counted in the order of their first ones.

        Examples:
            >>> Shard(1, 2).positions("aabbac")
            [0, 1, 4, 5]
        """
        own = set(self.units([*dict.fromkeys(groups)]))
        return [position for position, group in enumerate(groups) if group in own]

    @property
    def name(self) -> str:
        """What its file or folder is called, by itself or behind the name of the run's."""
        return f"shard-{self.number}-of-{self.count}"


def parse_shard(text: str, option: str = "--shard") -> Shard:
    """Return the shard that an option names.

    Args:
        text: What the option says.
        option: Its name, for the message.

    Raises:
        InputError: The text does not name a shard.

    Examples:
        >>> parse_shard("1/4")
        Shard(number=1, count=4)
    """
    match = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text, re.ASCII)
    if not match:
        raise InputError(
            f"{option} {text}: must be a number from 1, a slash, and how many shards there are, "
            "such as 1/4"
        )
    if int(match[1]) > int(match[2]):
        raise InputError(
            f"{option} {text}: there are {match[2]} shards; the number must be from 1 to {match[2]}"
        )
    return Shard(int(match[1]), int(match[2]))


def check_enough_units(shard: Shard, units: Sequence[object], remedy: str) -> None:
    """Refuse to divide a run among more shards than it has units.

    Raises:
        InputError: There are fewer units than shards.
    """
    if len(units) < shard.count:
        raise InputError(
            f"--shard {shard}: the run has {len(units)} batches, which cannot be cut; use at most "
            f"{len(units)} shards, or {remedy}"
        )


def check_shards(files: Sequence[tuple[Path, Shard, Mapping[str, Any]]]) -> list[Path]:
    """Check that files are all shards of one run, each once, and return them in their order.

    Args:
        files: Each file, the shard in it, and what its results depend on, as JSON values.

    Raises:
        InputError: There are no files, or a shard is of another run, occurs twice, or is missing.
    """
    if not files:
        raise InputError("there are no shards to join; give the files of all shards of a run")
    first, first_shard, first_identity = files[0]
    count = first_shard.count
    paths: dict[int, Path] = {}
    for number, (path, shard, identity) in enumerate(files):
        if any(path == other for other, *_ in files[:number]):
            raise InputError(f"{path}: given twice; give each shard once")
        if changed := difference(identity, first_identity):
            raise InputError(
                f"{path}: a shard of another run than {first}, with {changed}; give the shards of "
                "one run"
            )
        if shard.count != count:
            raise InputError(
                f"{path}: shard {shard}, but {first} is shard {first_shard}; divide the run once"
            )
    for path, shard, _ in files:
        if (other := paths.setdefault(shard.number, path)) != path:
            raise InputError(
                f"{path}: shard {shard}, as is {other}; remove one of the two, or leave it out"
            )
    if missing := [str(Shard(n, count)) for n in range(1, count + 1) if n not in paths]:
        raise InputError(
            f"shard {', '.join(missing)} of the run that {first} is of: missing; run it, or give "
            "its file, too"
        )
    return [paths[number] for number in sorted(paths)]
