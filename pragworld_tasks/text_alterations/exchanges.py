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
from dataclasses import dataclass

from pragworld_tasks.text_alterations.entities import Conversation
from pragworld_tasks.text_alterations.inflection import is_plural, number_forms, word_list
from pragworld_tasks.text_alterations.noun_phrases import NEARBY, PLURAL_VERBS, is_number
from pragworld_tasks.text_alterations.nouns import (
    head_noun,
    is_one_word,
    is_title,
    is_usually_mass,
    noun_classes,
    replacements,
    roles,
    sort_of_agent,
    usual_gender,
)
from pragworld_tasks.text_alterations.placements import Placement, placement
from pragworld_tasks.text_alterations.tokens import (
    EntityKind,
    EntityMention,
    Sentence,
    label_end,
)
from pragworld_tasks.text_alterations.turns import continues_question, sentence_numbers

_AFTER_NOUNS = {
    *(*word_list("after_nouns"), *word_list("after_objects"), *word_list("auxiliaries")),
    *(*word_list("subjects"), *word_list("verbs_of_things"), *word_list("after_mentions")),
}
_DETERMINERS = {*word_list("determiners"), *word_list("indefinite"), "a", "an", "another", "all"}


@dataclass(frozen=True, slots=True)
class _Site:
    """A mention in its sentence.

    Attributes:
        sentence: The sentence.
        mention: The mention.
        first, last: The places of its first and last word.
        placement: Where the entity is, as the sentence and the reply to a question tell.
    """

    sentence: Sentence
    mention: EntityMention
    first: int
    last: int
    placement: Placement

    @property
    def determiner(self) -> str:
        """The determiner before the mention, at most two adjectives away, or ""."""
        place = self.first
        for _ in range(3):
            word = self.sentence.before(place)
            if word in _DETERMINERS or word.endswith(("'s", "s'")):
                return word
            if not word or word in _AFTER_NOUNS:
                return ""
            place -= 1
        return ""

    @property
    def others(self) -> list[str]:
        """The other words of the sentence in lower case."""
        words = [word.lower for word in self.sentence.words]
        return words[: self.first] + words[self.last + 1 :]

    @property
    def is_located(self) -> bool:
        """Whether the sentence says or asks where the entity is, and not what it did."""
        beside = self.sentence.before(self.first), self.sentence.after(self.last)
        return not {*beside}.isdisjoint(("where's", *word_list("be")))

    @property
    def is_address(self) -> bool:
        """Whether the mention is direct address: "Hi, Tom!", "Thanks, doctor."."""
        line, mention = self.sentence.line, self.mention
        before = line[label_end(line) : mention.start].rstrip()
        after = line[mention.end :].lstrip()
        if after.startswith("!"):
            return True
        if after[:1] not in ("", ",", ".", "?"):
            return False
        if not before:
            return after.startswith(",") and not _is_listed(self, after=True)
        if before[-1] in ".?!":
            return not self.sentence.opens and len(self.sentence.words) == self.last + 1
        return before[-1] == "," and not _is_listed(self, after=False)


def _is_listed(site: _Site, *, after: bool) -> bool:
    """Return whether a comma joins a mention to another of its kind, as in a list of names."""
    line, mention = site.sentence.line, site.mention
    for other in site.sentence.mentions:
        if other.kind != mention.kind or other is mention:
            continue
        between = line[mention.end : other.start] if after else line[other.end : mention.start]
        if re.fullmatch(r"\s*,\s*(?:and\s+|or\s+)?(?:the\s+|an?\s+)?", between):
            return True
    return False


# What fits ----------------------------------------------------------------------------------------


def grounds(conversation: Conversation, kind: EntityKind, old: str, new: str) -> str:
    """Return why two entities may take each other's place. `objection` has found nothing wrong."""
    if _declared(conversation, old, new):
        return f"the entities file says that {old} and {new} are exchangeable"
    if kind != "agents":
        shared = sorted(noun_classes(kind, old) & noun_classes(kind, new))
        alike = f"in the class {shared[0]}" if shared else f"kinds of {head_noun(old)}"
        return f"{old} and {new} are both {alike}, and each place of one fits the other"
    sites = _sites(conversation, kind, (old, new))
    if all(site.is_address for site in itertools.chain(*sites.values())):
        return f"{old} and {new} are only spoken to, so that no pronoun stands for them"
    gender = _gender(conversation, old)
    if gender and gender == _gender(conversation, new):
        return f"{old} and {new} are both {gender}, so that every pronoun still fits"
    return f"no word of the conversation shows whether {old} or {new} is a woman or a man"


def objection(
    conversation: Conversation, kind: EntityKind, old: str, new: str, *, swap: bool
) -> str | None:
    """Return why an entity must not take the place of another, or in a swap each the other's.

    Args:
        conversation: The conversation that mentions both.
        kind: The kind of both.
        old: The entity to be replaced.
        new: The entity that replaces it.
        swap: Whether the old one also replaces the new one.

    Returns:
        The reason in a few words, or None if they may.
    """
    is_judged = not _declared(conversation, old, new)
    problem = _unlike_nouns(kind, old, new) if is_judged and kind != "agents" else None
    if problem:
        return problem
    sites = _sites(conversation, kind, (old, new))
    if is_judged and kind == "agents":
        problem = _unlike_agents(conversation, old, new, sites)
    if problem is None and swap:
        problem = _only_joined(conversation, kind, old, new)
    elif problem is None:
        problem = _together(conversation, sites)
    if problem or kind == "agents":
        return problem or _agent_problem(conversation, sites, swap=swap)
    if kind == "locations":
        problem = _inside_itself(sites[old], new)
        problem = problem or (_inside_itself(sites[new], old) if swap else None)
    return problem or _noun_problem(sites, old, new)


def outsiders(
    conversation: Conversation, kind: EntityKind, old: str
) -> tuple[tuple[str, ...], str]:
    """Return words that fit in an entity's place and do not occur in the conversation.

    The benchmark's authors also replaced entities by others than those of the conversation.

    Returns:
        The words, none if none is known to fit, and why they fit.
    """
    sites = _sites(conversation, kind, (old,))
    if kind == "agents":
        found = _other_names(conversation, old)
        problem = _agent_problem(conversation, sites, swap=True)
        reason = f"{old} is a name, and the new one fits every pronoun"
    else:
        found = _other_nouns(kind, old, conversation.text)
        problem = _noun_problem(sites, old, old) or _mass_problem(old, sites[old])
        reason = f"{old} is in a class of nouns that stand in the same places"
    text = conversation.text.lower()
    unspaced = re.sub(r"[\s_-]", "", text)  # a "stomach ache" is a "stomachache"
    unused = [
        word
        for word in found
        if (singular := number_forms(word.split()[-1])[0].lower()) not in text
        and singular not in unspaced
    ]
    return (() if problem else tuple(unused)), reason


def _other_names(conversation: Conversation, old: str) -> list[str]:
    gender = _gender(conversation, old)
    sort = sort_of_agent(old)
    if sort == "a name with a title":
        title = re.match(r"\w+\.?\s*", old)
        return [f"{title[0]}{name}" for name in replacements("surnames")] if title else []
    if sort != "a name" or (gender is None and _shows_gender(conversation)):
        return []
    return replacements(gender or "female")


_ADJECTIVE_OF_COUNTRY = r"\b{}[a-z]*(?:ish|ese|an|ch|sh|eek|tch)\b"


def _other_nouns(kind: EntityKind, old: str, text: str) -> list[str]:
    classes = sorted(noun_classes(kind, old))
    if not classes or not all(map(replacements, classes)):
        return []  # "office" is a room or a building
    if not is_one_word(old) and {*classes} & {"mail", "texts", "films", "performances"}:
        return []  # a "membership card" is no mail
    nouns = [noun for name in classes for noun in replacements(name)]
    if "countries" in classes and re.search(_ADJECTIVE_OF_COUNTRY.format(old[0]), text):
        return []  # "in China … a Chinese friend"
    if kind == "locations":
        return nouns
    plural = is_plural(old.split()[-1])
    return [number_forms(noun)[plural] for noun in nouns]


def _mass_problem(old: str, sites: list[_Site]) -> str | None:
    if _is_mass(old, sites) or number_forms(old)[0] == number_forms(old)[1]:
        return f"{old} is not counted"
    is_bare = ("bare", False) in _frames(sites) and sites[0].mention.kind == "objects"
    return "it stands without an article" if is_bare else None


def _sites(
    conversation: Conversation, kind: EntityKind, entities: tuple[str, ...]
) -> dict[str, list[_Site]]:
    sites = _all_sites(conversation)
    return {entity: sites.get((kind, entity), []) for entity in entities}


@functools.lru_cache(maxsize=4)  # every pair of entities is looked at
def _all_sites(conversation: Conversation) -> dict[tuple[EntityKind, str], list[_Site]]:
    sites: dict[tuple[EntityKind, str], list[_Site]] = {}
    for sentence in conversation.sentences:
        places: dict[EntityMention, list[int]] = {}
        for place in range(len(sentence.words)) if sentence.mentions else ():
            if mention := sentence.mention_at(place):
                places.setdefault(mention, []).append(place)
        for mention, found in places.items():
            first, last = found[0], found[-1]
            placed = placement(conversation, sentence, first, last, mention.kind)
            site = _Site(sentence, mention, first, last, placed)
            sites.setdefault((mention.kind, mention.entity), []).append(site)
    return sites


def _declared(conversation: Conversation, old: str, new: str) -> bool:
    return any({old, new} <= {*group} for group in conversation.entities.exchangeable)


def _unlike_nouns(kind: EntityKind, old: str, new: str) -> str | None:
    """Return how two objects or locations differ in what they are, or None if they do not."""
    if old[0].isupper() != new[0].isupper():
        return "only one of them is a name"
    if head_noun(old) == head_noun(new):
        general = [entity for entity in (old, new) if is_one_word(entity)]
        return f"{general[0]} includes the other" if general else None
    classes = noun_classes(kind, old), noun_classes(kind, new)
    for entity, known in zip((old, new), classes, strict=True):
        if not known:
            return f"it is not known what {entity} is; list what is alike as 'exchangeable'"
    return None if classes[0] & classes[1] else "they are different sorts of things"


def _unlike_agents(
    conversation: Conversation, old: str, new: str, sites: dict[str, list[_Site]]
) -> str | None:
    """Return how two agents differ in what they are, or None if they do not."""
    sort, other = sort_of_agent(old), sort_of_agent(new)
    if sort != other:
        return f"{old} is {sort}, {new} is {other}"
    if sort in ("a person by role", "a noun", "a group") and not roles(old) & roles(new):
        return "they are not known to be alike"
    if all(site.is_address for site in (*sites[old], *sites[new])):
        return None  # no "she" is someone who is spoken to
    if not _shows_gender(conversation):
        return None
    for entity in (old, new):
        if _gender(conversation, entity) is None:
            return f"the gender of {entity} is not known; list it as 'female' or 'male'"
    if _gender(conversation, old) != _gender(conversation, new):
        return "one is female and the other male, and the conversation has words for that"
    return None


def _together(conversation: Conversation, sites: dict[str, list[_Site]]) -> str | None:
    """Return an objection if a sentence has both entities, or what is said of each sets them apart.

    A sentence would mention one of them twice, a reply would contradict its question ("do you have
    a headache / no, but I have a headache"), or the same lamps would be in the truck and in the
    van. Nor may "a phone" be new after it was spoken of.
    """
    numbers = sentence_numbers(conversation.text, conversation.sentences)
    old, new = ({numbers[id(site.sentence)] for site in found} for found in sites.values())
    if old & new:
        return "a sentence mentions both"
    for others, found in itertools.permutations(sites.values()):
        begin = min((site.mention.utterance for site in others), default=0)
        if any(site.mention.indefinite and site.mention.utterance > begin for site in found):
            return "the conversation introduces one after the other"
    for first, second in itertools.product(*sites.values()):
        if _is_contrasted(conversation, first, second):
            return "one is set against the other"
        if _is_told_alike(first, second):
            return "the same is said of one and then of the other"
        if _is_elsewhere(first, second):
            return "one is said to be where or what the other is not"
    return None


def _is_contrasted(conversation: Conversation, first: _Site, second: _Site) -> bool:
    """Return whether a "no" or "but" stands between two mentions that are near each other."""
    early, late = sorted(
        (first.mention, second.mention), key=lambda site: (site.utterance, site.start)
    )
    if late.utterance - early.utterance > NEARBY:
        return False
    lines = conversation.text.split("\n")[: late.utterance + 1]
    lines[-1] = lines[-1][: late.start]
    lines[early.utterance] = lines[early.utterance][early.end :]
    between = " ".join(lines[early.utterance :])
    words = re.findall(r"[\w'\u2019]+", between.lower().replace("\u2019", "'"))
    return bool({*word_list("contrasts")} & {*words}) or any("n't" in word for word in words)


def _is_told_alike(first: _Site, second: _Site) -> bool:
    """Return whether two sentences differ in little but the entity that they are about.

    "Is the cat in? … Is the dog in?" would ask twice, as would "Is the cat in? … Or the dog?", and
    "The cat is white. The dog is black." would contradict itself.
    """
    early, late = sorted((first, second), key=lambda site: (site.mention.utterance, site.first))
    if early.others == late.others or continues_question(late.sentence):
        return True
    if early.sentence.is_question or late.sentence.is_question:
        return False
    if early.placement.places and late.placement.places:
        return False
    verb, other = (site.sentence.after(site.last) for site in (early, late))
    is_verb = verb not in ("", *word_list("after_nouns"))
    is_near = late.mention.utterance - early.mention.utterance <= NEARBY
    return is_near and is_verb and PLURAL_VERBS.get(verb, verb) == PLURAL_VERBS.get(other, other)


def _is_elsewhere(first: _Site, second: _Site) -> bool:
    """Return whether an entity is said to be where, or to be what, the other is not."""
    is_statement = not first.sentence.is_question and not second.sentence.is_question
    if is_statement and first.sentence.is_negative != second.sentence.is_negative:
        return True
    distance = abs(first.mention.utterance - second.mention.utterance)
    if first.mention.kind == "locations":
        # "Did you leave it in the den? / I left it there and went to the hall."
        late = max(first, second, key=lambda site: site.mention.utterance)
        return distance == 1 and "there" in late.others
    are_located = distance <= NEARBY and first.is_located and second.is_located
    if first.mention.kind == "agents" and not are_located:
        return False  # people go elsewhere
    return first.placement.contradicts(second.placement)


def _only_joined(conversation: Conversation, kind: EntityKind, old: str, new: str) -> str | None:
    """Return an objection if a swap changes nothing but the order in "A and B"."""
    mentions = [
        mention
        for mention in conversation.mentions
        if mention.kind == kind and mention.entity in (old, new)
    ]
    lines = conversation.text.split("\n")
    joined = 0
    for first, second in zip(mentions[::2], mentions[1::2], strict=False):
        line, following = lines[first.utterance], lines[second.utterance]
        between = line[first.end : second.start]
        if second.utterance == first.utterance + 1 and not label_end(following):
            between = f"{line[first.end :]} {following[: second.start]}"
        elif first.utterance != second.utterance:
            continue
        if first.entity != second.entity:
            joined += bool(re.fullmatch(r"\s+(?:and|or)\s+(?:the\s+|an?\s+)?", between))
    return "only their order would change" if 2 * joined == len(mentions) else None


# Agents -------------------------------------------------------------------------------------------


def _gender(conversation: Conversation, agent: str) -> str | None:
    """Return "female" or "male", as the entities file or the lists of names say, or None."""
    entities = conversation.entities
    if agent in entities.female:
        return "female"
    if agent in entities.male:
        return "male"
    return usual_gender(agent)


def _shows_gender(conversation: Conversation) -> bool:
    words = {word.lower for sentence in conversation.sentences for word in sentence.words}
    endings = {word.split("'")[0] for word in words}
    return bool({*word_list("gendered")} & (words | endings))


def _agent_problem(
    conversation: Conversation, sites: dict[str, list[_Site]], *, swap: bool
) -> str | None:
    """Return what stands beside a mention that another agent would not fit, or None."""
    for site in itertools.chain(*sites.values()):
        if problem := _longer_name(site):
            return problem
    speakers = {
        line[: label_end(line)].strip().removesuffix(":") for line in conversation.text.split("\n")
    }
    for entity in sites:
        if any(re.search(rf"(?<!\w){re.escape(entity)}(?!\w)", speaker) for speaker in speakers):
            return f"{entity} is a speaker"
    by_name = sort_of_agent(next(iter(sites))).startswith(("a name", "a full name"))
    determined = set()
    for site in itertools.chain(*sites.values()):
        before = site.sentence.before(site.first)
        determiner = site.determiner if before else ""
        if determiner and determiner != before:
            return f'"{before} {site.mention.text}" may be nobody else'
        if determiner in ("a", "an", "another", *word_list("indefinite")):
            return f'"{determiner} {site.mention.text}" is no particular person'
        if site.is_address and not (swap and by_name):
            return f"{site.mention.text} is spoken to"
        determined.add(bool(determiner))
    if by_name and True in determined:
        return "a name stands behind an article or a possessive"
    if len(determined) > 1:
        return "only some of the mentions have an article or a possessive"
    return None


def _longer_name(site: _Site) -> str | None:
    """Return an objection if a mention is part of a longer name: "Mr. [Smith]", "[John] Denver"."""
    sentence, text = site.sentence, site.mention.text
    before = sentence.words[site.first - 1].text if site.first else ""
    if is_title(before):
        return f'"{before} {text}" is one name'
    if sentence.after(site.last) and not site.mention.ending and text[0].isupper():
        after = sentence.words[site.last + 1].text
        if (
            after[0].isupper()
            and after != "I"
            and not after.startswith("I'")
            and not after.isupper()
        ):
            return f'"{text} {after}" may be one name'
    return None


# Objects and locations ----------------------------------------------------------------------------


def _is_mass(entity: str, sites: list[_Site]) -> bool:
    """Return whether a noun is not counted. "Corns" in a conversation shows that it is there."""
    return is_usually_mass(entity) and not any(site.mention.is_plural for site in sites)


def _noun_problem(sites: dict[str, list[_Site]], old: str, new: str) -> str | None:
    """Return what stands beside a mention that another noun would not fit, or None."""
    same_head = old != new and head_noun(old) == head_noun(new)
    for site in itertools.chain(*sites.values()):
        if problem := _neighbour_problem(site, same_head=same_head):
            return problem
    frames = {entity: _frames(sites[entity]) for entity in (old, new)}
    if _is_mass(old, sites[old]) != _is_mass(new, sites[new]):
        if frames[old] == frames[new] == {("definite", False)}:
            return None
        return "one of them is counted and the other is not"
    bare = {entity: ("bare", False) in frames[entity] for entity in (old, new)}
    if bare[old] != bare[new]:
        return "only one of them stands without an article"
    return None


def _inside_itself(sites: list[_Site], location: str) -> str | None:
    """Return an objection if a location would hold its like: "a red closet in the closet"."""
    for site in sites:
        for mention in site.sentence.mentions:
            if mention.kind == "objects" and head_noun(mention.entity) == head_noun(location):
                return f"{mention.text} would be in the {location}"
    return None


def _frames(sites: list[_Site]) -> set[tuple[str, bool]]:
    """Return how mentions are determined, and whether they are plural."""
    frames = set()
    for site in sites:
        determiner = site.determiner
        definite = determiner in word_list("determiners") or determiner.endswith(("'s", "s'"))
        sort = "definite" if definite else "indefinite" if determiner else "bare"
        frames.add((sort, site.mention.is_plural))
    return frames


def _neighbour_problem(site: _Site, *, same_head: bool) -> str | None:
    """Return what stands beside a mention that another noun may not fit, or None."""
    sentence, text = site.sentence, site.mention.text
    after = sentence.after(site.last)
    if after and after not in _AFTER_NOUNS and not site.mention.ending and not is_number(after):
        return f'"{text} {after}" may be one thing'
    before = sentence.before(site.first)
    if _is_thing(before):
        return f'"{before} {text}" may be one thing'
    measure = number_forms(sentence.before(site.first - 1))[0]
    is_pair = measure == "pair" and "pairs" in noun_classes("objects", site.mention.entity)
    if before == "of" and not (same_head or is_pair) and measure in word_list("measures"):
        return f'"{measure} of {text}" is a measure'
    if site.mention.kind == "locations" and site.determiner in ("a", "an", "another"):
        return f'"{site.determiner} … {text}" is no particular place'
    is_bare = site.mention.kind == "locations" and not site.determiner and text[0].islower()
    if is_bare and before in word_list("before_places_in_phrases"):
        return f'"{before} {text}" is a phrase'
    return None


def _is_thing(word: str) -> bool:
    """Return whether a word before a noun is a noun itself, as in "chicken curry"."""
    return bool(word) and word == word.lower() and bool(noun_classes("objects", word))
