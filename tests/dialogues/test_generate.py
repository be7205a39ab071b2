"""Test generated splits, their labels, balance, disjointness and determinism, and their files."""

import csv
import dataclasses
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pragworld_tasks.data.breakdowns import alteration_category, length_bucket, question_type
from pragworld_tasks.data.document_files import read_documents, write_documents
from pragworld_tasks.data.documents import ALTERATIONS, Document
from pragworld_tasks.dialogues.compose import Dialogue, opening_share
from pragworld_tasks.dialogues.forms import SPEAKERS
from pragworld_tasks.dialogues.generate import Group, Variant, documents, generate, make_group
from pragworld_tasks.dialogues.plans import UNIVERSAL, draw_plan
from pragworld_tasks.dialogues.questions import Question, evaluate, question_shares
from pragworld_tasks.dialogues.settings import (
    ALTERATION_SHARES,
    FLIPS_IN_DIALOGUES,
    GENERATED_SPLITS,
    GeneratedSplit,
    GeneratorSettings,
    TrackingSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.tracking import tracking_documents
from pragworld_tasks.dialogues.vocabulary import (
    DOMAINS,
    Domain,
    domain_vocabulary,
    singular,
)
from pragworld_tasks.dialogues.world import interpret

GROUPS = 1200 if os.environ.get("PRAGWORLD_LONG") else 600
# Checksum of the documents of five groups of every split. If it changes, change
# `GENERATOR_VERSION`.
CHECKSUM = "1d3786e1a074bd7664229645e169ea38f990f25285c45f2ee5eb4acd1d6729e8"


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    settings = GeneratorSettings(groups=GROUPS, seed=1, split="test", domains=DOMAINS)
    return list(generate(settings))


@pytest.fixture(scope="module")
def all_documents(groups: list[Group]) -> list[Document]:
    return list(documents(groups))


def question_of(group: Group) -> Question:
    assert isinstance(group.question, Question)
    return group.question


def composed(variant: Variant) -> Dialogue:
    assert isinstance(variant.dialogue, Dialogue)
    return variant.dialogue


def yes_share(members: Sequence[Document]) -> float:
    return sum(document.answer == "yes" for document in members) / len(members)


def test_the_same_settings_give_the_same_documents_on_every_machine() -> None:
    code = """
import hashlib
from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GENERATED_SPLITS, GeneratorSettings, TrackingSettings
from pragworld_tasks.dialogues.tracking import tracking_documents
digest = hashlib.sha256()
for split in GENERATED_SPLITS:
    settings = GeneratorSettings(groups=5, seed=3, split=split)
    tracking = tracking_documents(TrackingSettings(groups=5, seed=3, split=split))
    for document in (*documents(generate(settings)), *tracking):
        digest.update(repr(document).encode())
print(digest.hexdigest())
"""
    for hash_seed in ("0", "1"):
        process = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": hash_seed},
        )
        assert process.stdout.strip() == CHECKSUM


def test_a_group_does_not_depend_on_the_number_of_groups_nor_on_other_randomness() -> None:
    settings = GeneratorSettings(groups=3, seed=2, split="train")
    random.seed(5)
    assert list(generate(settings)) == [make_group(settings, number) for number in range(3)]
    assert make_group(dataclasses.replace(settings, groups=9), 2) == make_group(settings, 2)


def test_what_an_answer_rests_on_goes_with_the_answer(all_documents: list[Document]) -> None:
    bases = Counter((document.basis, document.answer) for document in all_documents)
    assert set(bases) == {("entailed", "yes"), ("excluded", "no"), ("undetermined", "no")}
    assert min(bases.values()) > 0.1 * len(all_documents)


def test_questions_that_are_undetermined_can_be_dropped_and_answers_stay_balanced() -> None:
    settings = GeneratorSettings(groups=60, undetermined="drop", domains=DOMAINS)
    dropped = list(documents(generate(settings)))
    assert {document.basis for document in dropped} == {"entailed", "excluded"}
    assert 0.47 <= yes_share(dropped) <= 0.53
    tracking = tracking_documents(TrackingSettings(groups=20, undetermined="drop"))
    assert {document.basis for document in tracking} == {"entailed", "excluded"}


def test_two_groups_share_a_plan_and_have_opposite_answers(groups: list[Group]) -> None:
    alike = 0
    for first, second in zip(groups[::2], groups[1::2], strict=True):
        assert {first.variants[0].answer, second.variants[0].answer} == {"yes", "no"}
        has_same_form = question_of(first).form == question_of(second).form
        alike += has_same_form and len(first.variants) == len(second.variants)
    assert alike > 0.9 * len(groups) / 2  # now and then no dialogue allows for the plan


def test_a_group_has_right_answers_flips_invariants_and_partners(groups: list[Group]) -> None:
    for group in groups:
        original, *variants = group.variants
        assert original.alteration is None
        for variant in group.variants:
            holds = evaluate(question_of(group), interpret(composed(variant).resolved))
            assert variant.answer == ("yes" if holds else "no")
        for variant in variants:
            assert (variant.effect == "flip") == (variant.answer != original.answer)
        assert len({variant.dialogue.lines for variant in group.variants}) == len(group.variants)
        flips, invariants = (
            {variant.alteration for variant in group.variants if variant.effect == effect}
            for effect in ("flip", "invariant")
        )
        assert flips
        assert invariants
        assert flips - UNIVERSAL <= invariants


def test_alterations_and_flips_have_about_their_shares(all_documents: list[Document]) -> None:
    variants = [document for document in all_documents if not document.is_original]
    for name, share in ALTERATION_SHARES.items():
        members = [document for document in variants if document.alteration == name]
        percent = 100 * len(members) / len(variants)
        assert abs(percent - share) <= max(2, 0.2 * share), (name, percent)
        effects = {"flip", "invariant"} if name in FLIPS_IN_DIALOGUES else {"invariant"}
        assert {document.effect for document in members} == effects, name
    flips = [document for document in variants if document.effect == "flip"]
    assert abs(len(flips) / len(variants) - 0.34) < 0.02
    for members in (flips, [document for document in variants if document.effect == "invariant"]):
        assert 0.46 <= yes_share(members) <= 0.54


@given(
    weights=st.dictionaries(st.sampled_from(ALTERATIONS), st.floats(0.01, 100), min_size=1),
    flips=st.floats(0.2, 0.5),
    split=st.sampled_from(("train", "test")),
    held_out=st.none() | st.sampled_from(ALTERATIONS),
    seed=st.integers(0, 99),
)
def test_a_plan_has_the_given_alterations_and_at_least_a_flip_and_an_invariant(
    weights: dict[str, float], flips: float, split: GeneratedSplit, held_out: str, seed: int
) -> None:
    drawn = {*weights, held_out} if split == "test" else {*weights} - {held_out}
    assume(drawn & FLIPS_IN_DIALOGUES)
    settings = GeneratorSettings(
        alterations=weights,
        flips=flips,
        split=split,
        held_out_alteration=held_out,
        domains=("shop",),
    )
    plan = draw_plan(settings, "shop", StableRandom(f"plan {seed}"))
    if split == "test" and held_out:
        assert held_out in (plan.flips[0], *plan.invariants[:2])
    assert {*plan.flips, *plan.invariants} <= drawn
    assert set(plan.flips) <= FLIPS_IN_DIALOGUES
    assert plan.invariants
    assert len(plan.flips) == 1 or set(plan.flips) <= UNIVERSAL
    if plan.has_partner:
        assert plan.invariants[0] == plan.flips[0]


@pytest.mark.parametrize(
    ("weights", "flips"),
    [
        (ALTERATION_SHARES, 0.2),
        (dict.fromkeys(ALTERATIONS, 1.0), 0.4),
        ({"Negation": 1.0, "Variable Swap": 3.0}, 0.25),
        ({"Quantity Change": 1.0, "Quantifier Change": 2.0}, 0.34),
    ],
)
def test_plans_have_the_set_shares(weights: dict[str, float], flips: float) -> None:
    settings = GeneratorSettings(alterations=weights, flips=flips, domains=("shop",))
    rng = StableRandom("shares")
    plans = [draw_plan(settings, "shop", rng) for _ in range(3000)]
    flipped = Counter(name for plan in plans for name in plan.flips)
    every = flipped + Counter(name for plan in plans for name in plan.invariants)
    assert flipped.total() / every.total() == pytest.approx(flips, rel=0.06)
    for name, weight in weights.items():
        share = weight / sum(weights.values())
        assert every[name] / every.total() == pytest.approx(share, rel=0.25), name


def test_recorded_changes_are_the_differences_between_dialogues(groups: list[Group]) -> None:
    for group in groups:
        original, *variants = group.variants
        for variant in variants:
            assert variant.changes
            changed = {change.utterance: change for change in variant.changes}
            for number, (old, new) in enumerate(
                zip(original.dialogue.lines, variant.dialogue.lines, strict=True)
            ):
                if number not in changed:
                    assert old == new
                    continue
                change = changed[number]
                assert old != new
                assert change.old in old
                assert change.new in new
                # Somewhere the old words, replaced by the new ones, make the new line.
                assert any(
                    f"{old[:at]} {change.new} {old[at + len(change.old) :]}".split() == new.split()
                    or old[:at] + change.new + old[at + len(change.old) :] == new
                    for at in range(len(old) + 1)
                    if old[at:].startswith(change.old)
                )
            if variant.alteration != "Injecting Inconsistent Data":
                for change in variant.changes:
                    assert max(len(change.old.split()), len(change.new.split())) <= 6
            assert len(variant.changes) <= 1 + (variant.alteration == "Variable Swap")


def test_answers_are_balanced_in_every_breakdown(all_documents: list[Document]) -> None:
    assert 0.48 <= yes_share(all_documents) <= 0.52
    for breakdown in (alteration_category, question_type, length_bucket):
        by_class: dict[str, list[Document]] = defaultdict(list)
        for document in all_documents:
            by_class[breakdown(document)].append(document)
        for name, members in by_class.items():
            assert len(members) >= GROUPS // 15, name
            assert 0.45 <= yes_share(members) <= 0.55, name


def test_questions_have_about_the_shares_of_the_manual_split(groups: list[Group]) -> None:
    forms = Counter(question_of(group).form for group in groups)
    shares = question_shares()
    for form, share in shares.items():
        assert abs(forms[form] / len(groups) - share / sum(shares.values())) < 0.04, form


def test_the_breakdown_recognizes_the_kind_of_every_question(groups: list[Group]) -> None:
    kinds = {"all": "universal", "some": "existential"}
    for group in groups:
        form = question_of(group).form
        kind = form.split()[0] if " " in form else kinds.get(form, "only-entity")
        assert question_type(next(documents([group]))) == kind


def test_train_validation_and_test_have_no_dialogue_in_common_altered_or_not() -> None:
    shares: dict[str, set[int]] = {}
    for split in GENERATED_SPLITS[:3]:
        shares[split] = {
            opening_share(composed(variant).exchanges)
            for group in generate(
                GeneratorSettings(groups=60, seed=3, split=split, domains=DOMAINS)
            )
            for variant in group.variants
        }
    assert shares == {"train": {0, 1}, "validation": {2}, "test": {3}}


def test_equal_texts_belong_to_the_same_share(groups: list[Group]) -> None:
    by_text: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for group in groups[:200]:
        dialogue = composed(group.variants[0])
        first, *others = dialogue.exchanges
        for more in (0, 4, 12):
            again = first._replace(wordings=(first.wordings[0] + more, first.wordings[1]))
            other = dataclasses.replace(dialogue, exchanges=(again, *others))
            by_text[other.lines].add(opening_share(other.exchanges))
    assert all(len(shares) == 1 for shares in by_text.values())


@pytest.mark.parametrize("domain", DOMAINS)
def test_only_test_vocabulary_has_the_held_out_words(domain: Domain) -> None:
    held_out, regular = domain_vocabulary(domain, "held out"), domain_vocabulary(domain, "regular")
    for slot in ("agents", "things", "places"):
        assert not set(getattr(regular, slot)) & set(getattr(held_out, slot))
    for split in GENERATED_SPLITS:
        settings = GeneratorSettings(groups=10, split=split, domains=(domain,))
        made = documents(generate(settings))
        texts = "\n".join(f"{document.context} {document.question}" for document in made)
        text = f" {re.sub(r'[^A-Za-z0-9_ ]', ' ', texts)} "
        is_held_out = split == "test_vocabulary"
        assert any(f" {thing} " in text for thing in held_out.things) == is_held_out
        assert any(f" {place} " in text for place in held_out.places) == is_held_out
        assert any(f" {thing} " in text for thing in regular.things) != is_held_out


def test_test_long_is_longer_than_anything_in_train() -> None:
    lengths = {
        split: [
            len(variant.dialogue.lines)
            for group in generate(GeneratorSettings(groups=40, split=split, domains=DOMAINS))
            for variant in group.variants
        ]
        for split in ("train", "test_long")
    }
    assert max(lengths["train"]) < min(lengths["test_long"])


@pytest.mark.parametrize(
    ("alteration", "domains"),
    [
        *((alteration, DOMAINS) for alteration in ALTERATIONS),
        ("Negation", ("conversation",)),
        ("Quantifier Change", ("conversation",)),
    ],
)
def test_a_held_out_alteration_is_in_every_group_of_test_and_in_none_of_train(
    alteration: str, domains: tuple[Domain, ...]
) -> None:
    for split in GENERATED_SPLITS[:3]:
        settings = GeneratorSettings(
            groups=15, split=split, domains=domains, held_out_alteration=alteration
        )
        for group in generate(settings):
            has = alteration in {variant.alteration for variant in group.variants}
            assert has == (split == "test")


@given(
    seed=st.integers(0, 10**6),
    split=st.sampled_from(GENERATED_SPLITS),
    domains=st.sets(st.sampled_from(DOMAINS), min_size=1),
)
def test_any_settings_give_english_that_breaks_no_known_rule(
    seed: int, split: GeneratedSplit, domains: set[Domain]
) -> None:
    settings = GeneratorSettings(groups=1, seed=seed, split=split, domains=tuple(sorted(domains)))
    group = make_group(settings, 0)
    for variant in group.variants:
        for number, line in enumerate(variant.dialogue.lines):
            label, _, utterance = line.partition(": ")
            assert label == SPEAKERS[number % 2]
            if group.domain == "household":  # written without punctuation
                assert utterance[-1] not in ".?"
            else:
                assert utterance[0].isupper()
                assert utterance[-1] in ".?!"
            assert "  " not in line
            assert "None" not in line
            wrong = r"\b(one are|are one(?! or)|there is (two|three)|I does|you does|i)\b"
            assert not re.search(wrong, utterance.replace("One", "one")), utterance
    assert group.question_text.endswith("?")


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_every_format_holds_the_documents_and_what_was_changed(tmp_path: Path, name: str) -> None:
    path, groups = tmp_path / name, list(generate(GeneratorSettings(groups=60, seed=9)))
    written = list(documents(groups))
    assert write_documents(written, path) == len(written)
    assert list(tmp_path.iterdir()) == [path]
    assert read_documents(path) == [dataclasses.replace(one, split="own") for one in written]
    changes = [variant.changes for group in groups for variant in group.variants]
    if name == "x.csv":
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.DictReader(stream))
        for column, field in {"Utterance Index": "utterance", "New Word": "new"}.items():
            values = [[str(getattr(change, field)) for change in row] for row in changes]
            assert [row[column] for row in rows] == [" | ".join(value) for value in values]
    else:
        records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        fields = [[dataclasses.asdict(change) for change in row] for row in changes]
        assert [record["changes"] for record in records] == fields


@pytest.mark.parametrize("split", ["test", "test_long"])
def test_tracking_has_growing_contexts_and_balanced_answers(split: GeneratedSplit) -> None:
    tracking = list(tracking_documents(TrackingSettings(groups=60, split=split)))
    assert yes_share(tracking) == 0.5
    by_dialogue: dict[int, list[Document]] = defaultdict(list)
    for document in tracking:
        by_dialogue[document.group].append(document)
    assert len(by_dialogue) >= 55  # a few dialogues do not allow for both answers
    for members in by_dialogue.values():
        for document, after in pairwise(members):
            assert after.context.startswith(document.context)
    assert {document.row for document in tracking} == set(range(len(tracking)))
    kinds = {question_type(document) for document in tracking}
    assert kinds == {"only-entity", "universal", "existential"}


def test_turns_ago_counts_the_exchanges_since_the_things_were_mentioned() -> None:
    tracking = list(tracking_documents(TrackingSettings(groups=40)))
    ago = {document.turns_ago for document in tracking}
    assert ago >= {0, 1, 2, 3, 5}
    assert None not in ago
    things = {thing for domain in DOMAINS for thing in domain_vocabulary(domain, "regular").things}
    for document in tracking:
        if not document.turns_ago:
            continue
        since = "\n".join(document.context.split("\n")[-2 * document.turns_ago :])
        question = f" {document.question.replace('?', ' ')}"
        forms = {form: each for each in things for form in (each, singular(each))}
        asked = max((form for form in forms if f" {form} " in question), key=len)  # sweet potatoes
        assert f" {forms[asked]}" not in since
