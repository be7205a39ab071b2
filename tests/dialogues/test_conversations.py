"""Everyday conversations with slots: what the files may contain, and what is generated from them."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest
from likeness import MARKS

from pragworld_tasks.data.documents import ALTERATIONS
from pragworld_tasks.dialogues.conversations.templates import Template, names_in, templates
from pragworld_tasks.dialogues.conversations.versions import (
    AskedQuestion,
    Version,
    alterations,
    drawn,
)
from pragworld_tasks.dialogues.generate import Group, generate
from pragworld_tasks.dialogues.generate_command import group_to_text
from pragworld_tasks.dialogues.settings import (
    FLIPS_IN_CONVERSATIONS,
    GENERATED_SPLITS,
    SPLIT_SHARES,
    GeneratorSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError

VERSIONS = 60 if os.environ.get("PRAGWORLD_LONG") else 25


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return list(generate(GeneratorSettings(groups=400, domains=("conversation",))))


def asked_about(group: Group) -> AskedQuestion:
    assert isinstance(group.question, AskedQuestion)
    return group.question


@pytest.mark.parametrize("template", templates(), ids=lambda template: template.name)
def test_a_template_can_be_filled_and_its_questions_have_both_answers(template: Template) -> None:
    text = "\n".join(template.lines)
    assert set(names_in(text)) == set(template.slots), "slots that do not occur, or do not exist"
    assert 6 <= len(template.lines) <= 17
    assert {line[:3] for line in template.lines} == {"A: ", "B: "}
    assert text.isascii()
    for name, slot in template.slots.items():
        assert slot.like == name or template.slots[slot.like].like == slot.like
        assert len(set(slot.values)) == len(slot.values) > 1 + len(template.partners[name])
        assert len({len(value) for value in slot.values}) == 1 or slot.values[0] == ("",)
        if slot.alteration == "Negation":
            assert len(slot.values) == 2
    assert len(template.questions) >= 4
    rng = StableRandom(template.name)
    versions = [drawn(template, rng) for _ in range(VERSIONS)]
    for question in template.questions:
        assert question.named or question.conditions
        assert {*question.named, *question.conditions} <= set(template.slots)
        for name, value in question.conditions.items():
            assert value in range(len(template.slots[name].values))
        asked = [
            AskedQuestion(template, question, question.expected(choice)) for choice in versions
        ]
        answers = {item.answer(choice) for item in asked for choice in versions}
        assert answers == {"yes", "no"}, question.text
        for item in asked[:5]:
            assert re.fullmatch(r"[A-Z].*[^ {}]\?", item.text), item.text
            assert not re.search(MARKS["cleft"], item.text.lower()), item.text
    found = {name for name, _ in alterations(template, versions[0])}
    assert found >= {"Variable Substitution", "Negation", "Injecting Inconsistent Data"}
    for choice in versions:
        said = "\n".join(Version(template, choice).lines)
        assert not re.search(r"[{}]|  | [,.?!]", said.replace("...", "")), said


def recovered(template: Template, lines: tuple[str, ...]) -> Iterator[tuple[str, set[int]]]:
    """Yield each slot that the lines name, and its possible values: by reading only the text."""
    for pattern, line in zip(template.lines, lines, strict=True):
        names: list[tuple[str, int]] = []

        def options(match: re.Match[str], names: list[tuple[str, int]] = names) -> str:
            name, part = match[1][0].lower() + match[1][1:], int(match[2] or 0)
            names.append((name, part))
            values = {value[part] for value in template.slots[name].values}
            both = sorted({*values, *(v[:1].upper() + v[1:] for v in values)}, key=len)[::-1]
            return f"({'|'.join(map(re.escape, both))})"

        parts = re.split(r"(\{\w+(?:\.\d)?\})", pattern)
        expression = "".join(
            re.sub(r"\{(\w+)(?:\.(\d))?\}", options, part) if part[:1] == "{" else re.escape(part)
            for part in parts
        )
        match = re.fullmatch(expression, line)
        assert match, (pattern, line)
        for (name, part), said in zip(names, match.groups(), strict=True):
            values = enumerate(template.slots[name].values)
            yield name, {number for number, value in values if value[part].lower() == said.lower()}


def test_the_answers_follow_from_what_is_said(groups: list[Group]) -> None:
    for group in groups:
        asked = asked_about(group)
        for variant in group.variants:
            possible: dict[str, set[int]] = {}
            for name, numbers in recovered(asked.template, variant.dialogue.lines):
                possible[name] = possible.get(name, numbers) & numbers
            named = {name: asked.expected[name] for name in asked.question.named}
            wanted = {**asked.question.conditions, **named}
            holds = all(value in possible[name] for name, value in wanted.items())
            assert variant.answer == ("yes" if holds else "no"), group_to_text(group)
            assert variant.basis == ("entailed" if holds else "excluded")


def test_groups_have_a_flip_and_invariants_and_pairs_opposite_answers(groups: list[Group]) -> None:
    for group in groups:
        effects = Counter(variant.effect for variant in group.variants)
        assert effects[None] == effects["flip"] == 1
        assert effects["invariant"] >= 1
        assert len({variant.dialogue.lines for variant in group.variants}) == len(group.variants)
        for variant in group.variants[1:]:
            changed = zip(group.variants[0].dialogue.lines, variant.dialogue.lines, strict=True)
            numbers = [number for number, (old, new) in enumerate(changed) if old != new]
            assert [change.utterance for change in variant.changes] == numbers
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        assert {first.variants[0].answer, second.variants[0].answer} == {"yes", "no"}
        assert len(first.variants) == len(second.variants)
    altered = {variant.alteration for group in groups for variant in group.variants}
    assert altered == {None, *ALTERATIONS}


def test_no_two_splits_share_a_conversation() -> None:
    shares = {template.name: template.share for template in templates()}
    assert len(shares) == len(templates())
    names: set[str] = set()
    for split in GENERATED_SPLITS[:3]:
        settings = GeneratorSettings(groups=200, split=split, domains=("conversation",))
        of_split = {asked_about(group).template.name for group in generate(settings)}
        assert {shares[name] for name in of_split} == set(SPLIT_SHARES[split])
        assert names.isdisjoint(of_split)
        names |= of_split


def test_they_are_drawn_together_with_other_domains() -> None:
    settings = GeneratorSettings(groups=200, domains=("conversation", "household"))
    drawn_domains = Counter(group.domain for group in generate(settings))
    assert 0.45 <= drawn_domains["conversation"] / 200 <= 0.65
    assert settings.domains == ("household", "conversation")
    assert "conversation" in GeneratorSettings().domains
    assert "conversation" not in GeneratorSettings(split="test_long").domains
    assert "conversation" not in GeneratorSettings(alterations={"Negation": 1}).domains


@pytest.mark.parametrize("flips", [0.2, 0.5])
@pytest.mark.parametrize("names", [*combinations(ALTERATIONS, 1), *combinations(ALTERATIONS, 2)])
def test_any_alterations_are_possible_or_refused(names: tuple[str, ...], flips: float) -> None:
    weights = dict.fromkeys(names, 1.0)
    settings = {"groups": 6, "domains": ["conversation"], "alterations": weights, "flips": flips}
    if not FLIPS_IN_CONVERSATIONS & set(names) or names in (("Negation",), ("Variable Swap",)):
        with pytest.raises(InputError, match=r"only these alterations|most conversations"):
            GeneratorSettings.from_metadata(settings)
        return
    for group in generate(GeneratorSettings.from_metadata(settings)):
        assert {variant.alteration for variant in group.variants[1:]} <= set(names)


def test_a_held_out_alteration_is_enough_to_flip_conversations() -> None:
    settings = GeneratorSettings(
        domains=("conversation",),
        groups=10,
        held_out_alteration="Negation",
        alterations={"Quantifier Change": 1},
    )
    for group in generate(settings):
        flips = [variant.alteration for variant in group.variants if variant.effect == "flip"]
        assert flips == ["Negation"]
