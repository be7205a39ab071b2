"""The turns of a conversation: what a sentence replies to, and what takes it up.

Most alterations are safe only where nothing else in the conversation depends on the sentence. The
functions here answer that from words alone, and in doubt say that something depends on it.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pragworld_tasks.text_alterations.inflection import word_list
from pragworld_tasks.text_alterations.tokens import Sentence


@dataclass(frozen=True, slots=True)
class TurnSentence:
    """A sentence with those before and after it in its turn, and in the turns around.

    `previous` ends the turn before; `next` and `reply_to_next` begin the two turns after.
    """

    sentence: Sentence
    earlier: tuple[Sentence, ...]
    later: tuple[Sentence, ...]
    previous: Sentence | None
    next: Sentence | None
    reply_to_next: Sentence | None

    @property
    def turn_words(self) -> set[str]:
        """The words of the whole turn in lower case."""
        turn = (*self.earlier, self.sentence, *self.later)
        return {word for sentence in turn for word in sentence.lower}

    @property
    def answers(self) -> str:
        """What the turn replies to: "yes or no", "wh", "other" for requests and the like, or ""."""
        return question_form(self.previous) if self.previous else ""

    @property
    def is_left_behind(self) -> bool:
        """Whether what follows, if anything, is a question that names something of its own."""
        after = self.later[-1] if self.later else self.next
        if after is None:
            return True
        own = {mention.entity for mention in self.sentence.mentions}
        is_new = any(mention.entity not in own for mention in after.mentions)
        return after.is_question and "there" not in after.lower and is_new

    @property
    def is_taken_up(self) -> bool:
        """Whether something after the sentence may depend on what it says."""
        if self.later:  # the next turn takes up the last of them
            return any(not _stands_alone(sentence) for sentence in self.later)
        if self.next is None:
            return False
        # "… / What about the dog? / It is here, too."
        reply = self.reply_to_next if continues_question(self.next) else None
        return _takes_up(self.next) or (reply is not None and _has(reply, "follow_up_words"))


def turn_sentences(sentences: Sequence[Sentence]) -> Iterator[TurnSentence]:
    """Yield the sentences of a conversation with those around them."""
    turns = [[*turn] for _, turn in itertools.groupby(sentences, key=lambda each: each.utterance)]
    for number, turn in enumerate(turns):
        previous = turns[number - 1][-1] if number else None
        following = [*(later[0] for later in turns[number + 1 : number + 3]), None, None][:2]
        for place, sentence in enumerate(turn):
            earlier, later = tuple(turn[:place]), tuple(turn[place + 1 :])
            yield TurnSentence(sentence, earlier, later, previous, *following)


def question_form(sentence: Sentence) -> str:
    """Return "yes or no", "wh" or "other" for a question, and "" for anything else.

    "Other" are requests and offers ("can I …"), negative and alternative questions, and tags.
    """
    if not sentence.is_question:
        return ""
    fillers = word_list("before_questions")
    words = [*itertools.dropwhile(lambda word: word in fillers, sentence.lower), ""]
    if words[1:2] == ["about"]:
        return ""  # "how about", "what about": a proposal
    if words[0] in word_list("wh_words"):
        return "wh"
    is_plain = words[0] in word_list("plain_auxiliaries") and "or" not in words
    return "yes or no" if is_plain else "other"


def continues_question(sentence: Sentence) -> bool:
    """Return whether a question asks of something else what was asked: "Or …?", "What about …?"."""
    words = sentence.lower
    is_fragment = {*word_list("auxiliaries")}.isdisjoint(words)
    continues = words[0] == "or" or (is_fragment and (words[0] == "and" or "about" in words[:3]))
    return sentence.is_question and continues


def _stands_alone(sentence: Sentence) -> bool:
    """Return whether a sentence after another in a turn is a question of its own."""
    begins = (*word_list("follow_ups"), *word_list("pronoun_follow_ups"))
    is_new = sentence.at(0) not in begins
    return sentence.is_question and is_new and not _has(sentence, "follow_up_pronouns")


def _takes_up(sentence: Sentence) -> bool:
    """Return whether the first sentence of the next turn may depend on the one before."""
    first = sentence.at(0)
    if first in word_list("pronoun_follow_ups"):
        return not (sentence.is_question and first == "there")
    if first in word_list("follow_ups") and not (first == "how" and sentence.mentions):
        return True
    is_vague = question_form(sentence) == "wh" and not sentence.mentions
    return is_vague or _has(sentence, "follow_up_words")


def _has(sentence: Sentence, name: str) -> bool:
    return not {*word_list(name)}.isdisjoint(sentence.lower)
