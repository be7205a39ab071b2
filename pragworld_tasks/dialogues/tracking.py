"""Generated entity tracking: questions after growing beginnings of dialogues (paper, section 5.2).

After each exchange there are two questions about the same things, one with the answer yes and one
with the answer no, if the dialogue so far allows for both. Each document records how long ago the
dialogue last mentioned these things.
"""

from collections.abc import Iterator, Sequence

from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.dialogues.compose import compose
from pragworld_tasks.dialogues.questions import (
    EVERYDAY_FORMS,
    QUESTION_FORMS,
    Question,
    QuestionForm,
    QuestionKind,
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
from pragworld_tasks.dialogues.vocabulary import is_event
from pragworld_tasks.dialogues.world import Exchange, State, Unclear, interpret, mentioned
from pragworld_tasks.errors import InputError

_LENGTHS = (6, 7, 8, 9, 10)  # exchanges in a whole dialogue
_KINDS: tuple[QuestionKind, ...] = ("only-entity", "quantity", "universal", "existential")


def tracking_documents(settings: GeneratorSettings) -> Iterator[Document]:
    """Generate entity-tracking documents.

    >>> document = next(tracking_documents(GeneratorSettings(groups=1, seed=7)))
    >>> document.group, document.is_original, document.split
    (0, True, 'generated_entity_tracking')

    Args:
        settings: The settings. `groups` is the number of dialogues; the documents of one dialogue
            share their group number. `alterations`, `held_out_alteration` and `flips` have no
            effect; `TrackingSettings` allow for any.

    Raises:
        InputError: The domain "conversation" is among the domains.
    """
    if "conversation" in settings.domains:
        raise InputError(
            "entity tracking has no domain 'conversation': nothing is moved in conversations; "
            "leave it out"
        )
    row = 0
    for group in range(settings.groups):
        domains = ",".join(settings.domains)
        rng = StableRandom(
            f"{GENERATOR_VERSION}/tracking/{settings.seed}/{settings.split}/{domains}/{group}"
        )
        domain = rng.choice(settings.domains)
        length = rng.choice(LONG_LENGTHS if settings.split == "test_long" else _LENGTHS)
        shares = SPLIT_SHARES[settings.split]
        dialogue = compose(domain, settings.vocabulary(domain), length, (), rng, shares)
        for end in range(1, len(dialogue.resolved) + 1):
            beginning = dialogue.resolved[:end]
            try:
                state = interpret(beginning)
            except Unclear:  # the next exchange, "are you sure?", takes back a contradiction
                continue
            for answer, question in _one_of_each_answer(beginning, state, settings, rng).items():
                question = question._replace(wording=rng.below(6))
                yield Document(
                    row=row,
                    context="\n".join(dialogue.lines[: 2 * end]),
                    question=question_text(question, dialogue.cast),
                    answer=answer,
                    group=group,
                    is_original=True,
                    alteration=None,
                    effect=None,
                    split="generated_entity_tracking",
                    released_group=group,
                    released_is_original=True,
                    turns_ago=_turns_ago(question.thing, beginning),
                    basis=basis(question, state),
                )
                row += 1


def _one_of_each_answer(
    exchanges: Sequence[Exchange], state: State, settings: GeneratorSettings, rng: StableRandom
) -> dict[Answer, Question]:
    """Return two questions about the same things, by their answer, or {} if there are none."""
    names = mentioned(exchanges)
    is_everyday = any(map(is_event, names.things))
    forms: list[tuple[QuestionKind, QuestionForm]] = (
        [("other", form) for form in EVERYDAY_FORMS["other"] if form not in ("went", "told")]
        if is_everyday
        else [(kind, form) for kind in _KINDS for form in QUESTION_FORMS[kind]]
    )
    things = rng.shuffled(names.things)
    for kind, form in rng.shuffled(forms):
        for thing in things:
            questions = questions_by_answer(form, kind, names._replace(things=(thing,)), state)
            if settings.undetermined == "drop":
                questions["no"] = [no for no in questions["no"] if basis(no, state) == "excluded"]
            if questions["yes"] and questions["no"]:
                return {answer: rng.choice(options) for answer, options in questions.items()}
    return {}


def _turns_ago(thing: str, exchanges: Sequence[Exchange]) -> int:
    """Return how many exchanges follow the last one that mentions the things."""
    return next(ago for ago, exchange in enumerate(reversed(exchanges)) if thing in exchange.things)
