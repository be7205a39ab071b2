"""Generated entity tracking: questions after growing beginnings of dialogues (section 5.2).

After an exchange two questions are asked about the same things, one with the answer yes and one
with no, if the dialogue so far allows for both. How long ago these things were last spoken of is
known, so accuracy can be shown by it.
"""

from collections.abc import Iterator, Sequence

from pragworld_tasks.data.documents import Answer, Document
from pragworld_tasks.dialogues.compose import compose, utterances
from pragworld_tasks.dialogues.questions import (
    FORMS,
    Form,
    Kind,
    Question,
    askable,
    by_answer,
    question_text,
)
from pragworld_tasks.dialogues.settings import (
    GENERATOR_VERSION,
    LONG_LENGTHS,
    SPLIT_SHARES,
    GeneratorSettings,
)
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.dialogues.world import (
    Exchange,
    interpret,
    mentioned,
)

LENGTHS = (6, 7, 8, 9, 10)  # exchanges of a whole dialogue
_KINDS: tuple[Kind, ...] = ("only-entity", "quantity", "universal", "existential")


def tracking_documents(settings: GeneratorSettings) -> Iterator[Document]:
    """Documents on as many dialogues as the settings have groups; a dialogue is a group.

    Args:
        settings: those of the generated splits; there are no alterations here to hold out.
    """
    row = 0
    for number in range(settings.groups):
        domains = ",".join(settings.domains)
        rng = StableRandom(
            f"{GENERATOR_VERSION}/tracking/{settings.seed}/{settings.split}/{domains}/{number}"
        )
        lengths = LONG_LENGTHS if settings.split == "test_long" else LENGTHS
        domain = rng.choice(settings.domains)
        dialogue = compose(
            domain,
            settings.vocabulary(domain),
            rng.choice(lengths),
            (),
            rng,
            SPLIT_SHARES[settings.split],
        )
        lines = utterances(dialogue)
        resolved = dialogue.resolved
        for said in range(1, len(resolved) + 1):
            asked = _both_answers(resolved[:said], rng)
            for answer, question in asked.items():
                question = question._replace(wording=rng.below(6))
                yield Document(
                    row=row,
                    context="\n".join(lines[: 2 * said]),
                    question=question_text(question, dialogue.cast),
                    answer=answer,
                    group=number,
                    is_original=True,
                    alteration=None,
                    effect=None,
                    split="generated_entity_tracking",
                    released_group=number,
                    released_is_original=True,
                    turns_ago=_turns_ago(question.thing, resolved[:said]),
                )
                row += 1


def _both_answers(exchanges: Sequence[Exchange], rng: StableRandom) -> dict[Answer, Question]:
    """Two questions about the same things, of which one has the answer yes; or none."""
    state, known = interpret(exchanges), mentioned(exchanges)
    forms: list[tuple[Kind, Form]] = [(kind, form) for kind in _KINDS for form in FORMS[kind]]
    things = rng.shuffled(known.things)
    for kind, form in rng.shuffled(forms):
        for thing in things:
            asked = by_answer(askable(form, kind, known._replace(things=(thing,)), state), state)
            if asked[True] and asked[False]:
                return {"yes": rng.choice(asked[True]), "no": rng.choice(asked[False])}
    return {}


def _turns_ago(thing: str, exchanges: Sequence[Exchange]) -> int:
    """How many exchanges follow the last one that speaks of the things."""
    return next(ago for ago, exchange in enumerate(reversed(exchanges)) if thing in exchange.things)
