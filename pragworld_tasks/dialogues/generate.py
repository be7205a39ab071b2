"""The dialogue generator: groups of a dialogue, a question about it, and altered variants.

Two rules keep the words of a document from giving its answer away:

- Variants come in pairs. Both have the same alteration in the same direction, but one flips the
  answer and the other does not. So the answer to one is yes, and to the other no.
- The original must allow two questions of the chosen form, one with the answer yes and one with the
  answer no.

`GENERATOR_VERSION`, the settings and the number of a group determine the group, on every machine.
How many groups are generated makes no difference.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Basis, Document, Effect
from pragworld_tasks.dialogues.alterations import Edit, edits
from pragworld_tasks.dialogues.compose import Dialogue, compose, opening_share
from pragworld_tasks.dialogues.questions import (
    FORMS,
    Question,
    QuestionForm,
    basis,
    question_text,
    questions_by_answer,
)
from pragworld_tasks.dialogues.settings import (
    GENERATOR_VERSION,
    LONG_LENGTHS,
    SPLIT_SHARES,
    GeneratorSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import Names
from pragworld_tasks.dialogues.world import (
    Exchange,
    State,
    Unclear,
    exchanges_about,
    interpret,
    mentioned,
    resolve,
)

_LENGTHS = (3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 8, 9, 10)  # exchanges in a dialogue
_MOST_WORDS = 4  # words that an alteration may change in an utterance, inserted sentences aside
_MOST_EDITS = 16  # edits to try for each alteration
_MOST_DRAFTS = 3  # dialogues to try before one pair of variants is enough
_UNIVERSAL = frozenset(("Variable Substitution", "Variable Swap"))  # apply to nearly all dialogues


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between an altered dialogue and its original.

    Attributes:
        utterance: Number of the line, from 0.
        old, new: The words that differ. One of the two may be empty.
    """

    utterance: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A dialogue with the answer to the question of its group.

    Attributes:
        dialogue: The original dialogue or an altered one.
        answer: The gold answer.
        basis: What the answer rests on.
        alteration: One of `documents.ALTERATIONS`, or None for the original.
        effect: What the alteration does to the answer, or None for the original.
        changes: The differences from the original: two for a swap, one for any other alteration.
    """

    dialogue: Dialogue
    answer: Answer
    basis: Basis
    alteration: str | None = None
    effect: Effect | None = None
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """A question and the dialogues that it is about.

    Attributes:
        number: Position of the group, from 0.
        question: The question.
        question_text: The same as text.
        variants: The original, followed by the variants altered from it.
    """

    number: int
    question: Question
    question_text: str
    variants: tuple[Variant, ...]


def generate(settings: GeneratorSettings) -> Iterator[Group]:
    """Generate groups one by one, each when it is needed.

    >>> group = next(generate(GeneratorSettings(seed=7)))
    >>> [(variant.alteration, variant.effect) for variant in group.variants[:2]]
    [(None, None), ('Variable Substitution', 'invariant')]
    """
    for number in range(settings.groups):
        yield make_group(settings, number)


def documents(groups: Iterable[Group]) -> Iterator[Document]:
    """Yield the documents of the groups: for each group, the original and then its variants.

    >>> document = next(documents(generate(GeneratorSettings(seed=7))))
    >>> document.question, document.answer
    ('Is it true that all of the lettuces are in the playroom?', 'no')
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
                split="generated",
                released_group=group.number,
                released_is_original=is_original,
                basis=variant.basis,
            )
            row += 1


# One group ----------------------------------------------------------------------------------------

# Topics that an alteration applies to, for the answers yes and no: of questions about what an agent
# did, and of all others.
_TOPICS: dict[str, dict[bool, tuple[str, str]]] = {
    "Negation": {True: ("done", "not done"), False: ("affirmed", "denied")},
    "Quantity Change": {True: ("quantity done", "quantity done"), False: ("quantity", "quantity")},
    "Quantifier Change": {True: ("all done", "some done"), False: ("all", "some")},
    "Logical Connective Change": {True: ("done and", "done or"), False: ("and", "or")},
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
# Forms of questions whose answer an alteration can flip.
_ALL_FORMS = frozenset(form for forms in FORMS.values() for form in forms)
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
_OTHER: dict[Answer, Answer] = {"yes": "no", "no": "yes"}
_ANSWERS: dict[Basis, Answer] = {
    "entailed": "yes",
    "excluded": "no",
    "undetermined": "no",
}


def make_group(settings: GeneratorSettings, number: int) -> Group:
    """Generate the group with the given number."""
    domains = ",".join(settings.domains)
    rng = StableRandom(
        f"{GENERATOR_VERSION}/{settings.seed}/{settings.split}/{domains}/"
        f"{settings.held_out_alteration}/{settings.undetermined}/{number}"
    )
    # The answer stays the same, so dropping groups does not change the share of yes.
    answer: Answer = "yes" if rng.happens(0.5) else "no"
    while True:
        group = _draw_group(settings, number, answer, rng)
        if settings.undetermined == "keep" or all(
            variant.basis != "undetermined" for variant in group.variants
        ):
            return group


def _draw_group(
    settings: GeneratorSettings, number: int, answer: Answer, rng: StableRandom
) -> Group:
    held_out = settings.held_out_alteration
    in_training = settings.split in ("train", "validation")
    alterations = [name for name in ALTERATIONS if not (in_training and name == held_out)]
    shares = SPLIT_SHARES[settings.split]
    first = rng.choice(alterations) if in_training or not held_out else held_out
    length = rng.choice(LONG_LENGTHS if settings.split == "test_long" else _LENGTHS)
    domain = rng.choice(settings.domains)
    # Only forms that a second alteration can flip as well.
    forms = {
        kind: [
            form
            for form in kind_forms
            if form in _FLIPPABLE[first]
            and sum(form in _FLIPPABLE[name] for name in alterations) > 1
        ]
        for kind, kind_forms in FORMS.items()
    }
    kind = rng.choice([kind for kind in forms if forms[kind]])
    vocabulary = settings.vocabulary(domain)
    most_variants = 2 * (2 + rng.below(2))
    drafts = 0
    form = rng.choice(forms[kind])
    topics = _topics(first, form, answer)
    while True:
        dialogue = compose(domain, vocabulary, length, topics, rng, shares)
        resolved = dialogue.resolved
        state = interpret(resolved)
        draft = _Draft(dialogue, state, vocabulary, form == "went", shares, rng)
        questions = questions_by_answer(form, kind, mentioned(resolved), state)
        if not (questions["yes"] and questions["no"]):
            continue
        pair = _first_pair(draft, questions[answer], answer, first)
        if pair is None:
            continue
        drafts += 1
        question, variants = pair
        others = rng.shuffled([name for name in alterations if name != first])
        others = [name for name in others if form in _FLIPPABLE[name]]
        # The topics were chosen for the first alteration. Without a topic of its own, another one
        # hardly ever turns a no into a yes.
        specific = [name for name in others if name not in _UNIVERSAL and answer == "yes"]
        for alteration in (*specific[:1], *(name for name in others if name in _UNIVERSAL)):
            variants += _further_pair(draft, question, answer, alteration)
            if len(variants) == most_variants:
                break
        if len(variants) < 4 and drafts < _MOST_DRAFTS:  # another dialogue may have two pairs
            continue
        question = question._replace(knower=rng.below(2), wording=rng.below(6))
        text = question_text(question, dialogue.cast)
        original_basis = draft.basis(question)
        assert original_basis is not None
        original = Variant(dialogue, answer, original_basis)
        return Group(number, question, text, (original, *rng.shuffled(variants)))


def _topics(alteration: str, form: QuestionForm, answer: Answer) -> list[str]:
    """Return topics that the question can be about and that the alteration applies to.

    Two are for a flip and for a variant without one. The third is for the other answer, so that
    dialogues with either answer have the same topics.
    """
    if (alteration, form) in _SPECIAL_TOPICS:
        topics = _SPECIAL_TOPICS[alteration, form]
    elif alteration in _TOPICS:
        topics = _TOPICS[alteration][form.startswith("left")]
    else:
        return [_TOPICS_OF_FORM[form]] * 2 if form in _TOPICS_OF_FORM else []
    topic, other = topics if answer == "yes" else reversed(topics)
    return [topic, topic, other]


class _Altered:
    """An altered dialogue and what it establishes.

    One kind of things has no bearing on another, unless an exchange is about both. So only the
    state of the kinds in altered exchanges is computed, and only when it is needed.
    """

    def __init__(
        self, alteration: str, edit: Edit, resolved: Sequence[Exchange], things: set[str]
    ) -> None:
        self.alteration = alteration
        self.edit = edit
        self._resolved = resolved
        self._things = things

    @cached_property
    def state(self) -> State | None:
        """The part of the state that may have changed, or None for a contradictory dialogue."""
        try:
            return interpret(list(exchanges_about(self._things, self._resolved)))
        except Unclear:
            return None

    def basis(self, question: Question, before: Basis | None) -> Basis | None:
        """Return what the answer rests on, given what it rested on before.

        Return None if there is no answer.
        """
        if question.thing and question.thing not in self._things:
            return before
        return basis(question, self.state) if self.state else None


@dataclass(frozen=True, slots=True)
class _Draft:
    """An original dialogue and the means to alter it.

    Attributes:
        dialogue: The original.
        state: What the original establishes.
        vocabulary: The words that alterations may introduce.
        about_people: Whether the question is about people only.
        shares: The shares of `opening_share` that the variants may belong to.
        rng: Source of randomness.
    """

    dialogue: Dialogue
    state: State
    vocabulary: Names
    about_people: bool
    shares: tuple[int, ...]
    rng: StableRandom

    def basis(self, question: Question) -> Basis | None:
        """Return what the answer to the question about the original rests on."""
        return basis(question, self.state)

    def edits(self, alteration: str, focus: Sequence[str]) -> Iterator[_Altered]:
        """Yield a few altered dialogues, some of which may be contradictory."""
        candidates = edits(alteration, self.dialogue.exchanges, self.vocabulary, focus, self.rng)
        for edit in islice(candidates, _MOST_EDITS):
            try:
                resolved = resolve(edit.exchanges)
            except Unclear:
                continue
            yield _Altered(alteration, edit, resolved, self._altered_things(resolved))

    def _altered_things(self, resolved: Sequence[Exchange]) -> set[str]:
        """Return the things that altered exchanges are about, before or after."""
        if self.about_people:
            return {thing for exchange in resolved for thing in exchange.things}
        things: set[str] = set()
        original = self.dialogue.resolved
        for position, (before, after) in enumerate(zip(original, resolved, strict=True)):
            if before != after:
                if after.form == "sure":
                    before = after = original[position - 1]
                things.update(before.things, after.things)
        return things

    def variant(
        self, altered: _Altered, answer: Answer, rests_on: Basis, effect: Effect
    ) -> Variant | None:
        """Return the altered dialogue as a variant, or None if too many words change, or none."""
        original, alteration, exchanges = self.dialogue, altered.alteration, altered.edit.exchanges
        if opening_share(exchanges) not in self.shares:
            return None
        dialogue = Dialogue(original.domain, original.cast, exchanges, original.closing)
        changes = tuple(_changes(original.lines, dialogue.lines))
        if not 0 < len(changes) <= (2 if alteration == "Variable Swap" else 1):
            return None
        if alteration != "Injecting Inconsistent Data" and any(
            max(change.old.count(" "), change.new.count(" ")) >= _MOST_WORDS for change in changes
        ):
            return None
        return Variant(dialogue, answer, rests_on, alteration, effect, changes)

    def flips(
        self, questions: Sequence[Question], answer: Answer, alteration: str, focus: Sequence[str]
    ) -> Iterator[tuple[Variant, Question, list[_Altered]]]:
        """Yield variants that flip the answer to one of the questions.

        Each comes with that question and with all altered dialogues so far. The last of these is
        the variant's.
        """
        altered_so_far: list[_Altered] = []
        other = _OTHER[answer]
        for altered in self.edits(alteration, focus):
            altered_so_far.append(altered)
            flipped = [
                (question, rests_on)
                for question in questions
                if (rests_on := altered.basis(question, None)) and _ANSWERS[rests_on] == other
            ]
            if flipped:
                question, rests_on = self.rng.choice(flipped)
                variant = self.variant(altered, other, rests_on, "flip")
                if variant is not None:
                    yield variant, question, altered_so_far

    def invariant(
        self, question: Question, answer: Answer, altered_so_far: Sequence[_Altered]
    ) -> Variant | None:
        """Return a variant with the same answer, altered in the same way as the last one so far."""
        flip, before = altered_so_far[-1], self.basis(question)
        for altered in chain(altered_so_far, self.edits(flip.alteration, ())):
            if altered.edit.direction != flip.edit.direction:
                continue
            rests_on = altered.basis(question, before)
            if rests_on and _ANSWERS[rests_on] == answer and altered.state:
                variant = self.variant(altered, answer, rests_on, "invariant")
                if variant is not None:
                    return variant
        return None


def _first_pair(
    draft: _Draft, questions: Sequence[Question], answer: Answer, alteration: str
) -> tuple[Question, list[Variant]] | None:
    """Return one of the questions, a variant that flips its answer, and one that does not."""
    numbers = sorted({str(question.number) for question in questions if question.number})
    for flip, question, altered_so_far in draft.flips(questions, answer, alteration, numbers):
        invariant = draft.invariant(question, answer, altered_so_far)
        if invariant is not None:
            return question, [flip, invariant]
    return None


def _further_pair(
    draft: _Draft, question: Question, answer: Answer, alteration: str
) -> list[Variant]:
    """Return a variant that flips the answer and one that does not, or nothing."""
    focus = [name for name in (question.agent, question.thing, question.place) if name]
    if question.number:
        focus.append(str(question.number))
    for flip, _, altered_so_far in draft.flips([question], answer, alteration, focus):
        invariant = draft.invariant(question, answer, altered_so_far)
        return [flip, invariant] if invariant is not None else []
    return []


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """Yield the differences between two versions of a dialogue."""
    for utterance, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        old_words, new_words = old.split(" "), new.split(" ")
        start, end, shortest = 0, 0, min(len(old_words), len(new_words))
        while start < shortest and old_words[start] == new_words[start]:
            start += 1
        while end < shortest - start and old_words[-1 - end] == new_words[-1 - end]:
            end += 1
        old = " ".join(old_words[start : len(old_words) - end])
        new = " ".join(new_words[start : len(new_words) - end])
        if old and new and old[-1] == new[-1] and old[-1] in ".?":
            old, new = old[:-1], new[:-1]
        yield Change(utterance, old, new)
