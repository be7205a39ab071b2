"""The plan of a group: the form of its question, and which variants it has.

The plan is drawn before the dialogue and does not depend on the answer. A dialogue that does not
allow for the plan is replaced by another one. That keeps the answers balanced among flips and among
invariants, whatever the shares of the alterations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from pragworld_tasks.dialogues.questions import QUESTION_FORMS, QuestionForm, question_shares
from pragworld_tasks.dialogues.settings import (
    FLIPS_IN_CONVERSATIONS,
    FLIPS_IN_DIALOGUES,
    LONG_LENGTHS,
    GeneratorSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import Domain
from pragworld_tasks.files import read_package_toml

_Name = TypeVar("_Name", bound=str)

# The numbers of exchanges in a dialogue. Those of a household all have 10, as in the manual split.
_LENGTHS = (8, 9, 10, 11, 12)
_HOUSEHOLD_LENGTH = 10
_TABLES = read_package_toml(__package__, "plans.toml")
DOMAIN_WEIGHTS: Mapping[Domain, float] = _TABLES["domains"]
# How many variants of a group flip the answer, each with its share of the groups. Few dialogues
# allow to flip more than once who did something.
_FLIPS = {1: 0.5, 2: 0.42, 3: 0.08}
_FLIPPED_ONCE: frozenset[QuestionForm] = frozenset(("know who", "sure who"))
_FLIP_RATES: Mapping[str, float] = _TABLES["flip_rates"]
# Alterations that can flip the answer to any question, whichever it is.
UNIVERSAL = frozenset(("Variable Substitution", "Variable Swap"))
_FLIPPABLE: Mapping[str, Sequence[QuestionForm]] = _TABLES["flippable"]
_TOPICS: Mapping[str, Sequence[Sequence[str]]] = _TABLES["topics"]
_TOPICS_OF_FORM: Mapping[QuestionForm, Sequence[str]] = _TABLES["topics_of_form"]
_OF_AGENTS = frozenset(("left", "know who", "sure who"))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a group has to have.

    Attributes:
        length: Number of exchanges in the dialogue.
        flips: The alterations of the variants that flip the answer, at least one. If there are
            several, all are `UNIVERSAL`.
        invariants: The alterations of the other variants, at least one. Unless the flip is
            `UNIVERSAL`, the first invariant has the same alteration.
        needed: An alteration that must be among these, or None.
        replacements: Alterations in place of planned invariants that are not possible.
    """

    domain: Domain
    length: int
    form: QuestionForm
    flips: tuple[str, ...]
    invariants: tuple[str, ...]
    needed: str | None
    replacements: tuple[str, ...]

    @property
    def has_partner(self) -> bool:
        """Whether the first invariant has to alter the dialogue in the same way as the first flip.

        Most alterations have a direction, such as adding a negation or removing one, which flips
        only one of the answers. The partner has the other answer, so the words of an alteration
        say nothing about the answer.
        """
        return self.flips[0] not in UNIVERSAL

    def topics(self, rng: StableRandom) -> list[str]:
        """Return topics that the alterations apply to, whatever the answer.

        The first are what the question can be about: as many for which the answer is yes as for
        which it is no. One of each is mostly enough, as people ask several questions about the same
        things, but not where an alteration has few places.
        """
        first = self.flips[0]
        topics = [*_topics(first, self.form)] * (1 if first in UNIVERSAL else 2)
        for name in self.invariants:
            if name != first and name in _TOPICS:  # the others apply to any dialogue
                topics.append(rng.choice(_TOPICS[name][0]))
        return topics


def _topics(alteration: str, form: QuestionForm) -> Sequence[str]:
    """Return topics that an alteration applies to and that questions of the form are about."""
    if alteration in _TOPICS:
        return _TOPICS[alteration][form in _OF_AGENTS]
    return _TOPICS_OF_FORM.get(form, ())


@dataclass(frozen=True, slots=True)
class TemplatePlan:
    """What a group about a conversation has to have.

    Attributes:
        flip: The alteration of the variant that flips the answer.
        invariants: The alterations of the other variants, at least one.
        needed: An alteration that must be among these, or None. If no conversation allows for all
            of the invariants, others may be left out.
    """

    flip: str
    invariants: tuple[str, ...]
    needed: str | None


def draw_template_plan(settings: GeneratorSettings, rng: StableRandom) -> TemplatePlan:
    """Draw a plan for a conversation.

    >>> settings = GeneratorSettings(alterations={"Negation": 1, "Quantifier Change": 1})
    >>> draw_template_plan(settings, StableRandom("seed")).flip
    'Negation'
    """
    shares, needed = settings.drawn_alterations, settings.needed_alteration
    can_flip = settings.flipping(FLIPS_IN_CONVERSATIONS)
    size = max(2, rng.rounded(1 / settings.flips) + rng.choice((-1, 0, 0, 1)))
    flipping = _normalized({name: shares[name] for name in shares if name in can_flip})
    flip = needed if needed in FLIPS_IN_CONVERSATIONS else rng.weighted_choice(flipping)
    assert flip is not None
    # The invariants make up what the flips lack of the shares.
    weights = {
        name: max(share / 100, share - settings.flips * flipping.get(name, 0))
        for name, share in _normalized(shares).items()
    }
    invariants = [needed] if needed and needed != flip else []
    while len(invariants) < size - 1:
        # Most conversations have few slots for an alteration, but for substitutions.
        drawn = {flip, *invariants} - {"Variable Substitution"}
        free = {name: weight for name, weight in weights.items() if name not in drawn}
        invariants.append(rng.weighted_choice(free or weights))
    return TemplatePlan(flip, tuple(invariants), needed)


def draw_plan(settings: GeneratorSettings, domain: Domain, rng: StableRandom) -> Plan:
    """Draw a plan for a dialogue of a domain.

    >>> settings = GeneratorSettings(alterations={"Negation": 1})
    >>> plan = draw_plan(settings, "shop", StableRandom("seed"))
    >>> plan.flips, set(plan.invariants)
    (('Negation',), {'Negation'})
    """
    shares, needed = settings.drawn_alterations, settings.needed_alteration
    first_if_needed = needed if needed in FLIPS_IN_DIALOGUES else None
    flipping = {first_if_needed: 1.0} if first_if_needed else shares
    by_form = {form: _only_flips(flipping, form) for form in QUESTION_FORMS}
    form = rng.weighted_choice(
        {form: share for form, share in question_shares().items() if by_form[form]}
    )
    universal = {name: share for name, share in flipping.items() if name in UNIVERSAL}
    number = rng.weighted_choice(_numbers_of_flips(form, universal))
    size = max(number + 1, rng.rounded(number / settings.flips) + rng.choice((-1, 0, 0, 1)))
    first = rng.weighted_choice(by_form[form] if number == 1 else universal)
    further = [rng.weighted_choice(universal) for _ in range(number - 1)]
    partner = [] if first in UNIVERSAL else [first]
    if needed and needed != first:
        partner.append(needed)
    others = _other_invariants(shares, settings.flips)
    drawn = [rng.weighted_choice(others) for _ in range(size - number - len(partner))]
    lengths = (_HOUSEHOLD_LENGTH,) if domain == "household" else _LENGTHS
    return Plan(
        domain=domain,
        length=rng.choice(LONG_LENGTHS if settings.split == "test_long" else lengths),
        form=form,
        flips=(first, *further),
        invariants=(*partner, *drawn),
        needed=needed,
        replacements=tuple(name for name in shares if name in UNIVERSAL),
    )


def _only_flips(shares: Mapping[str, float], form: QuestionForm) -> dict[str, float]:
    """Return how likely each alteration is the only flip of a question of the form."""
    return _normalized(
        {
            name: share * _FLIP_RATES[name]
            for name, share in shares.items()
            if name in UNIVERSAL or form in _FLIPPABLE[name]
        }
    )


def _other_invariants(shares: Mapping[str, float], flips: float) -> dict[str, float]:
    """Return weights of invariants, which make up what flips and partners lack of the shares."""
    shares = _normalized(shares)
    universal = _normalized({name: share for name, share in shares.items() if name in UNIVERSAL})
    by_form = {form: _only_flips(shares, form) for form in QUESTION_FORMS}
    forms = _normalized({form: n for form, n in question_shares().items() if by_form[form]})
    weights = dict.fromkeys(shares, 0.0)
    for form, weight in forms.items():
        numbers = _numbers_of_flips(form, universal)
        mean = sum(map(prod, numbers.items()))
        for name, share in shares.items():
            only = numbers[1] * by_form[form].get(name, 0) * (1 if name in UNIVERSAL else 2)
            several = (mean - numbers[1]) * universal.get(name, 0)
            weights[name] += weight * (mean / flips * share - only - several)
    return {name: max(shares[name] / 100, weight) for name, weight in weights.items()}


def _numbers_of_flips(form: QuestionForm, universal: Mapping[str, float]) -> dict[int, float]:
    """Return how often a question has how many flips, given the universal ones among them."""
    return _FLIPS if universal and form not in _FLIPPED_ONCE else {1: 1.0}


def _normalized(weights: Mapping[_Name, float]) -> dict[_Name, float]:
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
