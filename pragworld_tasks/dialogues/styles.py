"""How people talk in each domain: the phrases that sentences are built from."""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise

from pragworld_tasks.dialogues.scenes import SCENES
from pragworld_tasks.dialogues.vocabulary import Domain


@dataclass(frozen=True)
class Style:
    """The phrases that people use in one domain.

    Attributes:
        verbs: Verbs for putting something somewhere, in the base form and in the past tense.
        where: Questions that ask for the place of `{things}`. `{are}` and `{they}` agree with it.
        where_next: Further ones, after another question of this form.
        small_talk: Remarks or questions, each with a reply.
        scenes: Conversations of several such pairs, for `scenes.scene_text`.
        openers: What questions may begin with.
        afterthoughts: What replies that are not "I don't know" may end with.
        changes_of_subject: What questions that follow small talk may begin with.
        containers: What things may be in.
        went: Verbs for going somewhere, in the past tense.
        wh: The word that asks for a place.
        article: The article of a place.
        at, put_at: Prepositions for where things are and where people put them.
        there, put_there: Adverbs for the same.
        is_of_times: Whether things are events and places are times.
        is_plain: Whether people write like those of the released dialogues about things and places:
            in lower case, without full stops and question marks, and in their phrases.
    """

    verbs: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    where_next: tuple[str, ...]
    small_talk: tuple[tuple[str, str], ...]
    scenes: tuple[tuple[tuple[str, str], ...], ...] = ()
    openers: tuple[str, ...] = ("",)
    afterthoughts: tuple[str, ...] = ("",)
    changes_of_subject: tuple[str, ...] = ("",)
    containers: tuple[str, ...] = ()
    went: tuple[str, ...] = ("went", "walked")
    wh: str = "where"
    article: str = "the "
    at: str = "in"
    put_at: str = "in"
    there: str = "there"
    put_there: str = "there"
    is_of_times: bool = False
    is_plain: bool = False

    @cached_property
    def chat(self) -> tuple[tuple[str, str], ...]:
        """All small talk and then the pairs of all scenes."""
        return (*self.small_talk, *chain(*self.scenes))

    @cached_property
    def scene_numbers(self) -> list[range]:
        """For each scene, the positions of its pairs in `chat`."""
        bounds = accumulate(map(len, self.scenes), initial=len(self.small_talk))
        return [range(*pair) for pair in pairwise(bounds)]

    def named(self, place: str) -> str:
        """Return the name of a place with its article."""
        return self.article + place

    def where_it_is(self, place: str | None) -> str:
        """Return "in the hall", or "there" for None."""
        return f"{self.at} {self.article}{place}" if place else self.there

    def where_it_was_put(self, place: str | None) -> str:
        """Return "in the hall", or "there" for None, as the goal of putting something."""
        return f"{self.put_at} {self.article}{place}" if place else self.put_there

    def written(self, text: str) -> str:
        """Return a text, which starts in lower case unless with a name, as people write it."""
        return text.rstrip(".?") if self.is_plain else text[0].upper() + text[1:]


STYLES: dict[Domain, Style] = {
    "household": Style(
        verbs=(("leave", "left"), ("put", "put"), ("place", "placed")),
        where=(
            *("where can I get {things}?",) * 3,
            *("where can I find {things}?",) * 2,
            *("where {are} {things}?",) * 2,
            *("did you see {things}?",) * 2,
        ),
        where_next=(*("how about {things}?",) * 2, *("what about {things}?",) * 2),
        small_talk=(),
        containers=(
            *("envelope", "drawer", "suitcase", "box", "crate") * 2,
            *("container", "cupboard", "basket", "bottle"),
        ),
        went=("went", "walked", "travelled", "journeyed"),
        is_plain=True,
    ),
    "shop": Style(
        verbs=(("leave", "left"), ("put", "put"), ("store", "stored")),
        where=(
            "where {are} {things}?",
            "where would I find {things}?",
            "could you tell me where {things} {are}?",
            "I'm looking for {things}. Where {are} {they}?",
            "a customer wants {things}. Where {are} {they}?",
        ),
        where_next=("and {things}?", "what about {things}?"),
        small_talk=(
            ("it's busy today.", "It always is before the holidays."),
            ("is parking free here?", "For the first hour."),
            ("I like the new sign.", "It went up last week."),
            ("how late are we open?", "Until eight."),
            ("the music is nice.", "The radio chooses it."),
            ("is it still raining?", "Only a little."),
            ("the heating is on again.", "I turned it down a moment ago."),
            ("have you had your break yet?", "I'll take it at noon."),
            ("that customer was friendly.", "She comes in every week."),
            ("my feet hurt.", "Sit down for a minute."),
            ("did you repair the till?", "It only needed new paper."),
            ("who sang so loudly this morning?", "The postman. He's in love."),
            ("it's almost time to close.", "I'll count the money, then."),
            ("the window looks great.", "It took us the whole evening."),
        ),
        containers=("box", "crate", "cupboard", "carton", "container", "cabinet"),
    ),
    "clinic": Style(
        verbs=(("leave", "left"), ("put", "put"), ("store", "stored")),
        where=(
            "where {are} {things}?",
            "do you happen to know where {things} {are}?",
            "where might {things} be?",
            "I need {things}. Where {are} {they}?",
            "have you seen {things}?",
        ),
        where_next=("and {things}?", "how about {things}?"),
        small_talk=(
            ("the new plants are nice.", "They like the light here."),
            ("it's warm in here.", "I'll open a window."),
            ("is the lift working again?", "Since this morning."),
            ("it's a long way from the car park.", "A good walk, though."),
            ("it has been a quiet morning.", "Let's hope it stays that way."),
            ("the coffee here is terrible.", "The tea is better."),
            ("did you get any sleep last night?", "Four hours, and a short nap."),
            ("the phones never stop today.", "It's always like this after a holiday."),
            ("are you on duty at the weekend?", "Only until noon."),
            ("somebody left us a cake.", "The family of a patient brought it."),
            ("my new shoes are killing me.", "Mine took a month to get used to."),
            ("have the new computers arrived?", "Not before the end of the month."),
            ("the lights are flickering again.", "The electrician is on his way."),
            ("that was a long meeting.", "And nobody decided anything."),
        ),
        containers=("box", "crate", "cupboard", "cabinet", "container", "locker"),
    ),
    "everyday": Style(
        verbs=(("arrange", "arranged"), ("schedule", "scheduled"), ("plan", "planned")),
        where=(
            "when is {things}?",
            "do you remember when {things} is?",
            "could you tell me when {things} is?",
            "I can't find {things} in my calendar. When is it?",
            "I keep forgetting the date of {things}. When is it?",
            "my sister asked about {things}. Do you know when it is?",
            "have they told you when {things} is?",
        ),
        where_next=("and {things}?", "what about {things}?"),
        openers=(
            *("",) * 24,
            "oh, ",
            "listen, ",
            "and another question: ",
            "one more thing: ",
            "I've been wondering, ",
        ),
        changes_of_subject=(
            "",
            "",
            "by the way, ",
            "before I forget: ",
            "I meant to ask you: ",
            "anyway, ",
            "to change the subject, ",
            "on another note, ",
            "while you're here: ",
            "now to our plans: ",
            "now to something else: ",
        ),
        afterthoughts=(
            *("",) * 24,
            " We talked about it on the phone.",
            " I got a message about it an hour ago.",
            " I looked it up this morning.",
            " I've just checked.",
            " I asked about it yesterday.",
            " Somebody mentioned it at lunch.",
            " I read it in the group chat.",
            " There was an email about it.",
        ),
        small_talk=(
            ("you look tired today.", "I stayed up late with a good book."),
            ("how was your weekend?", "Quiet, for once. I slept until ten."),
            ("did you see the match last night?", "Only the second half, but what a half!"),
            ("I really need a holiday.", "Who doesn't? Let's save up for the sea."),
            ("is your mother feeling better?", "Much better, thanks. The doctor was very kind."),
            ("my bicycle has a flat tyre again.", "You can borrow mine until it's repaired."),
            ("what a lovely jacket!", "Thank you. It was half price at the department store."),
            ("have you had lunch yet?", "Just a sandwich. I'm trying to eat less."),
            ("it's pouring outside.", "And I left my umbrella on the bus."),
            ("the new neighbours seem nice.", "They brought us a cake when they moved in."),
            ("my car wouldn't start this morning.", "It's probably the battery."),
            ("did you finish the report?", "Almost. One page is still missing."),
            ("how is your English course going?", "Well, I can order coffee without blushing."),
            ("would you like something to drink?", "A glass of water would be great."),
            ("I can't find my keys anywhere.", "Have you looked under the newspaper?"),
            ("the train was late again.", "That's why I take the bus."),
            ("my phone bill is twice as high as usual.", "Then call them and ask."),
            ("your dog has grown a lot.", "He eats more than I do."),
            ("I've started running before work.", "You must get up very early, then."),
            ("do you know a good dentist?", "Mine is gentle, but not cheap."),
        ),
        scenes=SCENES,
        wh="when",
        article="",
        at="on",
        put_at="for",
        there="then",
        put_there="for then",
        is_of_times=True,
    ),
}
