"""Stage 4: a question about a conversation, by a template over its triplets or by the model.

Source: arXiv 2511.13021, appendix A.2 and Table 8. A question is asked about a conversation and all
of its variants. Half of the templates' questions are about what a triplet combines, and half about
what two triplets have apart, so that answers are balanced; so are those wanted of the model.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict

from pragworld_tasks.authoring.alterations import focused_entities
from pragworld_tasks.authoring.conversations import CONTROLS, NO_NAMES
from pragworld_tasks.authoring.entities import speakers_of
from pragworld_tasks.authoring.line_checks import numbers
from pragworld_tasks.authoring.prompts import Prompts
from pragworld_tasks.authoring.records import (
    RULES,
    AuthoredConversation,
    AuthoredQuestion,
    Dropped,
    Kind,
    Objection,
    Origin,
    QuestionType,
    Triplet,
)
from pragworld_tasks.authoring.stage_replies import ask_model
from pragworld_tasks.chat import Connection
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.text_alterations.entities import ENTITY_KINDS, Conversation
from pragworld_tasks.text_alterations.inflection import (
    article,
    is_plural,
    number_forms,
    number_words,
    read_number,
    word_list,
)
from pragworld_tasks.text_alterations.nouns import is_known_noun, is_usually_mass
from pragworld_tasks.text_alterations.tokens import label_end

Source: TypeAlias = Literal["template", "model"]

TYPES: tuple[QuestionType, ...] = tuple(name for name in get_args(QuestionType) if name != "other")
# Where a question comes from, and whether it is to be answered yes.
_MANNERS: tuple[tuple[Source, bool], ...] = (
    ("template", True),
    ("template", False),
    ("model", True),
    ("model", False),
)
_LONGEST = 200  # characters


class QuestionReply(BaseModel):
    """What a model replies when it writes a question."""

    model_config = ConfigDict(extra="forbid")

    type: QuestionType
    question: str


@dataclass(frozen=True)
class QuestionPlan:
    """What question a conversation is to get.

    Attributes:
        type: its type.
        source: what writes it, unless that fails.
        holds: whether it is to be answered yes.
    """

    type: QuestionType
    source: Source
    holds: bool


def plan_question(number: int, random_seed: int) -> QuestionPlan:
    """Return the plan for a conversation's question.

    Of eight conversations in a row each has another type, and two each come from a template or the
    model with the answer yes or no. Of 32, each has another plan.

    Args:
        number: the number of the conversation.
        random_seed: the seed of the random draws.
    """
    every, place = divmod(number, len(TYPES) * len(_MANNERS))
    random = StableRandom(f"{random_seed} questions {every}")
    types, manners = random.shuffled(TYPES), random.shuffled(_MANNERS)
    lap, position = divmod(place, len(TYPES))
    orders = [random.shuffled(range(len(TYPES))) for _ in _MANNERS]
    which = orders[lap][position]
    return QuestionPlan(types[which], *manners[(which + lap) % len(_MANNERS)])


async def ask_question(
    connection: Connection,
    prompts: Prompts,
    kind: Kind,
    conversation: AuthoredConversation,
    random_seed: int,
    temperature: float,
) -> tuple[AuthoredQuestion | None, list[Dropped]]:
    """Return the question of a conversation.

    What no template fits is asked of the model, and a template replaces a question of the model
    that does not pass a check.

    Args:
        connection: the connection to the model.
        prompts: the prompts.
        kind: the kind of the conversation's seed.
        conversation: the conversation.
        random_seed: the seed of the random draws.
        temperature: the sampling temperature.

    Returns:
        The question, None if there is none; and what was dropped.

    Raises:
        InputError: The endpoint cannot be used.
    """
    plan = plan_question(conversation.number, random_seed)
    random = StableRandom(f"{random_seed} question {conversation.number}")
    text = template_question(kind, conversation, plan.type, holds=plan.holds, random=random)
    if text and find_question_problem(conversation.context, plan.type, text):
        text = ""  # a line of the conversation says the same, for instance
    of_template = _question(conversation, plan.type, text, RULES) if text else None
    if of_template and plan.source == "template":
        return of_template, []
    question, dropped = await _ask_model(connection, prompts, conversation, plan, temperature)
    return question or of_template, dropped


async def _ask_model(
    connection: Connection,
    prompts: Prompts,
    conversation: AuthoredConversation,
    plan: QuestionPlan,
    temperature: float,
) -> tuple[AuthoredQuestion | None, list[Dropped]]:
    named = [name for kind in ENTITY_KINDS for name in getattr(conversation.entities, kind)]
    prompt = prompts.fill(
        "question",
        conversation=conversation.context,
        entities=", ".join((*named, *speakers_of(conversation.context))),
        type=plan.type,
        answer="yes" if plan.holds else "no",
    )
    reply = await ask_model(
        connection,
        connection.endpoint.model,
        prompt,
        QuestionReply,
        f"question about conversation {conversation.number}: {plan.type}",
        temperature,
    )
    if reply.value is None:
        return None, [reply.dropped("questions", conversation.number)]
    text = " ".join(reply.value.question.split())
    if objection := find_question_problem(conversation.context, reply.value.type, text):
        return None, [reply.dropped("questions", conversation.number, objection)]
    return _question(conversation, reply.value.type, text, reply.origin), []


def _question(
    conversation: AuthoredConversation, kind: QuestionType, text: str, origin: Origin
) -> AuthoredQuestion:
    return AuthoredQuestion(conversation=conversation.number, type=kind, text=text, origin=origin)


# Templates ----------------------------------------------------------------------------------------

# What a template needs of its thing: that there can be several, some and all of it, or nothing.
_COUNTED, _DIVIDED, _ANY = {"plural"}, {"plural", "mass"}, {"plural", "mass", "singular"}
_TEMPLATES: dict[str, dict[QuestionType, list[tuple[set[str], str]]]] = {
    "general": {
        "location": [(_ANY, "{Are} the {things} {place}?")],
        "possession": [(_ANY, "Did {agent} bring the {things} {to_place}?")],
        "quantity": [
            (_COUNTED, "Did {agent} {leave} exactly {number} {things} {place}?"),
            (_COUNTED, "Are there exactly {number} {things} {place}?"),
        ],
        "universal": [(_DIVIDED, "Did {agent} {leave} all of the {things} {place}?")],
        "existential": [(_DIVIDED, "Did {agent} {leave} some of the {things} {place}?")],
        "only-entity": [
            (_DIVIDED, "Did {agent} {leave} any {things} {place}?"),
            ({"singular"}, "Did {agent} {leave} the {things} {place}?"),
        ],
        "sure": [(_ANY, "Is {speaker} sure that the {things} {are} {place}?")],
        "know": [(_ANY, "Does {agent} know where the {things} {are}?")],
    },
    "seller_buyer": {
        "location": [(_ANY, "{with_property}?")],
        "possession": [(_ANY, "Did {agent} get the {things}?")],
        "quantity": [(_COUNTED, "Are there exactly {number} {things}?")],
        "universal": [(_DIVIDED, "Are all of the {things} {property}?")],
        "existential": [(_DIVIDED, "Are some of the {things} {property}?")],
        "only-entity": [(_ANY, "Did {agent} ask for the {things}?")],
        "sure": [(_ANY, "Is {agent} sure about the {things}?")],
        "know": [(_ANY, "Does {agent} know about the {things}?")],
    },
    "doctor_patient": {
        "location": [(_ANY, "Did {agent} go {to_place}?")],
        "possession": [(_ANY, "Is {agent} the one with the {things}?")],
        "only-entity": [(_ANY, "Did {agent} go {to_place} because of the {things}?")],
        "sure": [(_ANY, "Is {agent} sure about the {things}?")],
        "know": [(_ANY, "Does {speaker} know why {agent} went {to_place}?")],
    },
}
_TEMPLATES["location"] = _TEMPLATES["general"]
_SLOT = re.compile(r"\{(\w+)\}")
_OF_THINGS = {"things", "with_property"}


def template_question(
    kind: Kind,
    conversation: AuthoredConversation,
    question_type: QuestionType,
    *,
    holds: bool,
    random: StableRandom,
) -> str:
    """Return a question by a template, "" if none fits.

    Args:
        kind: the kind of the conversation's seed.
        conversation: the conversation.
        question_type: the type of question.
        holds: whether to ask about what a triplet combines, or what two have apart.
        random: where the choices come from.
    """
    if len(conversation.triplets) < 2:
        return ""
    triplet, other = random.shuffled(conversation.triplets)
    phrases = _Phrases(Conversation(conversation.context, focused_entities(conversation)), triplet)
    for needed, template in random.shuffled(_TEMPLATES[kind].get(question_type, [])):
        slots = {*_SLOT.findall(template)}
        asked = phrases
        if not holds:
            part = "object" if slots & _OF_THINGS else "location"
            crossed = triplet.model_copy(update={part: getattr(other, part)})
            asked = _Phrases(phrases.conversation, crossed)
        if slots & _OF_THINGS and asked.noun_number not in needed:
            continue
        filled = {slot: asked.in_slot(slot) for slot in slots}
        if all(filled.values()):
            return template.format(**filled)
    return ""


_PREPOSITIONS = "in on at inside under behind near by beside outside"
_DETERMINERS = "the a an this that my your his her our their its"
_VERBS = {"left": "leave", "leave": "leave", "put": "put", "placed": "place", "place": "place"}
_LARGEST_NUMBER = 20


class _Phrases:
    """A triplet in the words that its conversation uses for it.

    Attributes:
        conversation: the conversation.
    """

    def __init__(self, conversation: Conversation, triplet: Triplet) -> None:
        self.conversation = conversation
        self._triplet = triplet

    def in_slot(self, slot: str) -> str:
        """Return what stands in a slot of a template, "" if nothing fits."""
        phrases: dict[str, Callable[[], str]] = {
            "agent": lambda: _person(self._triplet.agent),
            "speaker": lambda: _person(speakers_of(self.conversation.text)[:2][-1]),
            "things": self._things,
            "are": self._are,
            "Are": lambda: self._are().capitalize(),
            "leave": self._leave,
            "number": self._number,
            "place": lambda: " ".join(filter(None, (*self._place(), self._triplet.location))),
            "to_place": self._to_place,
            "property": self._property,
            "with_property": self._with_property,
        }
        return phrases[slot]()

    @property
    def noun_number(self) -> str:
        """Whether the conversation uses the thing's noun as "plural", "mass" or "singular"."""
        mentions = [
            mention
            for mention in self.conversation.mentions
            if mention.kind == "objects"
            and mention.entity.casefold() == self._triplet.object.casefold()
        ]
        if any(mention.is_plural for mention in mentions):
            return "plural"
        return "mass" if is_usually_mass(self._triplet.object) else "singular"

    def _things(self) -> str:
        if self.noun_number == "mass":
            return self._triplet.object
        return number_forms(self._triplet.object)[self.noun_number == "plural"]

    def _are(self) -> str:
        return "are" if self.noun_number == "plural" else "is"

    def _leave(self) -> str:
        """Return the verb that the conversation uses most for putting things in places."""
        words = re.findall(r"\w+", self.conversation.text.lower())
        verbs = Counter(_VERBS[word] for word in words if word in _VERBS)
        return max(verbs, key=verbs.__getitem__, default="put")

    def _number(self) -> str:
        """Return a number that a line about the thing names, or else another line does."""
        lines = self.conversation.text.split("\n")
        about = {
            mention.utterance
            for mention in self.conversation.mentions
            if mention.entity.casefold() == self._triplet.object.casefold()
        }
        for line in sorted(range(len(lines)), key=lambda place: place not in about):
            for word in numbers(lines[line][label_end(lines[line]) :]):
                value = read_number(word)
                if value and 2 <= value <= _LARGEST_NUMBER:
                    return number_words(value)
        return ""

    def _place(self) -> tuple[str, str]:
        """Return the preposition and the determiner that most often stand before the place."""
        before = Counter(
            (match["preposition"].lower(), bool(match["determiner"]))
            for match in re.finditer(
                rf"\b(?P<preposition>{'|'.join(_PREPOSITIONS.split())})\s+"
                rf"(?P<determiner>(?:{'|'.join(_DETERMINERS.split())})\s+)?"
                rf"{re.escape(self._triplet.location)}\b",
                self.conversation.text,
                re.IGNORECASE,
            )
        )
        is_name = self._triplet.location[0].isupper()
        (preposition, determined), _ = (
            before.most_common(1)[0] if before else (("in", not is_name), 0)
        )
        return preposition, "the" if determined else ""

    def _to_place(self) -> str:
        location, (_, determiner) = self._triplet.location, self._place()
        if not determiner and location[0].islower():
            return ""  # "to home"
        return " ".join(filter(None, ("to", determiner, location)))

    def _property(self) -> str:
        """Return what follows "is" if a thing has the property, "" if that is not known."""
        if self._property_follows(r"(?:is|are|was|were|it's|they're|that's|looks?|seems?)"):
            return self._triplet.location
        if self._property_follows("(?:comes?|available|it|one|them|have|this) in"):
            return f"available in {self._triplet.location}"
        return ""

    def _with_property(self) -> str:
        """Return the question whether a thing has the property, without its question mark."""
        things, name = self._things(), self._triplet.location
        if predicate := self._property():
            return f"{self._are().capitalize()} the {things} {predicate}"
        do = "Do" if self.noun_number == "plural" else "Does"
        if self._property_follows("(?:an?)"):
            return f"{do} the {things} come with {article(name)} {name}"
        if is_plural(name.split()[-1]) or self._property_follows("(?:has|have|with|offers?)"):
            return f"{do} the {things} come with {name}"
        return ""

    def _property_follows(self, words: str) -> bool:
        name = re.escape(self._triplet.location)
        degree = "(?:also |very |quite |really |only |both )?"
        pattern = rf"\b{words}\s+{degree}{name}\b"
        return bool(re.search(pattern, self.conversation.text, re.IGNORECASE))


def _person(name: str) -> str:
    """Return how to refer to an agent or a speaker: "Noah", "the doctor"."""
    return name if name[0].isupper() else f"the {name}"


# Checks -------------------------------------------------------------------------------------------

_MARKS: Mapping[QuestionType, str] = {
    "quantity": r"\b(?:\d+|how many|how much|once|twice)\b",
    "universal": r"\b(?:all|every\w*|each|both|whole)\b",
    "existential": r"\b(?:some\w*|any\w*)\b",
    "sure": r"\b(?:sure|certain)\b",
    "know": r"\bknow\w*\b",
}
_BEFORE_NOUNS = """
the a an any some all both each every his her their its my your this that these those no another"""
# Words of questions about a conversation that it need not have itself.
_OF_QUESTIONS = """
speaker speakers conversation person people man woman men women one ones thing things place places
number amount first second last same other others only most more least exact exactly of them the it
reason time way end any all buyer seller customer patient doctor many much few question answer"""


def find_question_problem(
    context: str, question_type: QuestionType, question: str
) -> Objection | None:
    """Return the first rule that a question about a conversation breaks, and where; None if none.

    Args:
        context: the conversation.
        question_type: what type the question is said to be of.
        question: the question.
    """
    words = re.findall(r"[^\W_]+(?:['\u2019-][^\W_]+)*", question)
    lower = [word.lower().replace("\u2019", "'") for word in words]
    if not question.endswith("?") or "?" in question[:-1] or len(question) > _LONGEST:
        return "it is not one short question", question
    if CONTROLS.search(question):
        return "it holds control characters", question
    if len(words) < 3 or lower[0] not in word_list("auxiliaries"):
        return "it does not begin as a question of yes or no", question
    if "or" in lower:
        return "it offers an alternative", question
    if not _is_of_type(question_type, question):
        return "it is not of its type", question
    if _plain(question) in _plain(context):
        return "the conversation asks it already", question
    if name := _unknown_noun(context, words):
        return "it names somebody or something that the conversation does not", name
    return None


def _is_of_type(question_type: QuestionType, question: str) -> bool:
    if question_type == "quantity" and numbers(question):
        return True
    mark = _MARKS.get(question_type)
    return mark is None or bool(re.search(mark, question, re.IGNORECASE))


def _plain(text: str) -> str:
    """Return the words of a text in lower case, with a blank around each."""
    words = " ".join(re.findall(r"\w+", text.lower()))
    return f" {words} "


def _unknown_noun(context: str, words: list[str]) -> str:
    """Return a name, or a noun as far as it shows, that a conversation does not have, or ""."""
    known = {_stem(word) for word in re.findall(r"[^\W_]+(?:['\u2019-][^\W_]+)*", context)}
    known |= {*_OF_QUESTIONS.split(), *_BEFORE_NOUNS.split(), *word_list("auxiliaries")}
    for before, word in pairwise(words):
        stem = _stem(word)
        if stem in known or numbers(word):
            continue
        is_name = word[0].isupper() and word != "I" and stem not in NO_NAMES.split()
        follows = before.lower() in _BEFORE_NOUNS.split()
        if is_name or follows or is_plural(word) or is_known_noun(word.lower()):
            return word
    return ""


def _stem(word: str) -> str:
    """Return a word in lower case and the singular, without a possessive ending."""
    return number_forms(re.sub(r"['\u2019]s?$", "", word).lower())[0]
