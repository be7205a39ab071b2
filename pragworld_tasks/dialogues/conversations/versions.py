"""Versions of a conversation, questions about them, and what alterations do to the answers."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain
from typing import NamedTuple

from pragworld_tasks.data.documents import Answer
from pragworld_tasks.dialogues.conversations.templates import (
    Choice,
    Template,
    TemplateQuestion,
    templates,
)
from pragworld_tasks.dialogues.plans import TemplatePlan
from pragworld_tasks.dialogues.stable_random import StableRandom


@dataclass(frozen=True)
class Version:
    """A version of a conversation: a template with a value for each slot."""

    template: Template
    choice: Choice

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The utterances, each with its speaker's label."""
        return tuple(self.template.filled(line, self.choice) for line in self.template.lines)


class AskedQuestion(NamedTuple):
    """A question about a conversation.

    `expected` values make the answer yes, of the slots that the question names and of others.
    """

    template: Template
    question: TemplateQuestion
    expected: Choice

    @property
    def text(self) -> str:
        """The question as people ask it."""
        text = self.template.filled(self.question.text, self.expected)
        return text[0].upper() + text[1:]

    def answer(self, choice: Choice) -> Answer:
        """Return the answer about a version of the conversation."""
        return "yes" if all(choice[name] == self.expected[name] for name in self.expected) else "no"


# Alterations of the first value, which is nothing, or the connective that fits best.
_FIRST = ("Injecting Inconsistent Data", "Logical Connective Change")
# An alteration, the altered version, and the answer to the question of its group.
AlteredVersion = tuple[str, Version, Answer]


def original_and_variants(
    shares: Sequence[int],
    first: int,
    plan: TemplatePlan,
    answer: Answer,
    rng: StableRandom,
) -> tuple[AskedQuestion, Version, list[AlteredVersion]] | None:
    """Return a question, a conversation, and versions of it that are altered as planned.

    The number `first` determines the conversation to try first, of the `shares` of all. The version
    with the other answer comes first. None if no conversation allows for the alterations.
    """
    of_split = _of_shares(tuple(shares))
    # If no conversation allows for all invariants, others than the needed one are left out.
    for leaves_out in (False, True):
        for template in chain((of_split[first % len(of_split)],), rng.shuffled(of_split)):
            choice = drawn(template, rng)
            for question, slot in rng.shuffled(list(_flippable(template, plan.flip))):
                asked = _asked(template, question, slot, plan.flip, choice, answer, rng)
                variants = _variants(asked, choice, plan, leaves_out, rng) if asked else None
                if asked and variants:
                    return asked, Version(template, choice), variants
    return None


@cache
def _of_shares(shares: tuple[int, ...]) -> list[Template]:
    """Return the conversations of the shares, in an order that mixes fields."""
    members = [template for template in templates() if template.share in shares]
    return StableRandom("the order of the conversations").shuffled(members)


def drawn(template: Template, rng: StableRandom) -> dict[str, int]:
    """Return random values for all slots. No two slots with the same values say the same."""
    choice: dict[str, int] = {}
    for name, slot in template.slots.items():
        is_first = slot.alteration in _FIRST
        choice[name] = 0 if is_first else rng.choice(template.free_values(name, choice))
    return choice


def _flippable(template: Template, alteration: str) -> Iterator[tuple[TemplateQuestion, str]]:
    """Yield the questions whose answer the alteration can flip, each with the slot it alters."""
    for question in template.questions:
        for name in (*question.named, *question.conditions):
            if alteration == "Variable Swap":
                if name in question.named and template.partners[name]:
                    yield question, name
            elif template.slots[name].alteration == alteration:
                yield question, name


def _asked(
    template: Template,
    question: TemplateQuestion,
    slot: str,
    flip: str,
    choice: dict[str, int],
    answer: Answer,
    rng: StableRandom,
) -> AskedQuestion | None:
    """Return what to ask so that this is the answer, because of one slot if it is no.

    The choice is changed so that all conditions hold, but for the slot's own if the answer is no. A
    no before a swap confuses two details of the conversation.

    Returns:
        The question, or None if the slot has no value that would make the answer no.
    """
    choice.update(question.conditions)
    expected = question.expected(choice)
    if answer == "no":
        free = template.free_values(slot, choice)
        if flip == "Variable Swap":
            partner = rng.choice(template.partners[slot])
            expected[slot] = choice[partner]
            if partner in expected:
                expected[partner] = choice[slot]
        elif not free:
            return None
        else:
            changed = choice if slot in question.conditions else expected
            changed[slot] = rng.choice(free)
    return AskedQuestion(template, question, expected)


def alterations(template: Template, choice: Choice) -> Iterator[tuple[str, Choice]]:
    """Yield every alteration of a version, with the values that it leads to."""
    for name, slot in template.slots.items():
        for number in template.free_values(name, choice):
            yield slot.alteration, {**choice, name: number}
        for other in template.partners[name]:
            if name < other:
                yield "Variable Swap", {**choice, name: choice[other], other: choice[name]}


def _variants(
    asked: AskedQuestion, choice: Choice, plan: TemplatePlan, leaves_out: bool, rng: StableRandom
) -> list[AlteredVersion] | None:
    """Return the altered versions of a plan, or None if it is not possible."""
    before = asked.answer(choice)
    possible: dict[tuple[str, bool], list[Choice]] = defaultdict(list)
    for alteration, altered in rng.shuffled(list(alterations(asked.template, choice))):
        possible[alteration, asked.answer(altered) != before].append(altered)
    variants: list[AlteredVersion] = []
    for name, flips in ((plan.flip, True), *((name, False) for name in plan.invariants)):
        if possible[name, flips]:
            altered = possible[name, flips].pop()
            variants.append((name, Version(asked.template, altered), asked.answer(altered)))
        elif flips or name == plan.needed or not leaves_out:
            return None
    return variants if len(variants) > 1 else None
