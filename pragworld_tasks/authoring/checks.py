"""What a program can check of the texts that models write.

A check returns the rule that is broken and the text that breaks it, or None.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from pragworld_tasks.authoring.records import AuthoringRecord, EntityLists, Objection, VoteAnswer
from pragworld_tasks.errors import CONTROLS
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation, Entities
from pragworld_tasks.text_alterations.inflection import number_forms, word_list
from pragworld_tasks.text_alterations.noun_phrases import PLURAL_VERBS, is_number
from pragworld_tasks.text_alterations.tokens import EntityKind, label_end

MOST_SHARED = 0.5  # of a conversation's word sequences, with its seed or another conversation
_GRAM = 4  # words
_MOST_ENTITIES = 20  # of a kind in a reply
# In characters; checks of texts that are far longer would take minutes.
_LONGEST_TURN, _LONGEST_ENTITY, _LONGEST_QUESTION, _LONGEST_EDIT = 500, 60, 200, 200
_WORD = re.compile(r"\d+(?:[.,:/]\d+)*|[^\W_]+(?:['\u2019-][^\W_]+)*")
_ARTICLE = re.compile(r"(?:an?|the|some)\s+(?=\S)", re.IGNORECASE)

_LISTS = read_package_toml(__package__, "words.toml")
NO_ENTITIES = Entities(agents=(), objects=(), locations=())
Grams: TypeAlias = frozenset[tuple[str, ...]]


def _words(text: str) -> list[str]:
    return [word.lower().replace("\u2019", "'") for word in _WORD.findall(text)]


# Likeness -----------------------------------------------------------------------------------------


def word_grams(conversation: str) -> Grams:
    """Return the sequences of four words of a conversation, without the speakers' labels."""
    words = [word for line in conversation.splitlines() for word in _words(line[label_end(line) :])]
    return frozenset(zip(*(words[start:] for start in range(_GRAM)), strict=False))


def shared_part(first: Grams, second: Grams) -> float:
    """Return the share of the word sequences of the shorter text that the longer one has too."""
    shorter = min(len(first), len(second))
    return len(first & second) / shorter if shorter else 0.0


# Entities -----------------------------------------------------------------------------------------


def speakers_of(conversation: str) -> tuple[str, ...]:
    """Return the labels of a conversation's speakers, in the order in which they first speak."""
    labels = (line[: label_end(line)].strip() for line in conversation.splitlines())
    names = (re.sub(r"^\W*(?:\d+[:.]\s+)?|:$", "", label) for label in labels)
    return tuple(dict.fromkeys(name for name in names if name))


def all_names(entities: Entities) -> tuple[str, ...]:
    """Return the entities of all kinds."""
    return entities.agents + entities.objects + entities.locations


def accept_entities(
    text: str | None, listed: EntityLists, speakers: Collection[str], known: Entities = NO_ENTITIES
) -> tuple[Entities, list[Objection]]:
    """Add entities that a model lists to known ones, if `alter` can tell them apart.

    The text, unless None, has to name them. Speakers are no entities. What cannot be added is
    returned with what speaks against it.
    """
    accepted, objections = known, []
    labels = {speaker.casefold() for speaker in speakers}
    for kind in ENTITY_KINDS:
        for entity in getattr(listed, kind)[:_MOST_ENTITIES]:
            form = _written(text or "", _ARTICLE.sub("", " ".join(entity.split()), count=1))
            if form in accepted.all(kind):
                continue
            is_short_name = len(form) <= _LONGEST_ENTITY and form.casefold() not in labels
            if is_short_name and (more := _add_entity(text, accepted, kind, form)):
                accepted = more
            else:
                rule = "an entity is a speaker, too long, listed twice, or not in the conversation"
                objections.append((rule, entity))
    return accepted, objections


def _written(text: str, entity: str) -> str:
    """Return an entity as a text writes it; in lower case rather than as a sentence begins."""
    forms = re.findall(rf"(?<!\w){re.escape(entity)}(?!\w)", text, re.IGNORECASE)
    return min(forms, key=lambda form: (form != entity, form != form.lower()), default=entity)


def _add_entity(text: str | None, known: Entities, kind: EntityKind, form: str) -> Entities | None:
    longer: Any = {kind: (*known.all(kind), form)}
    try:
        entities = replace(known, **longer)
    except ValueError:
        return None
    names = all_names(entities)
    return None if text and Conversation(text, entities).mentioned(names) != names else entities


def unknown_name(text: str, known: str) -> str:
    """Return a word with a capital letter inside a sentence that names nothing known, or ""."""
    names = {*_words(known), *_LISTS["no names"].split(), *word_list("titles")}
    capitalized = re.findall(r"(?<=[\w,] )[A-Z][a-z]\w*", text)
    return next((name for name in capitalized if not {*_words(name)} <= names), "")


# Conversations ------------------------------------------------------------------------------------

_TASK = re.compile("|".join(_LISTS["about the task"]), re.IGNORECASE)


class Turn(AuthoringRecord):
    """An utterance and who says it."""

    speaker: str
    text: str


def find_turn_problem(
    turns: Sequence[Turn], wanted: int, speakers: Sequence[str], others: Collection[str]
) -> Objection | None:
    """Return the first rule that turns break; two speakers were to alternate, and nobody else."""
    names = "|".join(map(re.escape, (*speakers, *others)))
    label = re.compile(rf"(?<!\w)(?:{names})\W{{0,3}}:", re.IGNORECASE)
    for number, turn in enumerate(turns):
        if turn.speaker.casefold() != speakers[number % 2].casefold():
            return "the two speakers do not alternate", f"{turn.speaker}: {turn.text}"
        if not turn.text or len(turn.text) > _LONGEST_TURN:
            return "a turn is empty or far too long", turn.text
        if CONTROLS.search(turn.text):
            return "a turn holds control characters", turn.text
        if label.search(turn.text):
            return "two speakers speak in one turn", turn.text
    if abs(len(turns) - wanted) > wanted / 3:
        return "its length is not within a third of --turns", f"{len(turns)} turns"
    return None


def find_conversation_problem(
    context: str, mentioned: Entities, needed: Sequence[str], allowed: Collection[str]
) -> Objection | None:
    """Return the first rule that a conversation breaks; None if none.

    It was to mention the needed entities, and no names but those allowed. `mentioned` are the
    entities that occur in it.
    """
    named = {name.casefold() for name in all_names(mentioned)}
    if missing := [name for name in needed if name.casefold() not in named]:
        return "an entity of its triplets does not occur", missing[0]
    if said := said_of_task(context):
        return "it speaks of answers or of the task", said
    if name := unknown_name(context, " ".join(allowed)):
        return "it names somebody or something that it was not given", name
    return None


def said_of_task(text: str) -> str:
    """Return what a text says of answers or of the task, or tells its reader to answer, or ""."""
    said = _TASK.search(text)
    return " ".join(said[0].split()) if said else ""


# Alterations --------------------------------------------------------------------------------------

_NEGATIONS = {*word_list("negative_words"), "no-one", "nor"}
_QUANTIFIERS = frozenset(_LISTS["quantifiers"].split())
_KINDS_OF_WORDS: dict[str, Callable[[str], bool]] = {
    "Negation": lambda word: word in _NEGATIONS,
    "Quantity Change": lambda word: is_number(word) or word in ("once", "twice", "thrice"),
    "Quantifier Change": lambda word: word in _QUANTIFIERS,
    "Logical Connective Change": lambda word: word in ("and", "or"),
}
EXCHANGED = {"Variable Substitution": 1, "Variable Swap": 2}  # how many entities are replaced
_REPLIES = {"yes", "yeah", "yep", "no", "nope"}  # they open a line, and change with a negation


class LineEdit(AuthoringRecord):
    """A line that a model changes, by its number from 1, with its speaker's label."""

    line: int
    old: str
    new: str


def may_be_altered(context: str, entities: Entities, alteration: str) -> bool:
    """Return whether a conversation has what a model can change; inconsistent data is by rules."""
    if alteration in EXCHANGED:
        return any(len(entities.all(kind)) > 1 for kind in ENTITY_KINDS)
    is_of_kind = _KINDS_OF_WORDS.get(alteration, lambda word: False)
    return alteration == "Negation" or any(map(is_of_kind, _words(context)))


def apply_edits(context: str, edits: Sequence[LineEdit]) -> str:
    """Return a conversation with edited lines."""
    new = {edit.line: edit.new for edit in edits}
    return "\n".join(new.get(number, line) for number, line in enumerate(context.split("\n"), 1))


def find_edit_problem(
    context: str, entities: Entities, alteration: str, edits: Sequence[LineEdit]
) -> Objection | None:
    """Return the first rule that a model's edits of a conversation break; None if none.

    An exchange of entities may change several lines, and changes nothing but mentions. All other
    alterations change one line, in which one word of the alteration's kind differs.
    """
    lines = context.split("\n")
    if not edits:
        return "the model alters nothing", ""
    for edit in edits:
        if not 1 <= edit.line <= len(lines) or edit.old != lines[edit.line - 1]:
            return "the edited line is not as in the conversation", edit.old
        if edit.new == edit.old or len(edit.new) > len(edit.old) + _LONGEST_EDIT:
            return "the edited line is the same or far longer", edit.new
        if CONTROLS.search(edit.new):
            return "the edited line is not one line, or holds control characters", edit.new
        if edit.old[: label_end(edit.old)] != edit.new[: label_end(edit.new)]:
            return "the speaker's label changes", edit.new
    before = Conversation(context, entities)
    after = Conversation(apply_edits(context, edits), entities)
    if alteration in EXCHANGED:
        if _count_exchanges(before, after) != EXCHANGED[alteration]:
            return "not just two entities of one kind are exchanged", edits[0].new
        return None
    if len(edits) > 1:
        return "more than one line is edited", edits[1].new
    old, new = (line[label_end(line) :] for line in (edits[0].old, edits[0].new))
    if not _changes_one_word(old, new, alteration):
        return "more or less than one word of the alteration's kind changes", new
    mentioned, still = ([each.entity for each in text.mentions] for text in (before, after))
    if mentioned != still:
        return "an entity appears, disappears or changes", new
    return None


def _count_exchanges(before: Conversation, after: Conversation) -> int:
    """Return how many entities another one replaces; 0 unless just two of one kind change."""
    old, new = before.mentions, after.mentions
    if [mention.kind for mention in old] != [mention.kind for mention in new]:
        return 0
    pairs = {(first.entity, second.entity) for first, second in zip(old, new, strict=True)}
    exchanged = {pair for pair in pairs if pair[0] != pair[1]}
    is_of_two = len({frozenset(pair) for pair in exchanged}) == 1
    return len(exchanged) if is_of_two and _masked(before) == _masked(after) else 0


def _masked(conversation: Conversation) -> list[list[str]]:
    """Return the words of each turn without mentions and articles."""
    lines = [*conversation.turns]
    for mention in reversed(conversation.mentions):
        line = lines[mention.utterance]
        lines[mention.utterance] = line[: mention.start] + line[mention.end :]
    return [[word for word in _words(line) if word not in ("a", "an")] for line in lines]


def _changes_one_word(old: str, new: str, alteration: str) -> bool:
    """Return whether one word of an alteration's kind differs between two lines, and no other.

    Nouns and verbs may be in the other number. A negation may also be added or removed, with the
    "did" and the form of the verb in "did not take", and with "yes" or "no" before the line.
    """
    is_of_kind = _KINDS_OF_WORDS[alteration]
    before, after = _words(old), _words(new)
    if alteration == "Negation":
        before, after = (_with_not(words) for words in (before, after))
        if _adds_negation(before, after) or _adds_negation(after, before):
            return True
    if len(before) != len(after):
        return False
    changed = [pair for pair in zip(before, after, strict=True) if not _agree(*pair)]
    is_either = any if alteration == "Negation" else all
    return len(changed) == 1 and is_either(map(is_of_kind, changed[0]))


def _agree(old: str, new: str) -> bool:
    """Return whether two words are the same, perhaps one in the singular and one in the plural."""
    verbs = PLURAL_VERBS.get(old) == new or PLURAL_VERBS.get(new) == old
    return verbs or number_forms(old)[0] == number_forms(new)[0]


def _with_not(words: list[str]) -> list[str]:
    """Return words with "not" for "n't", without the "yes" or "no" of a reply."""
    full = " ".join(words).replace("n't", " not").replace("cannot", "can not").split()
    return full[1:] if full and full[0] in _REPLIES else full


def _adds_negation(before: list[str], after: list[str]) -> bool:
    """Return whether words are the same but for a "not", or for the "did not" before a verb."""
    for place, word in enumerate(after):
        start, end = after[:place], after[place + 1 :]
        if word in _NEGATIONS and start + end == before:
            return True
        if word == "not" and end and start and start[-1] in ("do", "does", "did"):
            verb = before[place - 1 : place]
            if start[:-1] + verb + end[1:] == before and verb[0][:2] == end[0][:2]:
                return True
    return False


# Questions ----------------------------------------------------------------------------------------


def find_question_problem(context: str, question: str) -> Objection | None:
    """Return the first rule that a question about a conversation breaks; None if none."""
    words = _words(question)
    if not question.endswith("?") or "?" in question[:-1] or len(question) > _LONGEST_QUESTION:
        return "it is not one short question", question
    if CONTROLS.search(question):
        return "it holds control characters", question
    if len(words) < 3 or words[0] not in word_list("auxiliaries") or "or" in words:
        return "it is not a question of yes or no", question
    if f" {' '.join(words)} " in f" {' '.join(_words(context))} ":
        return "the conversation asks it already", question
    if said := said_of_task(question):
        return "it speaks of answers or of the task", said
    if name := unknown_name(question, context):
        return "it names somebody whom the conversation does not", name
    return None


# Quotes -------------------------------------------------------------------------------------------


def find_quote_problem(answer: VoteAnswer, quote: str, context: str) -> str:
    """Return why a vote does not count: its quote does not occur; "" if it does.

    Each line of the quote has to be whole words of one utterance, three at least or all of them.
    Letter case and punctuation do not count.
    """
    quoted = [plain for line in quote.splitlines() if (plain := _plain(line)).strip()]
    if not quoted:
        return "" if answer == "undetermined" else f"it answers {answer} and quotes nothing"
    lines = context.splitlines()
    whole = {_plain(text) for line in lines for text in (line, line[label_end(line) :])}
    if all(
        plain in whole or (len(plain.split()) >= 3 and any(plain in text for text in whole))
        for plain in quoted
    ):
        return ""
    return "the quoted utterance does not occur in the conversation"


def _plain(text: str) -> str:
    """Return the words of a text, with a blank around each."""
    # NFKC, for an accent may be a character of its own in one text and not in the other.
    return f" {' '.join(_words(unicodedata.normalize('NFKC', text)))} "
