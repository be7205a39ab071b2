"""The plan of a group: the form of its question, and which variants it has.

The plan is drawn before the dialogue and does not depend on the answer. A dialogue that does not
allow for the plan is replaced by another one. That keeps the answers balanced among flips and among
invariants, whatever the shares of the alterations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from pragworld_tasks.dialogues.questions import (
    EVERYDAY_FORMS,
    QUESTION_FORMS,
    QuestionForm,
    QuestionKind,
)
from pragworld_tasks.dialogues.settings import (
    FLIP_CONVERSATIONS,
    LONG_LENGTHS,
    OF_AMOUNTS,
    GeneratorSettings,
    Undetermined,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import Domain

# The numbers of exchanges in a dialogue, about things and about events, as in the manual split.
_LENGTHS = (8, 9, 9, 10, 10, 10, 11, 11, 12)
_HOUSEHOLD_LENGTH = 10
_EVERYDAY_LENGTHS = (4, 5, 5, 6, 6, 7, 8)
# How often people talk about each domain.
_DOMAINS: dict[Domain, float] = {
    "household": 44,
    "shop": 7,
    "clinic": 7,
    "everyday": 42,
    "conversation": 32,  # together with a household, as in the manual split
}
# How many variants of a group flip the answer, each with its share of the groups.
_FLIPS = {1: 0.5, 2: 0.42, 3: 0.08}
# The kinds of questions about things and about events, in percent of the groups.
_KINDS: dict[QuestionKind, float] = {
    "sure": 19,
    "know": 17,
    "quantity": 5,
    "universal": 4,
    "existential": 9,
    "only-entity": 42,
    "other": 4,
}
_EVERYDAY_KINDS: dict[QuestionKind, float] = {"sure": 9, "know": 9, "other": 82}
# How often an alteration is the only flip of a group, relative to its share of the variants.
_FLIP_RATES = {
    "Negation": 5.0,
    "Variable Substitution": 1.5,
    "Quantity Change": 4.0,
    "Variable Swap": 1.5,
    "Quantifier Change": 4.0,
    "Logical Connective Change": 7.0,
    "Injecting Inconsistent Data": 7.0,
}
# Alterations that can flip the answer to any question, whichever it is.
UNIVERSAL = frozenset(("Variable Substitution", "Variable Swap"))
# Forms of questions whose answer an alteration can flip.
_ALL_FORMS = frozenset(form for forms in QUESTION_FORMS.values() for form in forms)
_FLIPPABLE: dict[str, frozenset[QuestionForm]] = {
    "Negation": frozenset(("any", "left", "some", "left some", "where", "agent knows", "went")),
    "Variable Substitution": _ALL_FORMS,
    "Quantity Change": frozenset(("exactly", "left exactly", "more than")),
    "Variable Swap": _ALL_FORMS,
    "Quantifier Change": frozenset(("all", "left all")),
    "Logical Connective Change": frozenset(
        ("any", "left", "some", "left some", "where", "who", "went")
    ),
    "Injecting Inconsistent Data": frozenset(("any", "exactly", "more than", "all", "some")),
}
# Forms of questions whose answer few dialogues allow to flip more than once.
_FLIPPED_ONCE: frozenset[QuestionForm] = frozenset(("who", "told", "moved", "where"))
# Forms of questions that nothing ever said excludes.
_NEVER_EXCLUDED: frozenset[QuestionForm] = frozenset(("told",))

# Topics that an alteration applies to, for the answers yes and no: of questions about what an agent
# did, and of all others.
_TOPICS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Negation": (("affirmed", "denied"), ("done", "not done")),
    "Quantity Change": (("quantity",), ("quantity done",)),
    "Quantifier Change": (("all", "some"), ("all done", "some done")),
    "Logical Connective Change": (("and", "or"), ("done and", "done or")),
}
_SPECIAL_TOPICS: dict[tuple[str, QuestionForm], tuple[str, str]] = {
    ("Negation", "went"): ("gone", "not gone"),
    ("Negation", "agent knows"): ("known", "not known"),
    ("Logical Connective Change", "went"): ("gone and", "gone or"),
}
_TOPICS_OF_FORM: dict[QuestionForm, str] = {
    "agent knows": "knowledge",
    "went": "journey",
    "moved": "moved",
    "told": "report",
    "exactly": "quantity",
    "left exactly": "quantity done",
    "more than": "quantity",
    "all": "all",
    "left all": "all done",
    "left": "done",
    "left some": "done",
    "who": "somewhere",
    "how many": "quantity",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a group has to have.

    Attributes:
        domain: The domain of the dialogue.
        length: Number of exchanges in it.
        kind, form: Kind and form of the question.
        flips: The alterations of the variants that flip the answer, at least one. If there are
            several, all are `UNIVERSAL`.
        invariants: The alterations of the other variants, at least one. Unless the flip is
            `UNIVERSAL`, the first invariant has the same alteration.
        replacements: Alterations in place of planned invariants that are not possible.
    """

    domain: Domain
    length: int
    kind: QuestionKind
    form: QuestionForm
    flips: tuple[str, ...]
    invariants: tuple[str, ...]
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
        which it is no, two of each, for a flip and for a variant without one. In a household, where
        people ask several questions about the same things, one of each is mostly enough.
        """
        first = self.flips[0]
        is_brief = self.domain == "household" and first in ("Negation", *UNIVERSAL)
        is_brief = is_brief and self.form in ("any", "some", "left", "left some")
        topics = [*_topics(first, self.form)] * (1 if is_brief else 2)
        for name in self.invariants:
            if name != first and name in _TOPICS:  # the others apply to any dialogue
                topics.append(rng.choice(_TOPICS[name][0]))
        return topics


def _topics(alteration: str, form: QuestionForm) -> tuple[str, ...]:
    """Return topics that an alteration applies to and that questions of the form are about."""
    if (alteration, form) in _SPECIAL_TOPICS:
        return _SPECIAL_TOPICS[alteration, form]
    if alteration in _TOPICS:
        return _TOPICS[alteration][form.startswith("left")]
    return (_TOPICS_OF_FORM[form],) if form in _TOPICS_OF_FORM else ()


def draw_domain(settings: GeneratorSettings, rng: StableRandom) -> Domain:
    """Draw the domain of a dialogue."""
    return rng.weighted_choice(_domains(settings))


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
    can_flip = settings.flips_conversations
    size = max(2, rng.rounded(1 / settings.flips) + rng.choice((-1, 0, 0, 1)))
    flipping = _normalized({name: shares[name] for name in shares if name in can_flip})
    flip = needed if needed in FLIP_CONVERSATIONS else rng.weighted_choice(flipping)
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
    shares, held_out = settings.drawn_alterations, settings.needed_alteration
    domains = _domains(settings)
    domains.pop("conversation", None)
    is_everyday = domain == "everyday"
    everyday = domains.get("everyday", 0) / sum(domains.values())
    shares = _shares_in(is_everyday, shares, everyday)
    universal = {name: share for name, share in shares.items() if name in UNIVERSAL}
    number = rng.weighted_choice(_FLIPS) if universal and held_out in (None, *universal) else 1
    size = max(number + 1, rng.rounded(number / settings.flips) + rng.choice((-1, 0, 0, 1)))
    first = held_out or rng.weighted_choice(_only_flips(shares) if number == 1 else universal)
    kinds, by_kind = (_EVERYDAY_KINDS, EVERYDAY_FORMS) if is_everyday else (_KINDS, QUESTION_FORMS)
    forms = {kind: _forms(by_kind[kind], first, number, settings.undetermined) for kind in kinds}
    if domain == "household":  # where nobody asks what others know, nor whether things are moved
        for of_kind in (forms["know"], forms["other"]):
            of_kind[:] = [form for form in of_kind if form not in ("agent knows", "moved")]
    if is_everyday and first == "Logical Connective Change":
        forms["other"].remove("went")  # "free on Monday or Tuesday" may mean both
    kind = rng.weighted_choice({kind: share for kind, share in kinds.items() if forms[kind]})
    form = rng.choice(forms[kind])
    lengths: tuple[int, ...] = _EVERYDAY_LENGTHS if is_everyday else _LENGTHS
    if domain == "household":
        lengths = (_HOUSEHOLD_LENGTH,)
    further = [rng.weighted_choice(universal) for _ in range(number - 1)]
    partner = [] if first in UNIVERSAL else [first]
    others = _other_invariants(shares, settings.flips)
    drawn = [rng.weighted_choice(others) for _ in range(size - number - len(partner))]
    return Plan(
        domain=domain,
        length=rng.choice(LONG_LENGTHS if settings.split == "test_long" else lengths),
        kind=kind,
        form=form,
        flips=(first, *further),
        invariants=(*partner, *drawn),
        replacements=tuple(universal),
    )


def _domains(settings: GeneratorSettings) -> dict[Domain, float]:
    """Return how often to choose each of the domains that the alterations apply to."""
    return {
        domain: _DOMAINS[domain]
        for domain in settings.domains
        if domain != "everyday" or settings.alters_everyday
    }


def _shares_in(is_everyday: bool, shares: Mapping[str, float], everyday: float) -> dict[str, float]:
    """Return the shares of alterations that make up the given ones over all domains.

    Args:
        is_everyday: Whether the dialogue is of the domain "everyday", which has no amounts.
        shares: The shares over all domains.
        everyday: The share of dialogues of that domain.
    """
    shares = _normalized(shares)
    of_amounts = sum(share for name, share in shares.items() if name in OF_AMOUNTS)
    if is_everyday or of_amounts == 1:
        return {name: share for name, share in shares.items() if name not in OF_AMOUNTS} or shares
    others = max(0.1, 1 - of_amounts / (1 - everyday)) / (1 - of_amounts)
    return {
        name: share / (1 - everyday) if name in OF_AMOUNTS else share * others
        for name, share in shares.items()
    }


def _forms(
    forms: Sequence[QuestionForm], alteration: str, number: int, undetermined: Undetermined
) -> list[QuestionForm]:
    """Return those of the forms that an alteration can flip as many times."""
    return [
        form
        for form in forms
        if form in _FLIPPABLE[alteration]
        and (number == 1 or form not in _FLIPPED_ONCE)
        and (undetermined == "keep" or form not in _NEVER_EXCLUDED)
    ]


def _only_flips(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the probability of each alteration to be the only flip of a group."""
    return _normalized({name: share * _FLIP_RATES[name] for name, share in shares.items()})


def _other_invariants(shares: Mapping[str, float], flips: float) -> dict[str, float]:
    """Return weights of invariants, which make up what flips and partners lack of the shares."""
    only = _only_flips(shares)
    universal = _normalized({name: share for name, share in shares.items() if name in UNIVERSAL})
    mean = sum(map(prod, _FLIPS.items()))
    weights = {}
    for name, share in _normalized(shares).items():
        planned = _FLIPS[1] * only[name] * (1 if name in UNIVERSAL else 2)
        planned += (mean - _FLIPS[1]) * universal.get(name, 0)
        weights[name] = max(share / 100, mean / flips * share - planned)
    return weights


def _normalized(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
