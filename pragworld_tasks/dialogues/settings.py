"""The settings of the dialogue generator: how many groups, which split, which domains."""

from collections.abc import Mapping, Set
from dataclasses import field, fields
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import AfterValidator, Field, ValidationError, field_validator
from pydantic.dataclasses import dataclass

from pragworld_tasks.data.documents import ALTERATION_COUNTS, ALTERATIONS
from pragworld_tasks.dialogues.vocabulary import DOMAINS, Domain, Names, domain_vocabulary
from pragworld_tasks.errors import InputError, first_problem

GENERATOR_VERSION = "5"  # change it whenever the documents of a seed change

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
# The alterations and their shares of the altered variants, in percent, as in the manual split.
ALTERATION_SHARES = {
    name: float(round(100 * count / sum(ALTERATION_COUNTS.values())))
    for name, count in ALTERATION_COUNTS.items()
}
# The domains to choose from, and the splits that the conversations of the last one divide into.
ALL_DOMAINS: tuple[Domain, ...] = (*DOMAINS, "conversation")
_SPLITS_OF_CONVERSATIONS = ("train", "validation", "test")
# Alterations that can change the answer, to questions about composed dialogues and conversations.
FLIPS_IN_DIALOGUES = frozenset(ALTERATIONS) - {"Quantity Change", "Injecting Inconsistent Data"}
FLIPS_IN_CONVERSATIONS = frozenset(
    ("Negation", "Variable Substitution", "Variable Swap", "Quantity Change")
)
_ONCE = frozenset(("Negation", "Variable Swap"))  # that most conversations have one place for
LONG_LENGTHS = (14, 15, 16, 17, 18)  # exchanges in a dialogue of the split `test_long`


def _known(alteration: str) -> str:
    if alteration not in ALTERATIONS:
        raise ValueError(f"there is no alteration {alteration!r}; use {', '.join(ALTERATIONS)}")
    return alteration


_Alteration = Annotated[str, AfterValidator(_known)]
_Weight = Annotated[float, Field(ge=1e-6, le=1e6)]


@dataclass(frozen=True)
class GeneratorSettings:
    """Which dialogues to generate. The same settings give the same documents on every machine.

    Attributes:
        groups: Number of groups, at least 1.
        seed: Any integer. Another seed gives other dialogues.
        split: The dialogues of `train`, `validation` and `test` are disjoint, whatever their
            seeds. `test_vocabulary` is about what no other split is about. `test_long` has longer
            dialogues than any other split.
        domains: The domains to draw from, by default all that the split and the alterations allow
            for. All dialogues are composed anew but those of the domain "conversation", which vary
            the details of written conversations, each for one split.
        held_out_alteration: An alteration that `train` and `validation` leave out and that every
            group of the other splits has, or None.
        alterations: The alterations that variants have, each with a weight. The shares of the
            variants are about in proportion to the weights. But half of the groups have two or
            three flips, which are swaps and substitutions of variables, if those have any weight;
            and most conversations have one place for an alteration other than a substitution.
        flips: The share of the altered variants whose answer is not the original's, from 0.2 to
            0.5. A group has 1 to 3 flips, and as many variants as this share makes of them, but at
            least one invariant, so that a share of 0.5 comes to 0.49, or to 0.44 in conversations.
        undetermined: Whether to keep or to drop questions that what was said leaves undetermined.
            The answer to them is no by convention.
    """

    groups: Annotated[int, Field(ge=1)] = 200
    seed: int = 0
    split: GeneratedSplit = "test"
    domains: tuple[Domain, ...] = ()
    held_out_alteration: _Alteration | None = None
    alterations: Annotated[dict[_Alteration, _Weight], Field(min_length=1)] = field(
        default_factory=ALTERATION_SHARES.copy
    )
    flips: Annotated[float, Field(ge=0.2, le=0.5)] = 0.34
    undetermined: Undetermined = "keep"

    @field_validator("domains", mode="before")
    @classmethod
    def _read_domains(cls, domains: object) -> object:
        """Read a list from a string with commas."""
        return _parts(domains) if isinstance(domains, str) else domains

    @field_validator("alterations", mode="before")
    @classmethod
    def _read_weights(cls, weights: object) -> object:
        """Read weights from a string such as "Negation=2,Variable Swap"."""
        if not isinstance(weights, str):
            return weights
        parts = [part.partition("=") for part in _parts(weights)]
        read = {name.strip(): weight or 1.0 for name, _, weight in parts}
        if len(read) < len(parts):
            raise ValueError(f"{weights} has two weights for an alteration; leave one out")
        return read

    def __post_init__(self) -> None:
        # Always in the same order, because groups and their seeds depend on it.
        weights = {name: self.alterations[name] for name in ALTERATIONS if name in self.alterations}
        object.__setattr__(self, "alterations", weights)
        self._choose_domains()

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """Return the settings in lm-eval's `--metadata`, which has its model arguments, too.

        `domains` and `alterations` may be strings with commas, as in "Negation=2,Variable Swap".
        A weight that is left out is 1.

        >>> GeneratorSettings.from_metadata({"seed": 7, "domains": "shop,clinic"}).domains
        ('shop', 'clinic')
        """
        names = [field.name for field in fields(cls)]
        try:
            return cls(**{name: metadata[name] for name in names if name in metadata})
        except ValidationError as error:
            raise InputError(first_problem(error)) from error

    @property
    def in_training(self) -> bool:
        """Whether the split leaves out the held-out alteration."""
        return self.split in ("train", "validation")

    @property
    def drawn_alterations(self) -> dict[str, float]:
        """The alterations to draw from, with weights: all but one that training leaves out."""
        left_out = self.held_out_alteration if self.in_training else None
        return {name: weight for name, weight in self.alterations.items() if name != left_out}

    @property
    def needed_alteration(self) -> str | None:
        """The alteration that every group has to have, or None."""
        return None if self.in_training else self.held_out_alteration

    def flipping(self, flips: Set[str]) -> Set[str]:
        """Return which of the alterations that can change an answer the split has."""
        return flips & {*self.drawn_alterations, self.needed_alteration}

    def _choose_domains(self) -> None:
        """Leave out domains that can't be had, or refuse them if they were asked for."""
        if self.in_training and set(self.alterations) == {self.held_out_alteration}:
            raise InputError(
                f"the only alteration, {self.held_out_alteration!r}, is held out of split "
                f"{self.split!r}; add others to alterations, or use split 'test'"
            )
        wanted = [name for name in ALL_DOMAINS if name in (self.domains or ALL_DOMAINS)]
        objections = {name: self._objection(name) for name in wanted}
        possible = tuple(name for name in wanted if not objections[name])
        if not possible or (self.domains and len(possible) < len(wanted)):
            raise InputError(next(filter(None, objections.values())))
        object.__setattr__(self, "domains", possible)

    def _objection(self, domain: Domain) -> str:
        """Return why the split and the alterations don't allow for a domain, or ""."""
        flips = FLIPS_IN_DIALOGUES
        if domain == "conversation":
            flips = FLIPS_IN_CONVERSATIONS
            if self.split not in _SPLITS_OF_CONVERSATIONS:
                return (
                    f"the domain 'conversation' has no split {self.split!r}; use "
                    f"{', '.join(_SPLITS_OF_CONVERSATIONS)}, or other domains"
                )
            names = {*self.drawn_alterations, self.needed_alteration} - {None}
            if len(names) == 1 and names <= _ONCE:
                return (
                    f"most conversations have one place for the alteration {names.pop()!r}, and a "
                    "group needs two; add another alteration, or leave out the domain "
                    "'conversation'"
                )
        if self.flipping(flips):
            return ""
        return (
            f"in the domain {domain!r}, only these alterations change an answer: "
            f"{', '.join(sorted(flips))}; add one of them, or use other domains"
        )

    def vocabulary(self, domain: Domain) -> Names:
        """Return the words that the split uses in a domain."""
        return domain_vocabulary(
            domain, "held out" if self.split == "test_vocabulary" else "regular"
        )


@dataclass(frozen=True)
class TrackingSettings(GeneratorSettings):
    """The settings of entity tracking, where nothing is altered: alterations have no effect."""

    def _objection(self, domain: Domain) -> str:
        """Refuse conversations."""
        if domain != "conversation":
            return ""
        return (
            "entity tracking has no domain 'conversation': nothing is put anywhere there; leave "
            "it out"
        )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]
