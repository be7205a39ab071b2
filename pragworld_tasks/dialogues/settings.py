"""The settings of the dialogue generator: how many groups, which split, which domains."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self, get_args

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.dialogues.vocabulary import DOMAINS, Domain, Names, domain_vocabulary
from pragworld_tasks.errors import InputError
from pragworld_tasks.metadata import warn_of_misspelt

GENERATOR_VERSION = "2"  # change it whenever the documents of a seed change

Undetermined = Literal["keep", "drop"]
GeneratedSplit = Literal["train", "validation", "test", "test_vocabulary", "test_long"]
GENERATED_SPLITS: tuple[GeneratedSplit, ...] = get_args(GeneratedSplit)
SHARES = 4  # into which `compose.opening_share` divides all dialogues
# The shares that a split draws from.
SPLIT_SHARES: dict[GeneratedSplit, tuple[int, ...]] = {
    "train": (0, 1),
    "validation": (2,),
    "test": (3,),
    "test_vocabulary": tuple(range(SHARES)),
    "test_long": tuple(range(SHARES)),
}
LONG_LENGTHS = (12, 13, 14, 15, 16)  # exchanges in a dialogue of the split `test_long`


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """Which dialogues to generate. The same settings give the same documents on every machine.

    Attributes:
        groups: Number of groups, at least 1.
        seed: Any integer. Another seed gives other dialogues.
        split: The dialogues of `train`, `validation` and `test` are disjoint, whatever their
            seeds. `test_vocabulary` uses words that no other split has. `test_long` has longer
            dialogues than any other split.
        domains: The domains to draw from.
        held_out_alteration: An alteration that `train` and `validation` leave out and that every
            group of the other splits has, or None.
        undetermined: Whether to keep or to drop questions that what was said leaves undetermined.
            The answer to them is no by convention.
    """

    groups: int = 200
    seed: int = 0
    split: GeneratedSplit = "test"
    domains: tuple[Domain, ...] = DOMAINS
    held_out_alteration: str | None = None
    undetermined: Undetermined = "keep"

    def __post_init__(self) -> None:
        for name in ("groups", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise InputError(f"{name} must be an integer, not {value!r}")
        if self.groups < 1:
            raise InputError(f"groups must be at least 1, not {self.groups}")
        if self.split not in GENERATED_SPLITS:
            raise InputError(
                f"there is no generated split {self.split!r}; use {', '.join(GENERATED_SPLITS)}"
            )
        if not (isinstance(self.domains, list | tuple) and self.domains):
            raise InputError(
                f"domains must be a list of domains, not {self.domains!r}; use {', '.join(DOMAINS)}"
            )
        for domain in self.domains:
            if domain not in DOMAINS:
                raise InputError(f"there is no domain {domain!r}; use {', '.join(DOMAINS)}")
        # Always in the same order, because the seed of a group depends on it.
        domains = tuple(domain for domain in DOMAINS if domain in self.domains)
        object.__setattr__(self, "domains", domains)
        if self.held_out_alteration not in (None, *ALTERATIONS):
            raise InputError(
                f"there is no alteration {self.held_out_alteration!r}; use {', '.join(ALTERATIONS)}"
            )
        if self.undetermined not in get_args(Undetermined):
            raise InputError(f"undetermined must be keep or drop, not {self.undetermined!r}")

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the settings that lm-eval's `--metadata` specifies.

        >>> GeneratorSettings.from_metadata({"seed": 7, "domains": "shop,clinic"}).domains
        ('shop', 'clinic')

        Args:
            metadata: Fields of this class by name. Other keys are ignored, because lm-eval adds
                its model arguments; a warning names those that look like a misspelt field.
                `domains` may be a string with commas.

        Raises:
            InputError: A setting has a wrong type or an unknown value.
        """
        names = [field.name for field in fields(cls)]
        warn_of_misspelt(metadata, names)
        settings = {name: metadata[name] for name in names if name in metadata}
        if isinstance(settings.get("domains"), str):
            settings["domains"] = tuple(name.strip() for name in settings["domains"].split(","))
        return cls(**settings)

    def vocabulary(self, domain: Domain) -> Names:
        """Return the words that the split uses in a domain."""
        return domain_vocabulary(
            domain, "held out" if self.split == "test_vocabulary" else "regular"
        )
