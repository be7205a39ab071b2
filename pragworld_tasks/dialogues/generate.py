"""Generated splits: groups of a dialogue, a question about it, and altered variants in pairs.

What keeps the answers from showing in the words: every alteration comes as a pair, one that flips
the answer and one of the same kind and direction that does not. The two differ from the original
alike, and one of them is a yes and the other a no. And a question is asked only of a dialogue of
which the same could be asked with the other answer.

All is determined by `VERSION`, the settings and a group's number, on every machine: a group does
not depend on how many are made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice

from pragworld_tasks.data.documents import ALTERATIONS, Answer, Document, Effect
from pragworld_tasks.dialogues.alterations import Edit, edits
from pragworld_tasks.dialogues.compose import Dialogue, compose, opening_share, utterances
from pragworld_tasks.dialogues.questions import (
    FORMS,
    Form,
    Kind,
    Question,
    askable,
    by_answer,
    evaluate,
    question_text,
)
from pragworld_tasks.dialogues.settings import (
    GENERATOR_VERSION,
    LONG_LENGTHS,
    SPLIT_SHARES,
    GeneratorSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.vocabulary import Vocabulary
from pragworld_tasks.dialogues.world import (
    Exchange,
    State,
    Unclear,
    about,
    interpret,
    mentioned,
    resolve,
)

# How many exchanges a dialogue has, each as often as it stands here.
_LENGTHS = (3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6, 7, 7, 8, 8, 9, 10)
_MOST_WORDS = 4  # that an alteration may change in an utterance; an inserted sentence aside


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between an altered dialogue and its original.

    Attributes:
        utterance: the line it is in, from 0.
        old, new: the words that differ; one of them may be empty.
    """

    utterance: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Variant:
    """A dialogue with the answer to its group's question."""

    dialogue: Dialogue
    lines: tuple[str, ...]
    answer: Answer
    alteration: str | None
    effect: Effect | None
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """An original, first, and the variants altered from it, all asked the same question."""

    number: int
    question: Question
    question_text: str
    variants: tuple[Variant, ...]


def generate(settings: GeneratorSettings) -> Iterator[Group]:
    """The groups, one after the other."""
    for number in range(settings.groups):
        yield make_group(settings, number)


def documents(groups: Iterable[Group]) -> Iterator[Document]:
    """The documents of the groups."""
    row = 0
    for group in groups:
        for variant in group.variants:
            is_original = variant.alteration is None
            yield Document(
                row=row,
                context="\n".join(variant.lines),
                question=group.question_text,
                answer=variant.answer,
                group=group.number,
                is_original=is_original,
                alteration=variant.alteration,
                effect=variant.effect,
                split="generated",
                released_group=group.number,
                released_is_original=is_original,
            )
            row += 1


# One group ----------------------------------------------------------------------------------------

# Topics that offer an alteration something to alter, twice (once for a flip, once for none): by the
# answer that is to be flipped, and by whether the question is about what somebody did.
_TOPICS: dict[str, dict[tuple[Answer, bool], str]] = {
    "Negation": {
        ("yes", True): "done",
        ("no", True): "not done",
        ("yes", False): "affirmed",
        ("no", False): "denied",
    },
    "Quantity Change": {
        ("yes", True): "quantity done",
        ("no", True): "quantity done",
        ("yes", False): "quantity",
        ("no", False): "quantity",
    },
    "Quantifier Change": {
        ("yes", True): "all done",
        ("no", True): "some done",
        ("yes", False): "all",
        ("no", False): "some",
    },
    "Logical Connective Change": {
        ("yes", True): "done and",
        ("no", True): "done or",
        ("yes", False): "and",
        ("no", False): "or",
    },
}
# The forms of question that an alteration can flip the answer to.
_FLIPPABLE: dict[str, frozenset[Form]] = {
    "Negation": frozenset(("any", "left", "some", "left some", "where", "agent knows", "went")),
    "Variable Substitution": frozenset(form for forms in FORMS.values() for form in forms),
    "Quantity Change": frozenset(("exactly", "left exactly", "more than")),
    "Variable Swap": frozenset(form for forms in FORMS.values() for form in forms),
    "Quantifier Change": frozenset(("all", "left all")),
    "Logical Connective Change": frozenset(
        ("any", "left", "some", "left some", "where", "who", "went")
    ),
    "Injecting Inconsistent Data": frozenset(("any", "exactly", "more than", "all", "some")),
}
_ANSWERS: tuple[Answer, ...] = ("yes", "no")
_POLAR_TOPICS: dict[Form, dict[Answer, str]] = {
    "went": {"yes": "gone", "no": "not gone"},
    "agent knows": {"yes": "known", "no": "not known"},
}
_TOPICS_OF_FORM: dict[Form, str] = {
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


def _topics(alteration: str, form: Form, answer: Answer) -> list[str]:
    """What a dialogue should speak of, to be asked about in this form and altered in this way.

    The third topic is there for the other answer: to be asked about, and lest words tell.
    """
    if alteration == "Logical Connective Change" and form == "went":
        by_answer: dict[Answer, str] = {"yes": "gone and", "no": "gone or"}
    elif alteration == "Negation" and form in _POLAR_TOPICS:
        by_answer = _POLAR_TOPICS[form]
    elif alteration in _TOPICS:
        done = form.startswith("left")
        by_answer = {each: _TOPICS[alteration][each, done] for each in _ANSWERS}
    else:
        return [_TOPICS_OF_FORM[form]] * 2 if form in _TOPICS_OF_FORM else []
    return [by_answer[answer]] * 2 + [by_answer["no" if answer == "yes" else "yes"]]


def make_group(settings: GeneratorSettings, number: int) -> Group:
    """The group of that number."""
    held_out = settings.held_out_alteration
    training = settings.split in ("train", "validation")
    alterations = [name for name in ALTERATIONS if not (training and name == held_out)]
    rng = StableRandom(
        f"{GENERATOR_VERSION}/{settings.seed}/{settings.split}/{','.join(settings.domains)}/{held_out}/{number}"
    )
    lengths = LONG_LENGTHS if settings.split == "test_long" else _LENGTHS
    shares = SPLIT_SHARES[settings.split]
    first = rng.choice(alterations) if training or not held_out else held_out
    length, domain = rng.choice(lengths), rng.choice(settings.domains)
    forms = {
        kind: [
            form
            for form in FORMS[kind]
            if form in _FLIPPABLE[first]
            and sum(form in _FLIPPABLE[alteration] for alteration in alterations) > 1
        ]
        for kind in FORMS
    }
    kind = rng.choice([kind for kind, some in forms.items() if some])
    vocabulary = settings.vocabulary(domain)
    pairs = 2 + rng.below(2)
    found_first = 0
    wanted: Answer = "yes" if rng.happens(0.5) else "no"
    form = rng.choice(forms[kind])
    while True:
        topics = _topics(first, form, wanted)
        dialogue = compose(domain, vocabulary, length, topics, rng, shares)
        draft = _Draft(
            dialogue, tuple(utterances(dialogue)), vocabulary, form == "went", shares, rng
        )
        asked = _askable(form, kind, dialogue.resolved)
        found = _first_pair(draft, asked, wanted, first)
        if found is None:
            continue
        found_first += 1
        question, variants = found
        others = rng.shuffled([name for name in alterations if name != first])
        others = [name for name in others if form in _FLIPPABLE[name]]
        # A no hardly ever becomes a yes by the others, when it was not asked with them in mind.
        rare = [name for name in others if name not in _EVERYWHERE and wanted == "yes"]
        for alteration in (*rare[:1], *(name for name in others if name in _EVERYWHERE)):
            variants += _further_pair(draft, question, wanted, alteration)
            if len(variants) == 2 * pairs:
                break
        if len(variants) < 4 and found_first < _DRAFTS:  # rather another dialogue with two pairs
            continue
        question = question._replace(knower=rng.below(2), wording=rng.below(6))
        return Group(
            number,
            question,
            question_text(question, dialogue.cast),
            (Variant(dialogue, draft.lines, wanted, None, None, ()), *rng.shuffled(variants)),
        )


# Alterations that can nearly always be had.
_EVERYWHERE = frozenset(("Variable Substitution", "Variable Swap"))
_TRIES = 16  # at finding an edit
_DRAFTS = 3  # with one pair of variants, until one pair is taken for enough


@dataclass(frozen=True, slots=True)
class _Draft:
    """An original, and what its variants are made with.

    Attributes:
        about_people: whether the question is about people and no things.
        shares: those that the variants have to belong to as well.
    """

    dialogue: Dialogue
    lines: tuple[str, ...]
    vocabulary: Vocabulary
    about_people: bool
    shares: tuple[int, ...]
    rng: StableRandom

    def edits(self, alteration: str, focus: Sequence[str]) -> Iterator["_Altered"]:
        """A few alterations; not all of them make sense."""
        tried = edits(alteration, self.dialogue.exchanges, self.vocabulary, focus, self.rng)
        for edit in islice(tried, _TRIES):
            try:
                resolved = resolve(edit.exchanges)
            except Unclear:
                continue
            yield _Altered(edit, resolved, self._things_spoken_of(resolved))

    def _things_spoken_of(self, resolved: Sequence[Exchange]) -> set[str]:
        """The things that an altered exchange speaks of, before or after."""
        if self.about_people:
            return {thing for exchange in resolved for thing in exchange.things}
        things: set[str] = set()
        unaltered = self.dialogue.resolved
        for position, (before, after) in enumerate(zip(unaltered, resolved, strict=True)):
            if before != after:
                if after.form == "sure":
                    before = after = unaltered[position - 1]
                things.update(before.things, after.things)
        return things

    def variant(
        self, edit: Edit, answer: Answer, alteration: str, effect: Effect
    ) -> Variant | None:
        """The altered dialogue in words; None where too many words change, or none."""
        before = self.dialogue
        if opening_share(edit.exchanges) not in self.shares:
            return None
        dialogue = Dialogue(before.domain, before.cast, edit.exchanges, before.closing)
        lines = tuple(utterances(dialogue))
        changes = tuple(_changes(self.lines, lines))
        inserted = alteration == "Injecting Inconsistent Data"
        if not 0 < len(changes) <= (2 if alteration == "Variable Swap" else 1) or any(
            max(change.old.count(" "), change.new.count(" ")) >= _MOST_WORDS
            for change in changes
            if not inserted
        ):
            return None
        return Variant(dialogue, lines, answer, alteration, effect, changes)


class _Altered:
    """An alteration, and what it does to the state.

    What is said of one kind of things has no bearing on another, unless an exchange speaks of
    both; so the state is made anew only of those that an altered exchange speaks of, and only when
    it is asked for.
    """

    def __init__(self, edit: Edit, resolved: Sequence[Exchange], things: set[str]) -> None:
        self.edit = edit
        self._resolved = resolved
        self._things = things

    @cached_property
    def state(self) -> State | None:
        """The state, as far as it may have changed; None where the dialogue makes no sense."""
        try:
            return interpret(list(about(self._things, self._resolved)))
        except Unclear:
            return None

    def answer(self, question: Question, before: Answer) -> Answer | None:
        """The answer now, given the answer before; None also where there is no state."""
        if question.thing and question.thing not in self._things:
            return before
        holds = evaluate(question, self.state) if self.state else None
        return None if holds is None else "yes" if holds else "no"


def _askable(form: Form, kind: Kind, resolved: Sequence[Exchange]) -> dict[Answer, list[Question]]:
    """The questions of the form by their answer."""
    state = interpret(resolved)
    sorted_out = by_answer(askable(form, kind, mentioned(resolved), state), state)
    return {"yes": sorted_out[True], "no": sorted_out[False]}


def _first_pair(
    draft: _Draft, asked: dict[Answer, list[Question]], answer: Answer, alteration: str
) -> tuple[Question, list[Variant]] | None:
    """A question with the answer, and an edit that flips it and one of its kind that does not."""
    if not (asked["yes"] and asked["no"]):
        return None
    other: Answer = "no" if answer == "yes" else "yes"
    tried: list[_Altered] = []
    numbers = sorted({str(question.number) for question in asked[answer] if question.number})
    for altered in draft.edits(alteration, numbers):
        flipped = [each for each in asked[answer] if altered.answer(each, answer) == other]
        tried.append(altered)
        if not flipped:
            continue
        variant = draft.variant(altered.edit, other, alteration, "flip")
        if variant is None:
            continue
        question = draft.rng.choice(flipped)
        kept = _kept(draft, question, answer, alteration, altered.edit, tried)
        if kept is not None:
            return question, [variant, kept]
    return None


def _further_pair(
    draft: _Draft, question: Question, answer: Answer, alteration: str
) -> list[Variant]:
    """Two more variants, one that flips the answer and one that does not; or none."""
    focus = [name for name in (question.agent, question.thing, question.place) if name]
    if question.number:
        focus.append(str(question.number))
    other: Answer = "no" if answer == "yes" else "yes"
    tried: list[_Altered] = []
    for altered in draft.edits(alteration, focus):
        tried.append(altered)
        if altered.answer(question, answer) != other:
            continue
        variant = draft.variant(altered.edit, other, alteration, "flip")
        if variant is None:
            continue
        kept = _kept(draft, question, answer, alteration, altered.edit, tried)
        return [variant, kept] if kept is not None else []
    return []


def _kept(
    draft: _Draft,
    question: Question,
    answer: Answer,
    alteration: str,
    like: Edit,
    tried: Iterable[_Altered],
) -> Variant | None:
    """A variant of the same direction that leaves the answer as it is: one tried, or a new one."""
    for altered in chain(tried, draft.edits(alteration, ())):
        edit = altered.edit
        if edit.direction != like.direction or altered.answer(question, answer) != answer:
            continue
        if altered.state:
            variant = draft.variant(edit, answer, alteration, "invariant")
            if variant is not None:
                return variant
    return None


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    """The differences between two versions of a dialogue."""
    for utterance, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        olds, news = old.split(" "), new.split(" ")
        start = 0
        while start < min(len(olds), len(news)) and olds[start] == news[start]:
            start += 1
        end = 0
        while end < min(len(olds), len(news)) - start and olds[-1 - end] == news[-1 - end]:
            end += 1
        old = " ".join(olds[start : len(olds) - end])
        new = " ".join(news[start : len(news) - end])
        if old and new and old[-1] == new[-1] and old[-1] in ".?":
            old, new = old[:-1], new[:-1]
        yield Change(utterance, old, new)
