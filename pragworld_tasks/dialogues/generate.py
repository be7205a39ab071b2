"""The dialogue generator: groups of a dialogue, a question about it, and altered variants.

The plan of a group (`plans`) keeps the words of a document from giving its answer away: it is drawn
before the answer matters, and a dialogue that does not allow for it is replaced. The original must
also allow two questions of the chosen form, one with the answer yes and one with the answer no.

`GENERATOR_VERSION`, the settings and the number of a group determine the group, on every machine.
How many groups are generated makes no difference.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from pragworld_tasks.data.documents import GENERATED, Answer, Basis, Document, Effect
from pragworld_tasks.dialogues.alterations import Edit, Focus, edits
from pragworld_tasks.dialogues.compose import Dialogue, compose, opening_share
from pragworld_tasks.dialogues.conversations.versions import (
    AskedQuestion,
    Version,
    original_and_variants,
)
from pragworld_tasks.dialogues.plans import (
    DOMAIN_WEIGHTS,
    Plan,
    TemplatePlan,
    draw_plan,
    draw_template_plan,
)
from pragworld_tasks.dialogues.questions import Question, basis, question_text, questions_by_answer
from pragworld_tasks.dialogues.settings import GENERATOR_VERSION, SPLIT_SHARES, GeneratorSettings
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import Domain, Names
from pragworld_tasks.dialogues.world import Unclear, interpret, mentioned, resolve_altered
from pragworld_tasks.text import Change, line_changes

# Words that an alteration may change in an utterance, inserted sentences aside: "no" stands against
# "yes, some of them are there".
_MOST_WORDS = 6
_MOST_EDITS = 12  # edits to try for each alteration
_MOST_DIALOGUES = 20  # dialogues to try for a plan
_MOST_QUESTIONS = 4  # questions to try for a dialogue
_MOST_FIRST_FLIPS = 2  # variants to try as the first flip for a question


@dataclass(frozen=True, slots=True)
class Variant:
    """A dialogue with the answer to the question of its group.

    The original has no alteration, effect and changes. A composed dialogue has two changes for a
    swap and one for any other alteration, a conversation has one for each altered utterance.
    """

    dialogue: Dialogue | Version
    answer: Answer
    basis: Basis
    alteration: str | None = None
    effect: Effect | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A question and the dialogues that it is about: the original, then its altered variants."""

    number: int
    domain: Domain
    question: Question | AskedQuestion
    question_text: str
    variants: tuple[Variant, ...]


def generate(settings: GeneratorSettings) -> Iterator[Group]:
    """Generate groups one by one, each when it is needed.

    >>> group = next(generate(GeneratorSettings(seed=7)))
    >>> [variant.effect for variant in group.variants].count(None)
    1
    """
    for number in range(settings.groups):
        yield make_group(settings, number)


def documents(groups: Iterable[Group]) -> Iterator[Document]:
    """Yield the documents of the groups: for each group, the original and then its variants.

    >>> document = next(documents(generate(GeneratorSettings(seed=7))))
    >>> document.group, document.is_original, document.alteration
    (0, True, None)
    """
    row = 0
    for group in groups:
        for variant in group.variants:
            is_original = variant.alteration is None
            yield Document(
                row=row,
                context="\n".join(variant.dialogue.lines),
                question=group.question_text,
                answer=variant.answer,
                group=group.number,
                is_original=is_original,
                alteration=variant.alteration,
                effect=variant.effect,
                split=GENERATED,
                released_group=group.number,
                released_is_original=is_original,
                basis=variant.basis,
            )
            row += 1


# One group ----------------------------------------------------------------------------------------

_SEEDS_APART = 37  # between the first conversations of two seeds
_WORDINGS = 60  # a multiple of the number of phrases that a question has
_OTHER: dict[Answer, Answer] = {"yes": "no", "no": "yes"}
_ANSWERS: dict[Basis | None, Answer | None] = {
    None: None,
    "entailed": "yes",
    "excluded": "no",
    "undetermined": "no",
}


def make_group(settings: GeneratorSettings, number: int) -> Group:
    """Generate the group with the given number.

    Groups 0 and 1, 2 and 3, and so on have opposite answers and begin with the same plan, which few
    of them need to replace. So the answers are balanced for every kind of question and of variant.
    """
    domains = ",".join(settings.domains)
    key = (
        f"{GENERATOR_VERSION}/{settings.seed}/{settings.split}/{domains}/"
        f"{settings.held_out_alteration}/{settings.undetermined}"
    )
    of_both, rng = StableRandom(f"{key}/plan/{number // 2}"), StableRandom(f"{key}/{number}")
    answer: Answer = "yes" if of_both.happens(0.5) == (number % 2 == 0) else "no"
    while True:  # twice for 1 % of groups, more often if few alterations or answers are allowed
        domain = of_both.weighted_choice({name: DOMAIN_WEIGHTS[name] for name in settings.domains})
        if domain == "conversation":
            about = draw_template_plan(settings, of_both)
            group = _group_about_conversation(settings, number, about, answer, rng)
        else:
            plan = draw_plan(settings, domain, of_both)
            group = _planned_group(settings, number, plan, answer, rng)
        if group is not None:
            return group


def _group_about_conversation(
    settings: GeneratorSettings,
    number: int,
    plan: TemplatePlan,
    answer: Answer,
    rng: StableRandom,
) -> Group | None:
    """Generate a group about a conversation, or return None if none allows for the alterations."""
    first = number + _SEEDS_APART * settings.seed
    shares = SPLIT_SHARES[settings.split]
    found = original_and_variants(shares, first, plan, answer, rng)
    if found is None:
        return None
    question, original, altered = found
    bases: dict[Answer, Basis] = {"yes": "entailed", "no": "excluded"}
    variants = [Variant(original, answer, bases[answer])]
    for alteration, version, new_answer in rng.shuffled(altered):
        effect: Effect = "invariant" if new_answer == answer else "flip"
        changes = tuple(line_changes(original.lines, version.lines))
        rests_on = bases[new_answer]
        variants.append(Variant(version, new_answer, rests_on, alteration, effect, changes))
    return Group(number, "conversation", question, question.text, tuple(variants))


def _planned_group(
    settings: GeneratorSettings, number: int, plan: Plan, answer: Answer, rng: StableRandom
) -> Group | None:
    """Generate the group of a plan, or return None if no dialogue that was tried allows for it."""
    vocabulary = settings.vocabulary(plan.domain)
    opening_shares = SPLIT_SHARES[settings.split]
    keeps_undetermined = settings.undetermined == "keep"
    topics = plan.topics(rng)
    for _ in range(_MOST_DIALOGUES):
        dialogue = compose(plan.domain, vocabulary, plan.length, topics, rng, opening_shares)
        draft = _Draft(dialogue, vocabulary, opening_shares, plan, answer, keeps_undetermined, rng)
        found = draft.question_and_variants()
        if found is not None:
            question, variants = found
            question = question._replace(wording=rng.below(_WORDINGS))
            text = question_text(question, plan.domain)
            original_basis = draft.basis(question)
            assert original_basis
            original = Variant(dialogue, answer, original_basis)
            variants = rng.shuffled(variants)
            return Group(number, plan.domain, question, text, (original, *variants))
    return None


class _Altered:
    """An altered dialogue and what it establishes.

    `meanings` are the exchanges that get another meaning, resolved, by position.
    """

    def __init__(self, original: Dialogue, alteration: str, edit: Edit) -> None:
        """Resolve the altered exchanges. Raise `Unclear` if a pronoun has no single referent."""
        self.original = original
        self.alteration = alteration
        self.edit = edit
        self.meanings = resolve_altered(edit.altered, original.exchanges, original.resolved)

    def basis(self, question: Question, before: Basis | None) -> Basis | None:
        """Return what the answer rests on, given what it rested on before the alteration.

        Return None if there is no answer. What is said of other things and people has no bearing.
        """
        names, about = self.original.names, {question.thing, question.agent}
        if all(
            about.isdisjoint((*names[position], *meaning.things, *meaning.agents))
            for position, meaning in self.meanings.items()
        ):
            return before
        exchanges = (
            self.meanings.get(position, exchange)
            for position, exchange in enumerate(self.original.resolved)
            if position in self.meanings or not about.isdisjoint(names[position])
        )
        with suppress(Unclear):
            return basis(question, interpret(exchanges))
        return None

    @cached_property
    def dialogue_and_changes(self) -> tuple[Dialogue, tuple[Change, ...]] | None:
        """The dialogue and its changes, or None if it is contradictory or too many words change."""
        exchanges = enumerate(self.original.resolved)
        try:
            interpret(self.meanings.get(position, exchange) for position, exchange in exchanges)
        except Unclear:
            return None
        dialogue = self.original.altered(self.edit.altered, self.meanings)
        changes = tuple(line_changes(self.original.lines, dialogue.lines))
        if not 0 < len(changes) <= (2 if self.alteration == "Variable Swap" else 1):
            return None
        if self.alteration != "Injecting Inconsistent Data" and any(
            max(change.old.count(" "), change.new.count(" ")) >= _MOST_WORDS for change in changes
        ):
            return None
        return dialogue, changes


@dataclass(frozen=True)
class _Draft:
    """An original dialogue and the means to alter it.

    Attributes:
        vocabulary: The words that alterations may introduce.
        opening_shares: The shares of `opening_share` that the variants may belong to.
        gold: The answer to the question about the original.
        keeps_undetermined: Whether what was said may leave an answer undetermined.
    """

    dialogue: Dialogue
    vocabulary: Names
    opening_shares: tuple[int, ...]
    plan: Plan
    gold: Answer
    keeps_undetermined: bool
    rng: StableRandom

    def basis(self, question: Question) -> Basis | None:
        """Return what the answer to the question about the original rests on."""
        return basis(question, self.dialogue.state)

    def answer(self, rests_on: Basis | None) -> Answer | None:
        """Return the answer that rests on this, or None if there is none to use."""
        if rests_on == "undetermined" and not self.keeps_undetermined:
            return None
        return _ANSWERS[rests_on]

    def question_and_variants(self) -> tuple[Question, list[Variant]] | None:
        """Return a question and the variants of the plan, or None if there are none."""
        plan = self.plan
        names = mentioned(self.dialogue.resolved)
        questions = questions_by_answer(
            plan.form, names, self.dialogue.state, self.keeps_undetermined
        )
        if not (questions["yes"] and questions["no"]):
            return None
        for question in self.rng.shuffled(questions[self.gold])[:_MOST_QUESTIONS]:
            flips = self.flips(question, plan.flips[0])
            for variant, altered_so_far in islice(flips, _MOST_FIRST_FLIPS):
                variants = self.variants(question, variant, altered_so_far)
                if variants is not None:
                    return question, variants
        return None

    def variants(
        self, question: Question, first: Variant, altered_so_far: Sequence[_Altered]
    ) -> list[Variant] | None:
        """Return all variants of the plan, given its first flip, or None if one is not possible.

        The last of the dialogues `altered_so_far`, which were tried for the first flip, is its own.
        """
        variants = {first.changes: first}  # no two variants make the same changes
        for alteration in self.plan.flips[1:]:
            names = (alteration, *(name for name in self.plan.replacements if name != alteration))
            flips = (flip for name in names for flip, _ in self.flips(question, name))
            if not _add(variants, flips):
                return None
        invariants = self.plan.invariants
        if self.plan.has_partner:
            flip = altered_so_far[-1]
            candidates = chain(altered_so_far, self.edits(flip.alteration))
            alike = (
                altered for altered in candidates if altered.edit.direction == flip.edit.direction
            )
            if not _add(variants, self.invariants(question, alike)):
                return None
            invariants = invariants[1:]
        for alteration in invariants:
            # A planned alteration that the dialogue does not allow for is replaced.
            others = () if alteration == self.plan.needed else self.plan.replacements
            for name in (alteration, *self.rng.shuffled(others)):
                if _add(variants, self.invariants(question, self.edits(name))):
                    break
            else:
                return None
        return list(variants.values())

    def edits(self, alteration: str, focus: Focus | None = None) -> Iterator[_Altered]:
        """Yield a few altered dialogues, some of which may be contradictory."""
        candidates = edits(alteration, self.dialogue.exchanges, self.vocabulary, self.rng, focus)
        for edit in islice(candidates, _MOST_EDITS):
            with suppress(Unclear):
                yield _Altered(self.dialogue, alteration, edit)

    def variant(
        self, altered: _Altered, answer: Answer, rests_on: Basis, effect: Effect
    ) -> Variant | None:
        """Return the altered dialogue as a variant, or None if it may not be one."""
        if altered.dialogue_and_changes is None:
            return None
        dialogue, changes = altered.dialogue_and_changes
        if opening_share(dialogue.exchanges) not in self.opening_shares:
            return None
        return Variant(dialogue, answer, rests_on, altered.alteration, effect, changes)

    def flips(
        self, question: Question, alteration: str
    ) -> Iterator[tuple[Variant, list[_Altered]]]:
        """Yield variants that flip the answer to a question.

        Each comes with all altered dialogues so far. The last of these is the variant's.
        """
        altered_so_far: list[_Altered] = []
        other = _OTHER[self.gold]
        names = tuple(filter(None, (question.agent, question.thing, question.place)))
        about = enumerate(self.dialogue.names)
        positions = frozenset(n for n, said in about if question.thing in said)
        focus = Focus(question.thing, names, positions, self.gold == "no")
        for altered in self.edits(alteration, focus):
            altered_so_far.append(altered)
            rests_on = altered.basis(question, None)
            if rests_on and self.answer(rests_on) == other:
                variant = self.variant(altered, other, rests_on, "flip")
                if variant is not None:
                    yield variant, altered_so_far

    def invariants(self, question: Question, candidates: Iterable[_Altered]) -> Iterator[Variant]:
        """Yield the altered dialogues that leave the answer as it is, as variants."""
        before = self.basis(question)
        for altered in candidates:
            rests_on = altered.basis(question, before)
            if rests_on and self.answer(rests_on) == self.gold:
                variant = self.variant(altered, self.gold, rests_on, "invariant")
                if variant is not None:
                    yield variant


def _add(variants: dict[tuple[Change, ...], Variant], candidates: Iterable[Variant]) -> bool:
    """Add the first candidate with changes of its own. Return whether there is one."""
    for variant in candidates:
        if variant.changes not in variants:
            variants[variant.changes] = variant
            return True
    return False
