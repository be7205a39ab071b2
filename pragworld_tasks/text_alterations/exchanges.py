"""Which two entities may take each other's place, and why the others may not.

Names are exchanged within a gender where the conversation has words that show it ("she"), and nouns
within a class of `nouns.toml`. What stands beside each mention is checked, too: number, article,
compounds ("apple juice"), measures ("a cup of tea") and direct address ("Hi, Tom"). The file of
entities may add names of a gender and groups of entities that are exchangeable. Whatever is not
known to fit is refused.
"""

import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import is_plural, number_forms, word_list
from pragworld_tasks.text_alterations.noun_phrases import NEARBY, PLURAL_VERBS, is_number
from pragworld_tasks.text_alterations.nouns import (
    head_noun,
    is_first_name,
    is_title,
    is_usually_mass,
    noun_classes,
    replacements,
    roles,
    sort_of_agent,
    usual_gender,
)
from pragworld_tasks.text_alterations.tokens import EntityKind, EntityMention, Sentence, label_end
from pragworld_tasks.text_alterations.turns import continues_question

# Why two entities may not be exchanged; those that the lists of entities can remedy come first.
GENDER_UNKNOWN = "the gender of one is not known; list it as 'female' or 'male'"
SORT_UNKNOWN = "it is not known what one is; list what is alike as 'exchangeable'"
OTHER_GENDER = "one is female and the other male, and the conversation has words for that"
OTHER_SORT = "they are of different sorts"
OTHER_NUMBER = "one is counted or has an article where the other does not"
IN_A_PHRASE = "a mention is part of a longer name or phrase"
SPOKEN_TO = "one of them speaks or is spoken to"
SET_APART = "something is said of one and then of the other"
ONLY_ORDER = "only their order would change"
REMEDIES = (GENDER_UNKNOWN, SORT_UNKNOWN)

_AFTER_NOUNS = {
    *(*word_list("after_nouns"), *word_list("after_objects"), *word_list("auxiliaries")),
    *(*word_list("subjects"), *word_list("verbs_of_things"), *word_list("after_mentions")),
}
# What stands between the items of a list whose order does not matter: "A, the B, and C".
_LINK = re.compile(r"(?:,|,?\s+(?:and|or))\s+(?:the\s+|an?\s+)?", re.IGNORECASE)
_DETERMINERS = {*word_list("determiners"), *word_list("indefinite"), "a", "an", "another", "all"}


@dataclass(frozen=True, slots=True)
class _Site:
    """A mention in its sentence, and the places of its first and last word there."""

    sentence: Sentence
    mention: EntityMention
    first: int
    last: int

    @property
    def determiner(self) -> str:
        """The determiner before the mention, at most two adjectives away, or ""."""
        for place in range(self.first, self.first - 3, -1):
            word = self.sentence.before(place)
            if word in _DETERMINERS or word.endswith(("'s", "s'")):
                return word
            if not word or word in _AFTER_NOUNS:
                return ""
        return ""

    @property
    def others(self) -> list[str]:
        """The other words of the sentence in lower case."""
        return self.sentence.lower[: self.first] + self.sentence.lower[self.last + 1 :]

    @property
    def is_address(self) -> bool:
        """Whether the mention is direct address: "Hi, Tom!", "Thanks, doctor."."""
        line, mention = self.sentence.line, self.mention
        before = line[label_end(line) : mention.start].rstrip()
        after = line[mention.end :].lstrip()
        if not before:
            return after.startswith((",", "!"))
        return before[-1] in ",.?!" and after[:1] in ",.?!"


@functools.lru_cache(maxsize=64)  # every pair of entities is looked at
def _sites(conversation: Conversation, kind: EntityKind, entity: str) -> list[_Site]:
    return [
        _Site(sentence, mention, place, sentence.mention_end(place))
        for sentence in conversation.sentences
        for place, mention in sentence.mention_places
        if (mention.kind, mention.entity) == (kind, entity)
    ]


def refusal(
    conversation: Conversation, kind: EntityKind, old: str, new: str, *, swap: bool
) -> str | None:
    """Return why an entity must not take another's place, and in a swap the reverse, or None."""
    of_old, of_new = (_sites(conversation, kind, entity) for entity in (old, new))
    unlike = _unlike_agents if kind == "agents" else _unlike_nouns
    is_declared = any({old, new} <= {*group} for group in conversation.entities.exchangeable)
    if problem := None if is_declared else unlike(conversation, kind, old, new):
        return problem
    if swap and _are_only_joined(conversation, of_old, of_new):
        return ONLY_ORDER
    if not swap and _are_set_apart(conversation, of_old, of_new):
        return SET_APART
    if kind == "agents":
        return _agent_refusal(conversation, (old, new), swap=swap)
    heads = {head_noun(old), head_noun(new)}
    if kind == "locations" and heads & {*map(head_noun, conversation.entities.objects)}:
        return SET_APART  # "a red pantry in the pantry"
    changed = [*of_old, *(of_new if swap else ())]
    if any(_is_in_a_phrase(site, same_head=len(heads) == 1) for site in changed):
        return IN_A_PHRASE
    return None if _agree(of_old, of_new, old, new) else OTHER_NUMBER


def outsiders(conversation: Conversation, kind: EntityKind, old: str) -> list[str]:
    """Return words that fit in an entity's place and do not occur in the conversation.

    The benchmark's authors also replaced entities by others than those of the conversation.
    """
    sites = _sites(conversation, kind, old)
    if kind == "agents":
        words = _other_names(conversation, old)
        is_fixed = bool(_agent_refusal(conversation, (old,), swap=True))
    else:
        words = _other_nouns(kind, old)
        is_fixed = any(_is_in_a_phrase(site, same_head=True) for site in sites)
        is_fixed = is_fixed or _is_mass(old, sites) or len({*number_forms(old)}) == 1
        is_fixed = is_fixed or (kind == "objects" and "" in map(_article, sites))
    text = conversation.text.lower()
    texts = text + re.sub(r"[\s_-]", "", text)  # a "stomach ache" is a "stomachache"
    return [
        word
        for word in ([] if is_fixed else words)
        if all(form.lower() not in texts for form in number_forms(word.split()[-1]))
    ]


def _other_names(conversation: Conversation, old: str) -> list[str]:
    gender = _gender(conversation, old)
    sort = sort_of_agent(old)
    if sort == "title":
        title = re.match(r"\w+\.?\s*", old)
        return [f"{title[0]}{name}" for name in replacements("surnames")] if title else []
    if sort != "name" or (gender is None and _shows_gender(conversation)):
        return []
    return replacements(gender or "female")


def _other_nouns(kind: EntityKind, old: str) -> list[str]:
    classes = sorted(noun_classes(kind, old))
    if not classes or not all(map(replacements, classes)):
        return []  # "office" is a room or a building
    if not old.isalpha() and {*classes} & {"mail", "texts", "films", "performances"}:
        return []  # a "membership card" is no mail
    nouns = [noun for name in classes for noun in replacements(name)]
    if kind == "locations":
        return nouns
    plural = is_plural(old.split()[-1])
    return [number_forms(noun)[plural] for noun in nouns]


def _unlike_nouns(conversation: Conversation, kind: EntityKind, old: str, new: str) -> str | None:
    """Return how two objects or locations differ in what they are, or None if they do not."""
    if old[0].isupper() != new[0].isupper():
        return OTHER_SORT
    if head_noun(old) == head_noun(new):  # "peppers" include "green peppers"
        return OTHER_SORT if old.isalpha() or new.isalpha() else None
    classes = [noun_classes(kind, entity) for entity in (old, new)]
    if not all(classes):
        return SORT_UNKNOWN
    shared = classes[0] & classes[1]
    if classes[0] != classes[1]:  # an "office" is a room where others are
        others = [noun_classes(kind, entity) for entity in conversation.entities.all(kind)]
        shared &= {name for name in shared if others.count(frozenset({name})) > 1}
    return None if shared else OTHER_SORT


def _unlike_agents(conversation: Conversation, kind: EntityKind, old: str, new: str) -> str | None:
    """Return how two agents differ in what they are, or None if they do not."""
    sort = sort_of_agent(old)
    if sort != sort_of_agent(new):
        return OTHER_SORT
    if sort in ("noun", "group") and not roles(old) & roles(new):
        return OTHER_SORT
    sites = [*_sites(conversation, kind, old), *_sites(conversation, kind, new)]
    if not _shows_gender(conversation) or all(site.is_address for site in sites):
        return None  # no "she" is someone who is spoken to
    genders = {_gender(conversation, entity) for entity in (old, new)}
    return GENDER_UNKNOWN if None in genders else OTHER_GENDER if len(genders) > 1 else None


def _are_only_joined(
    conversation: Conversation, of_old: Sequence[_Site], of_new: Sequence[_Site]
) -> bool:
    """Return whether a swap changes nothing but the order in lists: "A and B", "A, B and C"."""
    mentions = conversation.mentions
    lists = [mentions[:1]]
    for mention, following in itertools.pairwise(mentions):
        between = conversation.turns[mention.utterance][mention.end : following.start]
        is_joined = mention.utterance == following.utterance and _LINK.fullmatch(between)
        lists = [*lists[:-1], [*lists[-1], following]] if is_joined else [*lists, [following]]
    counts = [Counter(mention.entity for mention in each) for each in lists]
    old, new = of_old[0].mention.entity, of_new[0].mention.entity
    return all(count[old] == count[new] for count in counts)


def _are_set_apart(
    conversation: Conversation, of_old: Sequence[_Site], of_new: Sequence[_Site]
) -> bool:
    """Return whether a sentence has both entities, or what is said of each sets them apart.

    One would be mentioned twice, contradict itself ("do you have a headache / no, but I have a
    headache"), be in two places, or be new ("a phone") after it was spoken of.
    """
    for early, late in itertools.product(of_old, of_new):
        if (early.mention.utterance, early.first) > (late.mention.utterance, late.first):
            early, late = late, early
        if early.sentence is late.sentence:
            return True
        if early.sentence.is_negative or late.sentence.is_negative:  # "don't pack the lamp"
            return True
        if late.mention.indefinite and late.mention.utterance > early.mention.utterance:
            return True
        if _is_contrasted(conversation, early, late) or _is_told_alike(early, late):
            return True
        if _are_both_placed(conversation, early, late):
            return True
    return False


def _is_contrasted(conversation: Conversation, early: _Site, late: _Site) -> bool:
    """Return whether a "no" or "but" stands between two mentions that are near each other."""
    first, last = early.mention.utterance, late.mention.utterance
    lines = conversation.turns[: last + 1]
    lines[-1] = lines[-1][: late.mention.start]
    lines[first] = lines[first][early.mention.end :]
    between = " ".join(lines[first:]).lower().replace("\u2019", "'")
    if re.search(r"(?:\bnot|n't) there\b", between):
        return True  # "Were you in the den? / I was not there. / Where were you? / In the hall."
    words = re.findall(r"[\w']+", between) if last - first <= NEARBY else []
    return any(word in word_list("contrasts") or "n't" in word for word in words)


def _is_told_alike(early: _Site, late: _Site) -> bool:
    """Return whether two sentences differ in little but the entity that they are about."""
    if early.others == late.others or continues_question(late.sentence):
        return True  # "Is the cat in? … Is the dog in?", "… Or the dog?" would ask twice
    is_near = late.mention.utterance - early.mention.utterance <= NEARBY
    verb, other = (site.sentence.after(site.last) for site in (early, late))
    if not is_near or early.sentence.is_question or verb in ("", *word_list("after_nouns")):
        return False
    # "The cat is white. The dogs are black." would contradict itself.
    return PLURAL_VERBS.get(verb, verb) == PLURAL_VERBS.get(other, other)


def _are_both_placed(conversation: Conversation, early: _Site, late: _Site) -> bool:
    """Return whether two sentences say where each entity is."""
    distance = late.mention.utterance - early.mention.utterance
    if early.mention.kind == "locations":
        # "Did you leave it in the den? / I left it there and went to the hall." Who was born in a
        # city does not arrive there later.
        return (distance == 1 and "there" in late.others) or late.mention.entity[0].isupper()
    return _tells_place(conversation, early) and _tells_place(conversation, late)


def _tells_place(conversation: Conversation, site: _Site) -> bool:
    """Return whether a sentence, or a question with its reply, says or asks where the entity is."""
    sentence = site.sentence
    words = sentence.lower[site.last + 1 :]
    if sentence.is_question and "where" not in site.others:
        reply: list[str] = []
        for other in conversation.sentences:
            if sentence.utterance < other.utterance <= sentence.utterance + NEARBY + 1:
                rivals = [each for each in other.mentions if each.kind == site.mention.kind]
                if any(not rival.indefinite for rival in rivals):
                    break
                reply += other.lower
        words = [*words, *reply] if reply else []
    return not {*words, *site.others[:2]}.isdisjoint(
        ("here", "there", "where", *word_list("place_prepositions"))
    )


def _gender(conversation: Conversation, agent: str) -> str | None:
    """Return "female" or "male", as the entities file, a list of names or a pronoun says, or None.

    It is None if they contradict each other.
    """
    entities = conversation.entities
    if agent in (*entities.female, *entities.male):
        return "female" if agent in entities.female else "male"
    genders = {*_genders_told(conversation, agent), usual_gender(agent)} - {None}
    return genders.pop() if len(genders) == 1 else None


def _genders_told(conversation: Conversation, agent: str) -> set[str]:
    """Return the genders that a pronoun tells which opens the sentence after one about the agent.

    The sentence before must name nobody else: "Where is Haruto? / He's in the den.".
    """
    fillers, told = {*word_list("before_questions"), "because", "maybe"}, set()
    for sentence, following in itertools.pairwise(conversation.sentences):
        people = {mention.entity for mention in sentence.mentions if mention.kind == "agents"}
        is_about = people == {agent} and following.utterance <= sentence.utterance + 1
        others = [word.text for word in sentence.words if word.text != agent]
        if not is_about or any(is_first_name(word) or roles(word) for word in others):
            continue
        words = [word.split("'")[0] for word in following.lower]
        opening = next((word for word in words if word not in fillers), "")
        told |= {"female"} if opening == "she" else {"male"} if opening == "he" else set()
    return told


def _shows_gender(conversation: Conversation) -> bool:
    words = {word for sentence in conversation.sentences for word in sentence.lower}
    return bool({*word_list("gendered")} & (words | {word.split("'")[0] for word in words}))


def _agent_refusal(
    conversation: Conversation, agents: tuple[str, ...], *, swap: bool
) -> str | None:
    """Return what stands beside a mention of agents that another would not fit, or None."""
    labels = " ".join(line[: label_end(line)] for line in conversation.text.split("\n"))
    if any(re.search(rf"(?<!\w){re.escape(agent)}\b", labels) for agent in agents):
        return SPOKEN_TO
    by_name = sort_of_agent(agents[0]) not in ("noun", "group")
    determined = set()
    for site in (site for agent in agents for site in _sites(conversation, "agents", agent)):
        before, determiner = site.sentence.before(site.first), site.determiner
        if site.is_address and not (swap and by_name):
            return SPOKEN_TO
        is_indefinite = determiner in ("a", "an", "another", *word_list("indefinite"))
        # "my little brother" may be nobody else
        if _is_in_a_longer_name(site) or is_indefinite or (determiner and determiner != before):
            return IN_A_PHRASE
        determined.add(bool(determiner))
    return OTHER_NUMBER if len(determined) > 1 or (by_name and True in determined) else None


def _is_in_a_longer_name(site: _Site) -> bool:
    """Return whether a mention is part of a longer name: "Mr. [Smith]", "my [uncle] Tom"."""
    sentence = site.sentence
    if site.first and is_title(sentence.words[site.first - 1].text):
        return True
    if not sentence.after(site.last) or site.mention.ending:
        return False
    after = sentence.words[site.last + 1].text
    return after[0].isupper() and not after.startswith(("I'", "I\u2019")) and not after.isupper()


def _is_mass(entity: str, sites: Sequence[_Site]) -> bool:
    """Return whether a noun is not counted. "Corns" in a conversation shows that it is there."""
    return is_usually_mass(entity) and not any(site.mention.is_plural for site in sites)


def _agree(of_old: Sequence[_Site], of_new: Sequence[_Site], old: str, new: str) -> bool:
    """Return whether both nouns are counted, or neither, and so for those without an article."""
    articles = [{*map(_article, sites)} for sites in (of_old, of_new)]
    if _is_mass(old, of_old) != _is_mass(new, of_new):
        return articles[0] == articles[1] == {"definite"}
    return ("" in articles[0]) == ("" in articles[1])


def _article(site: _Site) -> str:
    """Return how a mention is determined: "definite", "indefinite", "plural" or ""."""
    determiner = site.determiner
    definite = (*word_list("determiners"), "'s", "s'")
    if site.mention.is_plural:
        return "plural"
    if determiner.endswith(definite) or site.sentence.before(site.first) == "that":
        return "definite"
    return "indefinite" if determiner else ""


def _is_in_a_phrase(site: _Site, *, same_head: bool) -> bool:
    """Return whether beside a mention stands what another noun may not fit."""
    sentence, mention = site.sentence, site.mention
    before, after = sentence.before(site.first), sentence.after(site.last)
    if after and after not in _AFTER_NOUNS and not mention.ending and not is_number(after):
        return True  # "the kitchen door"
    if before and before == before.lower() and noun_classes("objects", before):
        return True  # "chicken curry"
    measure = number_forms(sentence.before(site.first - 1))[0]
    is_pair = measure == "pair" and "pairs" in noun_classes("objects", mention.entity)
    if before == "of" and measure in word_list("measures") and not (same_head or is_pair):
        return True  # "a cup of tea"
    if mention.kind != "locations":
        return False
    is_bare = not site.determiner and mention.text[0].islower()
    is_fixed = is_bare and before in word_list("before_places_in_phrases")  # "at school"
    is_on = "on" in sentence.all_before(site.first)[-2:]  # "on our shed"
    return is_fixed or is_on or site.determiner in ("a", "an", "another")
