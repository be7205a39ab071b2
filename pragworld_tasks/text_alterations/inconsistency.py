"""Inconsistent data, which the PragWorld paper's authors made by hand (section 4)."""

import random
from collections.abc import Sequence

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import ENGLISH, word_list
from pragworld_tasks.text_alterations.noun_phrases import PLURAL_VERBS, SINGULAR_VERBS, is_number
from pragworld_tasks.text_alterations.nouns import noun_classes
from pragworld_tasks.text_alterations.tokens import (
    AlteredConversation,
    EntityMention,
    Sentence,
    TextReplacement,
)
from pragworld_tasks.text_alterations.turns import TurnSentence, turn_sentences

_NAME = "Injecting Inconsistent Data"
# Words with which a sentence says whether something is there, or whether somebody has it.
_BEING = {*word_list("be"), "there's", "have", "has", "had", "haven't", "hasn't", "hadn't", "got"}
_INTANGIBLE = {"performances", "films", "meals", "ailments", "parties", "dishes"}
_AFTER_OBJECTS = {*word_list("after_objects"), *PLURAL_VERBS, *SINGULAR_VERBS}


def inconsistent_data(conversation: Conversation, rng: random.Random) -> AlteredConversation | None:
    """Add what defies common sense to a statement; None if there is none to add to.

    After an object, "the grapes" become "the grapes, which hum whenever someone laughs,". An
    example of the paper (section 4) is "a birthday cake that changes color every time someone
    claps". Half of the clauses describe the object, and half take it away, move it or turn it into
    something else, which can change answers. Where no clause fits, a sentence about an object, a
    place or a person follows a statement, or if there is none, a remark about something else.
    """
    spots = list(turn_sentences(conversation.sentences))
    denied = _denied(spots)
    places = [
        (spot.sentence, mention, end)
        for spot in spots
        if not spot.sentence.is_question
        for place, mention in spot.sentence.mention_places
        if mention.entity not in denied
        if (end := _clause_end(spot.sentence, place, mention)) is not None
    ]
    if not places:
        return _with_sentence(conversation, rng, spots, denied)
    sentence, mention, end = rng.choice(places)
    words, changes = {*sentence.lower}, rng.random() < 0.5
    clauses = [*ENGLISH["changes" if changes else "absurdities"]]
    if changes and words & {*word_list("past")} and not words & {*word_list("not_told_as_past")}:
        clauses += ENGLISH["past_changes"]
    clause = rng.choice(clauses)[mention.is_plural]
    # "A cake that hums" need not be a particular one.
    link = " that" if mention.indefinite and not end else ", which"
    new = f"{mention.text}{link} {clause}{end}"
    if mention.text.isupper() and mention.text != mention.entity:
        new = new.upper()
    replacement = TextReplacement(mention.utterance, mention.start, mention.text, new)
    return conversation.replace(_NAME, [replacement], True if changes else None)


def _denied(spots: Sequence[TurnSentence]) -> set[str]:
    """Return the entities that are said not to be somewhere, or not to exist, and never to be."""
    denied, affirmed = set[str](), set[str]()
    for spot in spots:
        sentence = spot.sentence
        entities = {mention.entity for mention in sentence.mentions}
        is_denied = sentence.is_negative
        if sentence.is_question:
            is_denied = spot.next is not None and _denies(spot.next)
        elif not is_denied:
            affirmed |= entities
        if is_denied and not _BEING.isdisjoint(sentence.lower):
            denied |= entities
    return denied - affirmed


def _denies(reply: Sentence) -> bool:
    """Return whether a reply denies what was asked, and does not tell where else something is."""
    words = {*reply.lower}
    if not words.isdisjoint(word_list("opinions")):
        return False  # "I don't know"
    goes_on = not words.isdisjoint((*word_list("single"), *word_list("together")))
    return reply.is_negative or (reply.at(0) in word_list("no") and not goes_on)


def _clause_end(sentence: Sentence, first: int, mention: EntityMention) -> str | None:
    """Return what ends a clause after a mention, "," or ""; None if a clause cannot follow it."""
    is_tangible = bool(noun_classes("objects", mention.entity) - _INTANGIBLE)
    if mention.kind != "objects" or mention.ending or not is_tangible:
        return None
    if sentence.is_negative:
        return None  # "I don't have a car"
    last = sentence.mention_end(first)
    ahead = [sentence.before(first), sentence.before(first - 1) if sentence.joined(first) else ""]
    if {*ahead} & {*word_list("indefinite")} or (ahead[0] == "of" and not mention.is_plural):
        return None
    is_one = {"a", "an", "one", *word_list("determiners")} & {*ahead} or is_number(ahead[0])
    if not (mention.is_plural or is_one):
        return None  # half of a compound ("apple juice"), or a mass
    if sentence.joined(last + 1):
        after = sentence.at(last + 1)
        has_verb = {*word_list("past"), *word_list("be"), "there's"} & {*sentence.all_before(first)}
        if after in ("to", "from") or (after in word_list("prepositions") and not has_verb):
            return None  # "the train to London", "the computer in the library was broken"
        return "," if after in _AFTER_OBJECTS else None
    end = sentence.words[last].end
    return "" if sentence.line[end : end + 1] in ("", ",", ".", "!", ";", " ", "\r") else None


def _with_sentence(
    conversation: Conversation, rng: random.Random, spots: Sequence[TurnSentence], denied: set[str]
) -> AlteredConversation | None:
    """Add a sentence after a statement that ends a turn."""
    ends = [spot for spot in spots if _can_be_followed(spot)]
    ends = [spot for spot in ends if not spot.is_taken_up] or ends
    if not ends:
        return None
    topics = [
        (rank, spot.sentence, mention)
        for spot in ends
        for rank, mention in _topics(conversation, spot.sentence)
        if mention.entity not in denied
    ]
    changes = False
    if topics:
        best = min(rank for rank, _, _ in topics)
        _, end, mention = rng.choice([topic for topic in topics if topic[0] == best])
        changes = mention.kind == "objects" and rng.random() < 0.5
        predicate = rng.choice(ENGLISH["changes" if changes else "absurdities"])[mention.is_plural]
        line = conversation.turns[mention.utterance]
        is_bare = mention.entity[0].isupper() and not line[: mention.start].endswith("the ")
        remark = f"{'' if is_bare else 'The '}{mention.form_of(mention.entity)} {predicate}"
    else:
        end = rng.choice(ends).sentence
        remark = rng.choice(ENGLISH["remarks"])
    last = end.words[-1]
    mark = end.line[last.end :].rstrip()
    new = f"{mark} {remark}." if mark else f", and {remark[0].lower()}{remark[1:]}"
    replacement = TextReplacement(end.utterance, last.start, last.text + mark, last.text + new)
    return conversation.replace(_NAME, [replacement], True if changes else None)


def _topics(conversation: Conversation, end: Sentence) -> list[tuple[int, EntityMention]]:
    """Return what may be spoken of after a sentence, with ranks: 0 is best."""
    topics: list[tuple[int, EntityMention]] = []
    for sentence in conversation.sentences:
        lines = end.utterance - sentence.utterance
        if lines < 0 or sentence.is_negative:
            continue
        distance = 0 if sentence is end else 1 if lines <= 4 else 10
        for place, mention in sentence.mention_places:
            is_name = mention.entity[0].isupper()
            fits = {
                "objects": not is_name,
                "locations": is_name or sentence.before(place) == "the",
                "agents": is_name and sentence.joined(place + 1),  # "Mary left", not "Hello, Mary!"
            }
            if fits[mention.kind] and not mention.ending:
                topics.append((distance + 2 * [*fits].index(mention.kind), mention))
    return topics


def _can_be_followed(spot: TurnSentence) -> bool:
    """Return whether a remark can follow a sentence: the last statement of a turn."""
    sentence = spot.sentence
    if spot.later or sentence.is_question or len(sentence.words) < 4:
        return False
    is_formula = bool(spot.turn_words & {*word_list("formulas")})
    return not is_formula and sentence.line[sentence.words[-1].end :].strip() in ("", ".", "!")
