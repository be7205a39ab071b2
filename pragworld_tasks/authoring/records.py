"""Records, prompts and settings that the stages of authoring share, and how they ask models.

The paper's pipeline (arXiv 2511.13021, appendix A) goes from seed conversations to entities,
conversations, altered variants, questions and labels.
"""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pragworld_tasks.chat import Connection, Endpoint, Request, UnansweredError
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.errors import InputError, first_problem
from pragworld_tasks.files import read_package_toml, read_text, write_whole
from pragworld_tasks.text import format_count
from pragworld_tasks.text_alterations.entities import Entities

Kind = Literal["general", "location", "seller_buyer", "doctor_patient"]
VoteAnswer = Literal["yes", "no", "undetermined"]
Objection: TypeAlias = tuple[str, str]  # the rule that is broken, and the text that breaks it

NO_REPLY = "there is no reply"
_LIMIT = 5000  # characters of a text that is dropped

_Form = TypeVar("_Form", bound=BaseModel)
_Record = TypeVar("_Record", bound="AuthoringRecord")


class AuthoringRecord(BaseModel):
    """A line of a file, or a model's reply: with these fields and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def read_records(path: Path, form: type[_Record]) -> list[_Record]:
    """Read what `write_records` wrote, which may be nothing."""
    return [form.model_validate_json(line) for line in read_text(path).split("\n") if line]


def write_records(path: Path, records: Iterable[AuthoringRecord]) -> None:
    """Write records as JSON lines."""
    write_whole(path, "".join(record.model_dump_json() + "\n" for record in records).encode())


class Seed(AuthoringRecord):
    """A line of the file of `--seeds`; `kind` names the paper's prompts (Tables 11 to 13)."""

    conversation: str = Field(pattern=r"\S")
    kind: Kind = "general"


class EntityLists(AuthoringRecord):
    """The entities of a conversation, without its speakers.

    Attributes:
        agents: People.
        objects: Things; items for sale, or medical entities.
        locations: Places; properties of items.
    """

    agents: tuple[str, ...]
    objects: tuple[str, ...]
    locations: tuple[str, ...]


@dataclass(frozen=True)
class AuthoredConversation:
    """What an attempt has written: a conversation, and the entities that occur in it.

    Those of its two triplets are in focus.
    """

    number: int
    entities: Entities
    context: str


class Vote(AuthoringRecord):
    """What a member of the panel answers and quotes; None for an abstention, with the problem."""

    model: str
    answer: VoteAnswer | None
    quote: str = ""
    problem: str = ""


class VotedDocument(AuthoringRecord):
    """A line of `votes.jsonl`: a document and the panel's votes on it.

    Attributes:
        conversation: The number of the attempt, or of the group of a given document.
        variant: 0 for the original, then the number of the alteration.
        row: The place, from 0, of a document that the user provided in its file.
        given: The label of a document that the user provided.
    """

    conversation: int
    variant: int
    alteration: str | None
    context: str
    question: str
    row: int | None = None
    given: str | None = None
    votes: tuple[Vote, ...] = ()

    @property
    def digest(self) -> str:
        """What tells the document from others: the SHA-256 digest of what a reviewer reads."""
        return hashlib.sha256(json.dumps([self.context, self.question]).encode()).hexdigest()

    @property
    def place(self) -> str:
        """Which document it is, in words."""
        text = f"conversation {self.conversation}, variant {self.variant}"
        return text if self.row is None else f"{text} (row {self.row})"


class Dropped(AuthoringRecord):
    """A line of `dropped.jsonl`: what did not pass a check, or the part that breaks the rule."""

    stage: str  # what was asked for: entities, a conversation, an alteration or a question
    number: int  # the seed's line, for entities, else the number of the attempt
    reason: str  # the rule that it breaks, the same words for each that breaks it
    text: str


# Prompts ------------------------------------------------------------------------------------------


class Prompt(AuthoringRecord):
    """A system message and a user's message, with slots as `str.format` has them."""

    system: str = Field(pattern=r"\S")
    user: str = Field(pattern=r"\S")

    @property
    def slots(self) -> set[str]:
        """The names of the slots."""
        return {name for _, name, *_ in Formatter().parse(self.system + self.user) if name}


def read_prompts(path: Path | None = None) -> dict[str, Prompt]:
    """Return the prompts of `prompts.toml`, with those of a user's file in place of ours."""
    prompts = {
        name: Prompt(**messages)
        for name, messages in read_package_toml(__package__, "prompts.toml").items()
    }
    text = read_text(path) if path else ""
    try:
        for name, messages in tomllib.loads(text).items():
            if name not in prompts:
                raise ValueError(f"no prompt {name!r}; choose one of {', '.join(prompts)}")
            slots = prompts[name].slots
            prompts[name] = Prompt(**{**prompts[name].model_dump(), **messages})
            if differing := prompts[name].slots ^ slots:
                raise ValueError(
                    f"prompt {name!r}: the slot {{{min(differing)}}} is missing or unknown; use "
                    f"{', '.join(sorted(slots))}, and write {{{{ for another brace"
                )
    except (TypeError, ValueError) as error:  # of TOML, a prompt's fields, or a format
        problem = first_problem(error) if isinstance(error, ValidationError) else error
        raise InputError(f"{path}: {problem}; correct that") from error
    return prompts


@dataclass(frozen=True)
class AuthoringSettings:
    """How documents are written, and by which models they are labelled: the panel."""

    endpoint: Endpoint
    panel: tuple[str, ...]
    prompts: Mapping[str, Prompt]
    temperature: float = 1.0
    groups: int = 20
    turns: int = 16
    variants: int = 5
    random_seed: int = 0

    def identity(self, **texts: str) -> dict[str, Any]:
        """Return what a run's requests depend on, as JSON values; `groups` may grow."""
        prompts = {name: short_digest(prompt.model_dump()) for name, prompt in self.prompts.items()}
        return {
            **texts,
            "model": self.endpoint.model,
            "panel": list(self.panel),
            "temperature": self.temperature,
            "turns": self.turns,
            "variants": self.variants,
            "seed": self.random_seed,
            "prompts": prompts,
        }


def short_digest(content: Any) -> str:
    """Return the beginning of the SHA-256 digest of JSON values."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:8]


def unanswered(error: UnansweredError) -> Objection:
    """Return what speaks against a reply that cannot be used, or that there is none."""
    text = f"{error}: {error.reply!r:.500}" if error.reply else str(error)
    return "the reply is unusable" if error.reply else NO_REPLY, text


def find_failures(
    documents: Iterable[VotedDocument], dropped: Iterable[Dropped]
) -> tuple[str, bool]:
    """Return what failed most often, and whether that is for want of replies; "" if little did."""
    votes = [vote.problem for document in documents for vote in document.votes]
    problems = [*votes, *(f"{record.reason} ({record.text})" for record in dropped)]
    silent = [problem for problem in problems if problem.startswith(NO_REPLY)]
    failed = silent or [problem.partition(" (")[0] for problem in votes if problem]
    if not silent and 2 * len(failed) <= len(votes):
        return "", False
    ((commonest, _),) = Counter(failed).most_common(1)
    if silent:
        text = f"{format_count(len(failed), 'request')} failed, most often because {commonest}"
        return f"{text}; check the server, then rerun `author`", True
    return f"{len(failed):,} of {len(votes):,} votes failed, as {commonest}", False


@dataclass(frozen=True)
class Asker:
    """What all stages ask models with, the settings of the run, and what they have dropped."""

    connection: Connection
    settings: AuthoringSettings
    dropped: list[Dropped] = field(default_factory=list)

    def random(self, drawn: str) -> StableRandom:
        """Return a source of random numbers for what is drawn, which the run's seed determines."""
        return StableRandom(f"{self.settings.random_seed} {drawn}")

    async def ask(
        self,
        prompt: str,
        form: type[_Form],
        number: int,
        *,
        model: str = "",
        draw: int = 0,
        **values: Any,
    ) -> _Form:
        """Return a model's reply to a prompt: by default the model of the endpoint.

        The number, of a seed or a conversation, is for people who read the journal. `draw` tells
        apart equal requests that are to be answered separately. `values` fill the prompt's slots.

        Raises:
            UnansweredError: There is no reply, or it does not fit.
        """
        settings, messages = self.settings, self.settings.prompts[prompt]
        system, user = (text.format_map(values) for text in (messages.system, messages.user))
        model = model or settings.endpoint.model
        request = Request(f"{prompt} {number}", model, system, user, settings.temperature, draw)
        return await self.connection.ask_structured(request, form)

    async def ask_or_drop(
        self, prompt: str, form: type[_Form], number: int, draw: int = 0, **values: Any
    ) -> _Form | None:
        """Return a reply as `ask` does; drop it and return None if there is none that fits."""
        try:
            return await self.ask(prompt, form, number, draw=draw, **values)
        except UnansweredError as error:
            self.drop(prompt, number, unanswered(error))
            return None

    def drop(self, prompt: str, number: int, objection: Objection) -> None:
        """Record what speaks against a reply to a prompt."""
        stage, (reason, text) = prompt.partition("_")[0], objection
        self.dropped.append(Dropped(stage=stage, number=number, reason=reason, text=text[:_LIMIT]))
