"""The pipeline from seed conversations to labelled documents: attempts in batches, stage by stage.

An attempt is a conversation with its variants, its question and the panel's votes on them. Each
stage sends the requests of a batch at once and then checks the replies in the order of the
attempts, so that the result does not depend on the order in which replies come in. Replies are
kept in journals: rerunning the command replays them.
"""

import asyncio
import contextlib
import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

from pragworld_tasks.authoring.agreement import Ballot, labelled_groups, rate_members, settle
from pragworld_tasks.authoring.alterations import alter_conversation, changed_lines
from pragworld_tasks.authoring.conversations import (
    MOST_SHARED,
    Grams,
    larger_shared_part,
    plan_conversation,
    shared_part,
    word_grams,
    write_conversation,
)
from pragworld_tasks.authoring.decisions import Review, current_reviews, reviewed_labels
from pragworld_tasks.authoring.entities import NO_ENTITIES, extract_entities
from pragworld_tasks.authoring.folder import JOURNAL, StageRecords
from pragworld_tasks.authoring.panel import Member, poll
from pragworld_tasks.authoring.questions import ask_question
from pragworld_tasks.authoring.records import (
    GIVEN,
    AuthoredConversation,
    AuthoredQuestion,
    AuthoredVariant,
    Dropped,
    QuestionType,
    SeedEntities,
)
from pragworld_tasks.authoring.settings import AuthoringSettings, LabellingSettings, PanelSettings
from pragworld_tasks.chat import Connection, Usage, connect
from pragworld_tasks.data.breakdowns import question_type
from pragworld_tasks.data.documents import Answer, Document

ATTEMPTS = 4  # for each group that is wanted, at most
HOPELESS = 50  # attempts without a group after which a run stops
BATCH = 50  # attempts at a time, at most

# A conversation or a variant, its question, and the label that it has already.
AskedVariant: TypeAlias = tuple[AuthoredVariant, AuthoredQuestion, Answer | None]


# Progress -----------------------------------------------------------------------------------------


@dataclass
class Progress:
    """How far a run has come, for people who watch it.

    Attributes:
        wanted: the number of groups that are to have labels, or of documents to be voted on.
        unit: what is counted.
        connections: the open connections.
        done: how many there are.
        stage: what is being done.
    """

    wanted: int
    unit: str
    connections: Sequence[Connection] = ()
    done: int = 0
    stage: str = "starting"

    @property
    def usage(self) -> Usage:
        """The requests and tokens so far."""
        usages = [connection.usage for connection in self.connections]
        return Usage(*map(sum, zip(*map(astuple, [Usage(), *usages]), strict=True)))

    @property
    def state(self) -> str:
        """The stage, the requests and the tokens."""
        usage = self.usage
        tokens = usage.prompt_tokens + usage.reply_tokens
        return f"{self.stage}, {usage.answered + usage.reused:,} requests, {tokens:,} tokens"


@contextlib.asynccontextmanager
async def _shown(progress: Progress) -> AsyncIterator[None]:
    """Show a progress bar."""
    from tqdm import tqdm

    # A terminal may have no size, and tqdm then shows nothing; here it counts as usual.
    columns, rows = shutil.get_terminal_size()
    with tqdm(
        total=progress.wanted,
        unit=progress.unit,
        ncols=columns,
        nrows=rows,
        bar_format="{n_fmt}/{total_fmt} {unit}s |{bar}| {elapsed}{postfix}",
    ) as bar:

        def refresh() -> None:
            bar.n = progress.done
            bar.set_postfix_str(progress.state)

        async def keep_fresh() -> None:
            while True:
                refresh()
                await asyncio.sleep(1)

        task = asyncio.create_task(keep_fresh())
        try:
            yield
        finally:
            task.cancel()
            refresh()


@contextlib.asynccontextmanager
async def _connected(
    panel: PanelSettings, folder: Path, identity: Mapping[str, Any]
) -> AsyncIterator[tuple[Connection, ...]]:
    """Open a connection to each endpoint, each with a journal of its own."""
    async with contextlib.AsyncExitStack() as stack:
        connections = []
        for number, endpoint in enumerate(panel.endpoints, start=1):
            journal = folder / (JOURNAL if number == 1 else f"replies-{number}.jsonl")
            connections.append(
                await stack.enter_async_context(connect(endpoint, journal, identity))
            )
        yield tuple(connections)


# Writing ------------------------------------------------------------------------------------------


@dataclass
class _Attempts:
    """What the attempts so far have led to, in their order.

    Attributes:
        tried: the number of attempts.
        seeds: the number of seeds whose entities were asked for.
    """

    tried: int = 0
    seeds: int = 0
    entities: list[SeedEntities] = field(default_factory=list)
    conversations: list[AuthoredConversation] = field(default_factory=list)
    variants: list[AuthoredVariant] = field(default_factory=list)
    questions: list[AuthoredQuestion] = field(default_factory=list)
    ballots: list[Ballot] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    grams: list[Grams] = field(default_factory=list)

    def to_records(self, agree: int | None) -> StageRecords:
        """Return the records, with the labels that the votes settle."""
        ratings = rate_members([ballot.votes for ballot in self.ballots])
        return StageRecords(
            entities=tuple(self.entities),
            conversations=tuple(self.conversations),
            variants=tuple(self.variants),
            questions=tuple(self.questions),
            labels=tuple(settle(self.ballots, ratings, agree)),
            dropped=tuple(self.dropped),
        )


async def author_groups(
    settings: AuthoringSettings, folder: Path, reviews: Sequence[Review], progress: Progress
) -> StageRecords:
    """Write conversations, alter them, ask about them and label them, until there are enough.

    Attempts take the seeds in turn, and no more seeds are read than they need. A run stops early
    after `HOPELESS` attempts without a group, and after `ATTEMPTS` attempts for each group, but not
    before those that somebody has reviewed.

    Args:
        settings: the settings.
        folder: the folder for the journals.
        reviews: what reviewers have decided about documents of an earlier run of these settings. A
            group counts if it is complete by their labels.
        progress: is kept up to date.

    Returns:
        The records, with the panel's labels.

    Raises:
        InputError: An endpoint or a journal cannot be used.
    """
    panel = settings.panel
    identity = settings.identity
    async with _shown(progress), _connected(panel, folder, identity) as connections:
        progress.connections = connections
        attempts = _Attempts()
        records = attempts.to_records(panel.agree)
        reviewed = max((review.panel.conversation + 1 for review in reviews), default=0)
        while size := next_batch(settings.groups, attempts.tried, progress.done, reviewed):
            progress.stage = "entities"
            await _extract_entities(settings, connections[0], attempts, attempts.tried + size)
            if not attempts.entities:
                return attempts.to_records(panel.agree)
            await _try_batch(settings, connections, attempts, size, progress)
            records = attempts.to_records(panel.agree)
            labels = reviewed_labels(records.labels, current_reviews(records, reviews))
            progress.done = len(labelled_groups(labels))
    return records


def next_batch(wanted: int, tried: int, done: int, reviewed: int = 0) -> int:
    """Return the number of attempts to make next; 0 at the end.

    Args:
        wanted: the number of groups that are wanted.
        tried: the number of attempts so far.
        done: the number of complete groups so far.
        reviewed: the number of attempts up to the last one that somebody has reviewed; they are
            made again in any case.

    Examples:
        >>> next_batch(10, 0, 0), next_batch(10, 10, 7), next_batch(10, 38, 7)
        (10, 3, 2)
        >>> next_batch(10, 40, 7), next_batch(10, 13, 10)
        (0, 0)
        >>> next_batch(200, 0, 0), next_batch(200, 50, 0)
        (50, 0)
        >>> next_batch(10, 10, 10, reviewed=13)
        3
    """
    is_hopeless = not done and tried >= HOPELESS
    new = 0 if is_hopeless else min(wanted - done, ATTEMPTS * wanted - tried)
    return max(0, min(BATCH, max(new, reviewed - tried)))


async def _extract_entities(
    settings: AuthoringSettings, connection: Connection, attempts: _Attempts, needed: int
) -> None:
    """Extract entities (stage 1) until as many seeds as needed have enough, or no seed is left."""
    panel = settings.panel
    while numbers := range(len(settings.seeds))[attempts.seeds :][
        : needed - len(attempts.entities)
    ]:
        results = await asyncio.gather(
            *(
                extract_entities(
                    connection, panel.prompts, number, settings.seeds[number], panel.temperature
                )
                for number in numbers
            )
        )
        attempts.seeds += len(numbers)
        attempts.entities += [record for record, _ in results if record]
        attempts.dropped += [record for _, dropped in results for record in dropped]


async def _try_batch(
    settings: AuthoringSettings,
    connections: Sequence[Connection],
    attempts: _Attempts,
    size: int,
    progress: Progress,
) -> None:
    """Make the next attempts, through stages 2 to 5."""
    numbers = range(attempts.tried, attempts.tried + size)
    span = f"{numbers[0]} to {numbers[-1]}"
    progress.stage = f"conversations {span}"
    conversations = await _write_all(settings, connections[0], attempts, numbers)
    progress.stage = f"variants of {span}"
    asked = await _ask_all(settings, connections[0], attempts, conversations)
    progress.stage = f"votes on {span}"
    members = _members(settings.panel, connections)
    attempts.ballots += await asyncio.gather(
        *(_ballot(settings.panel, members, document) for document in asked)
    )
    attempts.tried += size


async def _write_all(
    settings: AuthoringSettings,
    connection: Connection,
    attempts: _Attempts,
    numbers: Sequence[int],
) -> list[AuthoredConversation]:
    """Write conversations (stage 2), and leave out those that are too like others."""
    plans = []
    for number in numbers:
        of_seed = attempts.entities[number % len(attempts.entities)]
        seed = settings.seeds[of_seed.seed]
        plans.append(plan_conversation(number, seed, of_seed, settings.turns, settings.random_seed))
    panel = settings.panel
    results = await asyncio.gather(
        *(write_conversation(connection, panel.prompts, plan, panel.temperature) for plan in plans)
    )
    written = []
    for plan, (conversation, dropped) in zip(plans, results, strict=True):
        attempts.dropped += dropped
        if conversation is None:
            continue
        grams = word_grams(conversation.context)
        if reason := _likeness(grams, word_grams(plan.seed.conversation), attempts.grams):
            attempts.dropped.append(
                Dropped(
                    stage="conversations",
                    number=conversation.number,
                    reason=reason,
                    text=conversation.context,
                    origin=conversation.origin,
                )
            )
        else:
            attempts.grams.append(grams)
            written.append(conversation)
    attempts.conversations += written
    return written


def _likeness(grams: Grams, seed: Grams, earlier: Iterable[Grams]) -> str:
    """Return what a conversation is too like; "" if nothing."""
    if shared_part(grams, seed) >= MOST_SHARED:
        return "it is too like its seed"
    if any(larger_shared_part(grams, other) >= MOST_SHARED for other in earlier):
        return "it is too like an earlier conversation"
    return ""


async def _ask_all(
    settings: AuthoringSettings,
    connection: Connection,
    attempts: _Attempts,
    conversations: Sequence[AuthoredConversation],
) -> list[AskedVariant]:
    """Alter conversations and ask about them (stages 3 and 4); return what is to be labelled.

    A conversation without a question, or without a variant, goes no further.
    """
    panel = settings.panel
    altering = (
        alter_conversation(
            connection,
            panel.prompts,
            conversation,
            settings.variants,
            settings.random_seed,
            panel.temperature,
        )
        for conversation in conversations
    )
    asking = (
        ask_question(
            connection,
            panel.prompts,
            settings.seeds[conversation.seed or 0].kind,
            conversation,
            settings.random_seed,
            panel.temperature,
        )
        for conversation in conversations
    )
    altered, questions = await asyncio.gather(asyncio.gather(*altering), asyncio.gather(*asking))
    asked: list[AskedVariant] = []
    for (variants, refused), (question, unasked) in zip(altered, questions, strict=True):
        attempts.dropped += [*refused, *unasked]
        attempts.variants += variants
        if question is None:
            continue
        attempts.questions.append(question)
        if len(variants) > 1:
            asked += [(variant, question, None) for variant in variants]
    return asked


def _members(panel: PanelSettings, connections: Sequence[Connection]) -> tuple[Member, ...]:
    return tuple(
        Member(connections[seat.endpoint], seat.model, seat.sample) for seat in panel.seats
    )


async def _ballot(panel: PanelSettings, members: Sequence[Member], asked: AskedVariant) -> Ballot:
    """Return the votes of the panel's members on a document (stage 5)."""
    variant, question, given = asked
    votes = await poll(members, panel.prompts, variant, question, panel.temperature)
    return Ballot(variant.conversation, variant.variant, votes, given)


# Existing documents -------------------------------------------------------------------------------


async def label_documents(
    settings: LabellingSettings, folder: Path, progress: Progress
) -> StageRecords:
    """Label conversations and questions that exist (stage 5 alone).

    Args:
        settings: the settings.
        folder: the folder for the journals.
        progress: is kept up to date.

    Raises:
        InputError: An endpoint or a journal cannot be used.
    """
    panel = settings.panel
    conversations, variants, questions, asked = given_records(settings.documents)
    async with (
        _shown(progress),
        _connected(panel, folder, settings.identity) as connections,
    ):
        progress.connections = connections
        progress.stage = "votes"
        members = _members(panel, connections)

        async def count_ballot(document: AskedVariant) -> Ballot:
            ballot = await _ballot(panel, members, document)
            progress.done += 1
            return ballot

        ballots = await asyncio.gather(*map(count_ballot, asked))
    labels = settle(ballots, rate_members([ballot.votes for ballot in ballots]), panel.agree)
    return StageRecords((), conversations, variants, questions, tuple(labels), ())


def given_records(
    documents: Sequence[Document],
) -> tuple[
    tuple[AuthoredConversation, ...],
    tuple[AuthoredVariant, ...],
    tuple[AuthoredQuestion, ...],
    list[AskedVariant],
]:
    """Return the records of documents that exist: what stages 2 to 4 lead to otherwise.

    Args:
        documents: the documents.

    Returns:
        The conversations, the variants, the questions, and what is to be labelled.
    """
    groups: dict[int, list[Document]] = defaultdict(list)
    for document in documents:
        groups[document.group].append(document)
    conversations, variants, questions = [], [], []
    asked: list[AskedVariant] = []
    for group, members in groups.items():
        # The original first, as the variant 0; `sorted` keeps the order of the others.
        for number, document in enumerate(sorted(members, key=lambda each: not each.is_original)):
            if number == 0:
                conversations.append(
                    AuthoredConversation(
                        number=group,
                        seed=None,
                        triplets=(),
                        entities=NO_ENTITIES,
                        context=document.context,
                        origin=GIVEN,
                    )
                )
            original = conversations[-1].context
            variant = AuthoredVariant(
                conversation=group,
                variant=number,
                alteration=document.alteration,
                context=document.context,
                changes=changed_lines(original, document.context),
                origin=GIVEN,
                row=document.row,
            )
            question = AuthoredQuestion(
                conversation=group,
                variant=number,
                type=cast(QuestionType, question_type(document)),
                text=document.question,
                origin=GIVEN,
            )
            variants.append(variant)
            questions.append(question)
            asked.append((variant, question, document.answer))
    return tuple(conversations), tuple(variants), tuple(questions), asked
