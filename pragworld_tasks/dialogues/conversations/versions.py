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
    """A version of a conversation.

    Attributes:
        template: The conversation with slots.
        choice: Which of its values each slot has.
    """

    template: Template
    choice: Choice

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The utterances, each with its speaker's label."""
        return tuple(self.template.filled(line, self.choice) for line in self.template.lines)


class AskedQuestion(NamedTuple):
    """A question about a conversation, with the values that it asks about.

    Attributes:
        template: The conversation with slots.
        question: The question with slots.
        asked: Which value of each slot it asks about.
    """

    template: Template
    question: TemplateQuestion
    asked: Choice

    @property
    def text(self) -> str:
        """The question as people ask it."""
        text = self.template.filled(self.question.text, self.asked)
        return text[0].upper() + text[1:]

    def answer(self, choice: Choice) -> Answer:
        """Return the answer about a version of the conversation."""
        is_yes = all(
            choice[name] in allowed for name, allowed in self.question.conditions.items()
        ) and all(choice[name] == self.asked[name] for name in self.question.named)
        return "yes" if is_yes else "no"


class AlteredVersion(NamedTuple):
    """A version that one alteration makes of another version.

    Attributes:
        alteration: One of `documents.ALTERATIONS`.
        version: The altered version.
        answer: The answer to the question of its group.
    """

    alteration: str
    version: Version
    answer: Answer


def original_and_variants(
    shares: Sequence[int],
    first: int,
    plan: TemplatePlan,
    answer: Answer,
    rng: StableRandom,
) -> tuple[AskedQuestion, Version, list[AlteredVersion]] | None:
    """Return a question, a conversation, and versions of it that are altered as planned.

    Args:
        shares: The shares of all conversations to choose from.
        first: Any number, which determines the conversation to try first.
        plan: The alterations.
        answer: The answer about the original.
        rng: Source of randomness.

    Returns:
        The question, the original and the altered versions, the one with the other answer first,
        or None if no conversation allows for the alterations.
    """
    of_split = _of_shares(tuple(shares))
    for template in chain((of_split[first % len(of_split)],), rng.shuffled(of_split)):
        choice = drawn(template, rng)
        for question, slot in rng.shuffled(list(_flippable(template, plan.flip))):
            asked = _asked(template, question, slot, plan.flip, choice, answer, rng)
            if asked and (variants := _variants(asked, choice, plan, rng)):
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
        if slot.alteration == "Injecting Inconsistent Data":
            choice[name] = 0
            continue
        choice[name] = rng.choice(template.free_values(name, choice))
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

    The choice is changed so that all other conditions of the question hold. A no before a swap
    confuses two details of the conversation.

    Returns:
        The question, or None if the slot has no value that would make the answer no.
    """
    for name, allowed in question.conditions.items():
        is_held = name != slot or answer == "yes"
        numbers = sorted([choice[name], *template.free_values(name, choice)])
        fitting = [number for number in numbers if (number in allowed) == is_held]
        if not fitting:
            return None
        choice[name] = rng.choice(fitting)
    asked = {name: choice[name] for name in question.named}
    if answer == "no" and slot in asked:
        if flip == "Variable Swap":
            partner = rng.choice(template.partners[slot])
            asked[slot] = choice[partner]
            if partner in asked:
                asked[partner] = choice[slot]
        else:
            free = template.free_values(slot, choice)
            if not free:
                return None
            asked[slot] = rng.choice(free)
    result = AskedQuestion(template, question, asked)
    return result if result.answer(choice) == answer else None


def alterations(template: Template, choice: Choice) -> Iterator[tuple[str, Choice]]:
    """Yield every alteration of a version, with the values that it leads to."""
    for name, slot in template.slots.items():
        for number in template.free_values(name, choice):
            yield slot.alteration, {**choice, name: number}
        for other in template.partners[name]:
            if name < other:
                yield "Variable Swap", {**choice, name: choice[other], other: choice[name]}


def _variants(
    asked: AskedQuestion, choice: Choice, plan: TemplatePlan, rng: StableRandom
) -> list[AlteredVersion] | None:
    """Return the altered versions of a plan, or None if it is not possible."""
    before = asked.answer(choice)
    possible: dict[tuple[str, bool], list[Choice]] = defaultdict(list)
    for alteration, altered in rng.shuffled(list(alterations(asked.template, choice))):
        possible[alteration, asked.answer(altered) != before].append(altered)
    variants: list[AlteredVersion] = []
    for name, flips in ((plan.flip, True), *((name, False) for name in plan.invariants)):
        if not possible[name, flips]:
            others = {
                other: weight
                for other, weight in plan.replacements.items()
                if possible[other, False]
            }
            if not others and len(variants) > 1:
                continue
            if flips or name == plan.needed or not others:
                return None
            name = rng.weighted_choice(others)
        altered = possible[name, flips].pop()
        version = Version(asked.template, altered)
        variants.append(AlteredVersion(name, version, asked.answer(altered)))
    return variants
