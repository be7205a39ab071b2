"""Generated entity tracking: questions after growing beginnings of dialogues (paper, section 5.2).

After each exchange there are two questions about the same things, one with the answer yes and one
with the answer no, if the dialogue so far allows for both. Each document records how long ago the
dialogue last mentioned these things.
"""

from collections.abc import Iterator, Sequence

from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.dialogues.compose import compose
from pragworld_tasks.dialogues.questions import (
    QUESTION_FORMS,
    Question,
    basis,
    question_text,
    questions_by_answer,
)
from pragworld_tasks.dialogues.settings import (
    GENERATOR_VERSION,
    LONG_LENGTHS,
    SPLIT_SHARES,
    TrackingSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.world import Exchange, State, interpret, mentioned

_LENGTHS = (6, 7, 8, 9, 10)  # exchanges in a whole dialogue
# Questions about the world, as in the paper, and not about what a speaker knows.
_FORMS = tuple(form for form in QUESTION_FORMS if not form.startswith(("know", "sure")))


def tracking_documents(settings: TrackingSettings) -> Iterator[Document]:
    """Generate entity-tracking documents.

    >>> document = next(tracking_documents(TrackingSettings(groups=1, seed=7)))
    >>> document.group, document.is_original, document.split
    (0, True, 'generated_entity_tracking')

    `groups` is the number of dialogues; the documents of one dialogue share their group number.
    """
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
            state = interpret(beginning)
            for answer, question in _one_of_each_answer(beginning, state, settings, rng).items():
                question = question._replace(wording=rng.below(60))
                yield Document(
                    row=row,
                    context="\n".join(dialogue.lines[: 2 * end]),
                    question=question_text(question, domain),
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
    exchanges: Sequence[Exchange], state: State, settings: TrackingSettings, rng: StableRandom
) -> dict[Answer, Question]:
    """Return two questions about the same things, by their answer, or {} if there are none."""
    names = mentioned(exchanges)
    things = rng.shuffled(names.things)
    for form in rng.shuffled(_FORMS):
        for thing in things:
            about, keeps = names._replace(things=(thing,)), settings.undetermined == "keep"
            questions = questions_by_answer(form, about, state, keeps)
            if questions["yes"] and questions["no"]:
                return {answer: rng.choice(options) for answer, options in questions.items()}
    return {}


def _turns_ago(thing: str, exchanges: Sequence[Exchange]) -> int:
    """Return how many exchanges follow the last one that mentions the things."""
    return next(ago for ago, exchange in enumerate(reversed(exchanges)) if thing in exchange.things)
