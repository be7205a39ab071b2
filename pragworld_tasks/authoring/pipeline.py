"""The pipeline from seed conversations to documents with votes: attempts in batches.

An attempt is a conversation with its variants, its question and the panel's votes on them. What an
attempt leads to depends on the attempts before it, and not on the order in which replies come in.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pragworld_tasks.authoring import writing
from pragworld_tasks.authoring.checks import MOST_SHARED, Grams, shared_part, word_grams
from pragworld_tasks.authoring.labels import label_documents, poll, settled_documents
from pragworld_tasks.authoring.records import (
    NO_REPLY,
    Asker,
    AuthoredConversation,
    AuthoringSettings,
    Dropped,
    Seed,
    VotedDocument,
    short_digest,
)
from pragworld_tasks.chat import Usage, connect
from pragworld_tasks.data.documents import Document, documents_digest
from pragworld_tasks.text_alterations.entities import Entities

ATTEMPTS = 4  # for each group that is wanted, at most
HOPELESS = 50  # attempts without a group after which a run stops
BATCH = 50  # attempts at a time, at most

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class AuthoredDocuments:
    """What a run has led to: documents with votes, what did not pass a check, and what it took."""

    documents: list[VotedDocument]
    dropped: list[Dropped]
    usage: Usage = field(default_factory=Usage)


async def _gather(stage: str, work: Iterable[Awaitable[_Result]]) -> list[_Result]:
    """Start coroutines in their order, return their results in it, and show how many are done."""
    from tqdm import tqdm

    # tqdm's own `gather` starts them in the order of a set, which differs between machines.
    tasks = [asyncio.ensure_future(awaitable) for awaitable in work]
    with tqdm(total=len(tasks), desc=stage, leave=False) as progress:
        for task in tasks:
            task.add_done_callback(lambda _: progress.update())
        return await asyncio.gather(*tasks)


async def author_documents(
    settings: AuthoringSettings, seeds: Sequence[Seed], journal: Path
) -> AuthoredDocuments:
    """Write conversations, alter them, ask about them and poll the panel, until there are enough.

    Attempts take the seeds in turn, until `next_batch` is 0. What reviewers decide changes none.
    """
    identity = settings.identity(seeds=short_digest([seed.model_dump() for seed in seeds]))
    async with connect(settings.endpoint, journal, identity) as connection:
        asker = Asker(connection, settings)
        attempts, tried, done = _Attempts(asker, seeds), 0, 0
        while size := next_batch(settings.groups, tried, done):
            await attempts.make(range(tried, tried + size))
            tried, done = tried + size, count_groups(attempts.documents)
        # Sorted, for replies come in any order.
        dropped = sorted(asker.dropped, key=lambda record: (record.stage, record.number))
        return AuthoredDocuments(attempts.documents, dropped, connection.usage)


def next_batch(wanted: int, tried: int, done: int) -> int:
    """Return the number of attempts to make next; 0 at the end.

    Examples:
        >>> next_batch(10, 0, 0), next_batch(10, 10, 7), next_batch(10, 38, 7)
        (10, 3, 2)
        >>> next_batch(10, 40, 7), next_batch(10, 13, 10), next_batch(200, 50, 0)
        (0, 0, 0)
    """
    if not done and tried >= HOPELESS:
        return 0
    return max(0, min(wanted - done, ATTEMPTS * wanted - tried, BATCH))


def count_groups(documents: Iterable[VotedDocument]) -> int:
    """Return the number of groups that come out by the labels of the panel alone."""
    settled = settled_documents(label_documents(documents, {}))
    return len({document.group for document in settled})


@dataclass
class _Attempts:
    """The attempts of a run so far, and their seeds' entities; None if there are too few."""

    asker: Asker
    seeds: Sequence[Seed]
    documents: list[VotedDocument] = field(default_factory=list)
    entities: dict[int, asyncio.Task[Entities | None]] = field(default_factory=dict)
    grams: list[Grams] = field(default_factory=list)

    async def make(self, numbers: Sequence[int]) -> None:
        """Make the attempts of these numbers."""
        span = f"{numbers[0]} to {numbers[-1]}"
        for number in numbers:
            self.entities[number] = asyncio.ensure_future(self._list_entities(number))
        written = await _gather(f"conversations {span}", map(self._write, numbers))
        # In the order of their numbers, for each is compared with those before it.
        new = [each for each in written if each and self._is_new(each)]
        for documents in await _gather(f"votes on {span}", map(self._ask_and_poll, new)):
            self.documents += documents

    async def _list_entities(self, number: int) -> Entities | None:
        """Return the entities of an attempt's seed, listed anew if earlier replies had too few."""
        draw, line = divmod(number, len(self.seeds))
        known = await self.entities[number - len(self.seeds)] if draw else None
        failed = {(each.stage, each.number, each.reason) for each in self.asker.dropped}
        if known or ("entities", line, NO_REPLY) in failed:
            return known
        return await writing.list_entities(self.asker, line, self.seeds[line], draw)

    async def _write(self, number: int) -> AuthoredConversation | None:
        seed = self.seeds[number % len(self.seeds)]
        if entities := await self.entities[number]:
            return await writing.write_conversation(self.asker, number, seed, entities)
        return None

    def _is_new(self, conversation: AuthoredConversation) -> bool:
        """Return whether a conversation is not too like others, and drop it if it is."""
        number, grams = conversation.number, word_grams(conversation.context)
        seed = word_grams(self.seeds[number % len(self.seeds)].conversation)
        if any(shared_part(grams, known) >= MOST_SHARED for known in (seed, *self.grams)):
            rule = "it is too like its seed or an earlier conversation"
            self.asker.drop("conversation", number, (rule, conversation.context))
            return False
        self.grams.append(grams)
        return True

    async def _ask_and_poll(self, conversation: AuthoredConversation) -> list[VotedDocument]:
        """Return a conversation's documents; none without a question or a variant."""
        variants = await writing.alter_conversation(self.asker, conversation)
        question = await writing.ask_question(self.asker, conversation)
        if not question or len(variants) < 2:
            return []
        documents = (variant.model_copy(update={"question": question}) for variant in variants)
        polls = (poll(self.asker, document) for document in documents)
        return await asyncio.gather(*polls)


async def poll_documents(
    settings: AuthoringSettings, documents: Sequence[Document], journal: Path
) -> AuthoredDocuments:
    """Poll the panel on documents that exist, which the members see without their labels."""
    identity = settings.identity(documents=documents_digest(documents))
    async with connect(settings.endpoint, journal, identity) as connection:
        asker = Asker(connection, settings)
        work = (poll(asker, document) for document in unvoted(documents))
        voted = await _gather("votes", work)
        return AuthoredDocuments(voted, [], connection.usage)


def unvoted(documents: Iterable[Document]) -> list[VotedDocument]:
    """Return documents that exist, each group's original first, without votes."""
    groups: dict[int, list[Document]] = defaultdict(list)
    for document in documents:
        groups[document.group].append(document)
    return [
        VotedDocument(
            conversation=group,
            variant=number,
            alteration=document.alteration,
            context=document.context,
            question=document.question,
            row=document.row,
            given=document.answer,
        )
        for group, members in groups.items()
        # `sorted` keeps the order of the variants.
        for number, document in enumerate(sorted(members, key=lambda each: not each.is_original))
    ]
