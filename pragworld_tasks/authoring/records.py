"""The records of an authoring run: one kind for each file of its folder, and their schemas.

The paper's pipeline (arXiv 2511.13021, appendix A) goes from seed conversations to entities,
conversations, altered variants, questions and labels. Each stage writes its records to a file of
JSON lines, and each value that a model wrote says which request it comes from.
"""

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from pragworld_tasks.data.documents import Answer, Basis

Kind = Literal["general", "location", "seller_buyer", "doctor_patient"]
QuestionType = Literal[
    "location",
    "possession",
    "quantity",
    "universal",
    "existential",
    "only-entity",
    "sure",
    "know",
    "other",
]
Stage = Literal["entities", "conversations", "alterations", "questions", "labels"]
VoteAnswer = Literal["yes", "no", "undetermined"]
Place: TypeAlias = tuple[int, int]  # the number of a conversation, and that of its variant
Objection: TypeAlias = tuple[str, str]  # the rule that is broken, and the text that breaks it


class AuthoringRecord(BaseModel):
    """A line of a file: frozen, with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PlacedRecord(AuthoringRecord):
    """A line about a conversation or one of its variants.

    Attributes:
        conversation: the number of the conversation.
        variant: 0 for the original, then the number of the alteration.
    """

    conversation: int
    variant: int

    @property
    def place(self) -> Place:
        """Which document it is about."""
        return self.conversation, self.variant


class Origin(AuthoringRecord):
    """Where a value comes from.

    Attributes:
        model: the model's name at its endpoint; `rules` for our own algorithms, `given` for what
            the user provided.
        prompt: name and digest of the prompt, such as `conversation.general@1f2e3d4c`; None unless
            a model wrote the value.
        request: the key of the request in the journal of replies; None unless a model wrote it.
    """

    model: str
    prompt: str | None = None
    request: str | None = None


GIVEN, RULES = Origin(model="given"), Origin(model="rules")


class Seed(AuthoringRecord):
    """A line of the file of `--seeds`.

    Attributes:
        conversation: a conversation, one utterance per line, each with its speaker's label.
        kind: which of the paper's prompts suits it (Tables 11 to 13).
    """

    conversation: str = Field(pattern=r"\S")
    kind: Kind = "general"


class EntityLists(AuthoringRecord):
    """The entities of a conversation, without its speakers.

    Attributes:
        agents: people.
        objects: things; items for sale, or medical entities.
        locations: places; properties of items.
    """

    agents: tuple[str, ...]
    objects: tuple[str, ...]
    locations: tuple[str, ...]


class SeedEntities(AuthoringRecord):
    """The entities of a seed conversation (stage 1).

    Attributes:
        seed: the seed's line, from 0.
        entities: the entities that occur in it.
        new: fitting entities that do not, where it has too few.
        origins: where they come from, a request each.
    """

    seed: int
    entities: EntityLists
    new: EntityLists
    origins: tuple[Origin, ...]


class Triplet(AuthoringRecord):
    """An agent, an object and a location that a conversation is built around."""

    agent: str
    object: str
    location: str


class Turn(AuthoringRecord):
    """An utterance and who says it."""

    speaker: str
    text: str


class AuthoredConversation(AuthoringRecord):
    """A conversation around two triplets (stage 2).

    Attributes:
        number: the number of the attempt, from 0, by which the records of a group belong together.
        seed: the seed's line, from 0; None for a conversation that the user provided.
        triplets: what it is built around; empty for a conversation that the user provided.
        entities: the entities that occur in it, those of the triplets first.
        context: its text, one utterance per line.
        origin: where it comes from.
    """

    number: int
    seed: int | None
    triplets: tuple[Triplet, ...]
    entities: EntityLists
    context: str
    origin: Origin


class LineChange(AuthoringRecord):
    """A line of a conversation that an alteration changed, from 0, before and after."""

    line: int
    old: str
    new: str


class AuthoredVariant(PlacedRecord):
    """A conversation or one of its alterations (stage 3).

    Attributes:
        conversation: the number of its conversation.
        variant: 0 for the original, then the number of the alteration.
        alteration: one of `ALTERATIONS`; None for the original.
        context: its text.
        changes: the lines that differ from the original's.
        origin: where the alteration comes from.
        row: the place, from 0, of a document that the user provided in its file; None for others.
    """

    alteration: str | None
    context: str
    changes: tuple[LineChange, ...]
    origin: Origin
    row: int | None = None


class AuthoredQuestion(AuthoringRecord):
    """The question of a conversation and its variants (stage 4).

    Attributes:
        conversation: the number of the conversation.
        variant: the only variant that it is asked about; None if it is asked about all. Groups
            that the user provides may have several questions, as those of the manual split do.
        type: its type, one of the paper's.
        text: the question.
        origin: where it comes from.
    """

    conversation: int
    variant: int | None = None
    type: QuestionType
    text: str
    origin: Origin


class Vote(AuthoringRecord):
    """What one member of the panel answers to one document.

    Attributes:
        member: the member's place in the panel, from 0.
        answer: the answer; None for an abstention.
        quote: the utterance that it rests on.
        problem: why the member abstains, in words; empty unless it does.
        origin: the request; without one where there was no usable reply.
    """

    member: int
    answer: VoteAnswer | None
    quote: str
    problem: str
    origin: Origin


class Label(PlacedRecord):
    """What the panel, or a reviewer, says of one document (stage 5).

    Attributes:
        conversation, variant: the document.
        votes: the votes of all members.
        answer: the label; None while it is in review, or where a reviewer rejects the document.
        basis: what the label rests on, where the members agree on that as well.
        given: the label that the document had before, where it had one.
        reason: why the document is in review, in words; empty unless it is.
        reviewers: who decided in review.
    """

    votes: tuple[Vote, ...]
    answer: Answer | None
    basis: Basis | None
    given: Answer | None = None
    reason: str = ""
    reviewers: tuple[str, ...] = ()


class Dropped(AuthoringRecord):
    """Something that did not pass a check, and why.

    Attributes:
        stage: the stage that dropped it.
        number: the seed's line in stage 1, else the number of the conversation.
        reason: the rule that it breaks, the same words for each that breaks it.
        text: what was dropped, or the part that breaks the rule.
        origin: where it comes from.
    """

    stage: Stage
    number: int
    reason: str
    text: str
    origin: Origin


RECORD_FILES: dict[str, type[AuthoringRecord]] = {
    "entities.jsonl": SeedEntities,
    "conversations.jsonl": AuthoredConversation,
    "variants.jsonl": AuthoredVariant,
    "questions.jsonl": AuthoredQuestion,
    "labels.jsonl": Label,
    "dropped.jsonl": Dropped,
}


def schemas() -> dict[str, Any]:
    """Return the JSON schema of a line of each file, by the file's name."""
    return {name: record.model_json_schema() for name, record in RECORD_FILES.items()}
