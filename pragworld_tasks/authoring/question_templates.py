"""Questions by templates over two triplets (arXiv 2511.13021, appendix A.2 and Table 8).

Half of them are about what a triplet combines, and half about what two triplets have apart, so that
answers are balanced.
"""

import re

from pragworld_tasks.authoring.checks import speakers_of
from pragworld_tasks.authoring.records import AuthoredConversation, Triplet
from pragworld_tasks.dialogues.stable_random import StableRandom
from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import number_forms, number_words, read_number
from pragworld_tasks.text_alterations.nouns import is_usually_mass

TEMPLATES = {
    "location": "{Are} the {things} {place}?",
    "possession": "Did {agent} bring the {things} to {where}?",
    "quantity": "Are there exactly {number} {things} {place}?",
    "universal": "Did {agent} leave all of the {things} {place}?",
    "existential": "Did {agent} leave some of the {things} {place}?",
    "only-entity": "Did {agent} leave {any} {things} {place}?",
    "sure": "Is {speaker} sure that the {things} {are} {place}?",
    "know": "Does {agent} know where the {things} {are}?",
}
_PLACE = r"\b(in|on|at|inside|under|behind|near|by|beside|outside)\s+((?:the|an?|my|your|h\w+)\s+)?"
_LARGEST_NUMBER = 20


def template_question(
    conversation: AuthoredConversation,
    question_type: str,
    *,
    is_yes: bool,
    random: StableRandom,
) -> str:
    """Return a question by one of `TEMPLATES`, "" if it does not fit.

    It is about what a triplet combines if it is to be answered yes, else about what two have apart.
    The templates are about things in places. Conversations about goods and health have none.
    """
    if conversation.kind not in ("general", "location"):
        return ""
    asked, other = random.shuffled(conversation.triplets)
    if not is_yes:
        asked = asked._replace(object=other.object)
    parsed = Conversation(conversation.context, conversation.entities)
    phrases = _phrases(parsed, asked)
    fits = {
        "quantity": phrases["noun number"] == "plural" and phrases["number"],
        "universal": phrases["noun number"] != "singular",
        "existential": phrases["noun number"] != "singular",
        "possession": phrases["where"][0].isupper() or phrases["where"].startswith("the "),
    }
    return TEMPLATES[question_type].format_map(phrases) if fits.get(question_type, True) else ""


def _phrases(conversation: Conversation, triplet: Triplet) -> dict[str, str]:
    """Return a triplet in the words that its conversation uses for it, by the slots' names."""
    plurals = {each.entity.casefold() for each in conversation.mentions if each.is_plural}
    singular, plural = number_forms(triplet.object)
    noun_number, things = "singular", singular
    if triplet.object.casefold() in plurals:
        noun_number, things = "plural", plural
    elif is_usually_mass(triplet.object):
        noun_number, things = "mass", triplet.object
    are = "are" if noun_number == "plural" else "is"
    preposition, where = _place(conversation.text, triplet.location)
    return {
        "noun number": noun_number,
        "agent": _person(triplet.agent),
        "speaker": _person(speakers_of(conversation.text)[1]),
        "things": things,
        "are": are,
        "Are": are.capitalize(),
        "any": "the" if noun_number == "singular" else "any",
        "number": _number(conversation.text),
        "where": where,
        "place": f"{preposition} {where}",
    }


def _person(name: str) -> str:
    """Return how to refer to an agent or a speaker: "Noah", "the doctor"."""
    return name if name[0].isupper() else f"the {name}"


def _place(text: str, location: str) -> tuple[str, str]:
    """Return the preposition before a place, and the place with its article, as a text has them."""
    found = re.search(_PLACE + rf"{re.escape(location)}\b", text, re.IGNORECASE)
    preposition = found[1].lower() if found else "in"
    has_article = bool(found[2]) if found else location[0].islower()
    return preposition, f"the {location}" if has_article else location


def _number(text: str) -> str:
    """Return the first small number above 1 in a text, or ""."""
    values = filter(None, map(read_number, re.findall(r"[\w-]+", text)))
    return next((number_words(value) for value in values if 2 <= value <= _LARGEST_NUMBER), "")
