"""Questions about a dialogue: what they ask, whether the answer is yes, and their words.

The types are those of the paper (Table 8, appendix A.2). A question gets a yes where the dialogue
establishes what it asks, else a no (see `world` for what a dialogue establishes). Where what it
takes for granted does not hold ("who put them there" of what is not there), or where people would
argue about the answer, there is none.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, get_args

from pragworld_tasks.dialogues.grammar import NUMBERS
from pragworld_tasks.dialogues.vocabulary import Cast, singular
from pragworld_tasks.dialogues.world import REPLIER, Mentioned, State

Fact = Literal[
    "any",  # there are things in the place
    "exactly",  # as many
    "more than",  # more
    "all",  # all of them are
    "some",  # some, and perhaps all, of them are
    "left",  # the agent put things in the place; and so on
    "left exactly",
    "left all",
    "left some",
]
Form = Literal[
    Fact,
    "where",  # somebody knows where the things are
    "who",  # somebody knows who put them in the place
    "how many",  # somebody knows how many are in the place
    "agent knows",  # the agent, not one of the two who speak, knows where the things are
    "went",  # the agent went to the place
    "moved",  # the agent moved the things to the place
    "told",  # the agent said where the things are
]
Kind = Literal["sure", "know", "quantity", "universal", "existential", "only-entity", "other"]


class Question(NamedTuple):
    """What is asked.

    Attributes:
        form: what it asks about the agent, the thing, the place and the number that it has.
        kind: its type; "sure" and "know" ask whether one of the two who speak is sure, or
            knows; "agent knows" whether somebody else does.
        knower: which of the two: 0 asks in the dialogue, 1 replies.
        wording: which of its forms of words, counted through.
    """

    form: Form
    kind: Kind
    agent: str = ""
    thing: str = ""
    place: str = ""
    number: int = 0
    knower: int = 0
    wording: int = 0


FORMS: dict[Kind, tuple[Form, ...]] = {
    "sure": ("where", "who", "how many", "all", "exactly", "any"),
    "know": ("where", "who", "how many", "agent knows", "all", "exactly", "left"),
    "quantity": ("exactly", "more than", "left exactly"),
    "universal": ("all", "left all"),
    "existential": ("some", "left some"),
    "only-entity": ("any", "left"),
    "other": ("went", "moved", "told"),
}
_FACTS: frozenset[str] = frozenset(get_args(Fact))


# Whether the answer is yes ------------------------------------------------------------------------


def evaluate(question: Question, state: State) -> bool | None:
    """Whether the answer is yes; None where there is no answer that people would agree on."""
    form, _, agent, thing, place, number, *_ = question
    if form in _FACTS:
        if form.startswith("left"):
            cell = state.acts.get((agent, thing, place))
        else:
            cell = state.cell(thing, place)
        if cell is None:
            return False
        if form in ("exactly", "left exactly"):
            return cell.counts == (number,)
        if form == "more than":
            return cell.least > number
        return cell.whole is True if form in ("all", "left all") else True
    if form == "where":
        return _located(state, thing)
    if form in ("who", "how many"):
        cell = state.cell(thing, place)
        if cell is None:
            return None if _known_not_there(state, thing, place) else False
        if form == "how many":
            return len(cell.counts) == 1
        # Who put "the things" there is asked of all of them.
        return None if cell.by_itself or not cell.whole else bool(cell.agents)
    if form == "agent knows":
        if (thing, agent) not in state.knowers:
            return False
        # Of those in one place, and of others that may be elsewhere: knows where they are, or not?
        partly = bool(state.cells.get(thing)) and _located(state, thing) is None
        return None if partly else True
    if form == "went":
        if (agent, place) in state.went:
            return True
        was_there = (agent, place) in state.was_at or any(
            who == agent and where == place for who, _, where in state.acts
        )
        return None if was_there and (agent, place) not in state.not_went else False
    if form == "moved":
        cell = state.acts.get((agent, thing, place))
        if cell is None:
            return False
        # Of some of the things, or of things that were nowhere before, people would argue.
        return True if (agent, thing, place) in state.moved and cell.whole else None
    if (thing, agent) not in state.said:
        return False
    return True if _located(state, thing) else None


def _located(state: State, thing: str) -> bool | None:
    """Whether it is known where the things are; None where it is of some of them."""
    cells = state.cells.get(thing)
    if not cells or thing in state.alternatives:
        return False
    if thing in state.spread or any(cell.whole for cell in cells.values()):
        return True
    return None


def _known_not_there(state: State, thing: str, place: str) -> bool:
    return (
        (thing, place) in state.absent
        or (thing, place) in state.left
        or (len(state.alternatives.get(thing, ())) == 2 and place not in state.alternatives[thing])
        or (bool(state.cells.get(thing)) and _located(state, thing) is True)
    )


# What can be asked --------------------------------------------------------------------------------


def askable(form: Form, kind: Kind, known: Mentioned, state: State) -> Iterator[Question]:
    """Every question of the form about whom and what the dialogue mentions.

    Numbers are those that the dialogue establishes of something.
    """
    agents: tuple[str, ...] = ("",)
    things: tuple[str, ...] = ("",)
    places: tuple[str, ...] = ("",)
    numbers: tuple[int, ...] = (0,)
    if form.startswith("left") or form in ("agent knows", "went", "moved", "told"):
        agents = known.agents
        if form in ("agent knows", "told"):
            agents = tuple(agent for agent in agents if agent != REPLIER)
    if form != "went":
        things = known.things
    if form not in ("where", "agent knows", "told"):
        places = known.places
    if form in ("exactly", "left exactly", "more than"):
        cells = [cell for places_of in state.cells.values() for cell in places_of.values()]
        if form == "more than":
            said = {cell.least - 1 for cell in cells if cell.least > 1}
        else:
            said = {cell.counts[0] for cell in cells if len(cell.counts) == 1}
        numbers = tuple(sorted(said))
    for agent in agents:
        for thing in things:
            for place in places:
                for number in numbers:
                    yield Question(form, kind, agent, thing, place, number)


def by_answer(asked: Iterable[Question], state: State) -> dict[bool, list[Question]]:
    """The questions by whether the answer is yes, without those that have none."""
    sorted_out: dict[bool, list[Question]] = {True: [], False: []}
    for question in asked:
        holds = evaluate(question, state)
        if holds is not None:
            sorted_out[holds].append(question)
    return sorted_out


# Its words ----------------------------------------------------------------------------------------


def question_text(question: Question, cast: Cast) -> str:
    """The question as it is asked."""
    form, kind, agent, thing, place, number, knower, wording = question
    slots = {
        "agent": cast.names[1] if agent == REPLIER else agent,
        "things": thing,
        "place": place,
        "number": NUMBERS[number],
        "knower": cast.names[knower],
    }
    if kind in ("sure", "know"):
        if form in _FACTS:
            options = _KNOWING[kind, "that"]
            slots["fact"] = _THAT[form].format_map(slots)
        else:
            options = _KNOWING[kind, form]
    else:
        options = _ASKING[form]
    text = options[wording % len(options)].format_map(slots)
    if number == 1 and thing:
        text = text.replace(f"exactly one {thing}", f"exactly one {singular(thing)}")
        text = text.replace(f"more than one {thing}", f"more than one {singular(thing)}")
        if "exactly one" in text:
            text = text.replace("Are there exactly", "Is there exactly")
            text = text.replace("there are exactly", "there is exactly")
        else:
            text = text.replace("Are there more", "Is there more")
    return text[0].upper() + text[1:]


_ASKING: dict[Form, tuple[str, ...]] = {
    "any": ("Are there any {things} in the {place}?", "Are there {things} in the {place}?"),
    "exactly": (
        "Are there exactly {number} {things} in the {place}?",
        "Is it true that there are exactly {number} {things} in the {place}?",
    ),
    "more than": ("Are there more than {number} {things} in the {place}?",),
    "all": (
        "Are all of the {things} in the {place}?",
        "Are all the {things} in the {place}?",
        "Is it true that all of the {things} are in the {place}?",
    ),
    "some": (
        "Are at least some of the {things} in the {place}?",
        "Is it true that at least some of the {things} are in the {place}?",
    ),
    "left": (
        "Did {agent} put any {things} in the {place}?",
        "Did {agent} leave any {things} in the {place}?",
    ),
    "left exactly": (
        "Did {agent} put exactly {number} {things} in the {place}?",
        "Did {agent} leave exactly {number} {things} in the {place}?",
    ),
    "left all": (
        "Did {agent} put all of the {things} in the {place}?",
        "Did {agent} leave all the {things} in the {place}?",
    ),
    "left some": (
        "Did {agent} put at least some of the {things} in the {place}?",
        "Did {agent} leave at least some of the {things} in the {place}?",
    ),
    "went": ("Did {agent} go to the {place}?",),
    "moved": ("Did {agent} move the {things} to the {place}?",),
    "told": ("Did {agent} say where the {things} are?",),
}
_KNOWING: dict[tuple[Kind, str], tuple[str, ...]] = {
    ("sure", "that"): ("Is {knower} sure that {fact}?", "Can {knower} be sure that {fact}?"),
    ("know", "that"): ("Does {knower} know that {fact}?",),
    ("sure", "where"): (
        "Is {knower} sure where the {things} are?",
        "Is {knower} sure about where the {things} are?",
    ),
    ("know", "where"): ("Does {knower} know where the {things} are?",),
    ("know", "agent knows"): ("Does {agent} know where the {things} are?",),
    ("sure", "who"): ("Is {knower} sure who put the {things} in the {place}?",),
    ("know", "who"): (
        "Does {knower} know who put the {things} in the {place}?",
        "Does {knower} know who left the {things} in the {place}?",
    ),
    ("sure", "how many"): (
        "Is {knower} sure how many {things} are in the {place}?",
        "Is {knower} sure about how many {things} are in the {place}?",
    ),
    ("know", "how many"): ("Does {knower} know how many {things} are in the {place}?",),
}
_THAT: dict[str, str] = {
    "any": "there are {things} in the {place}",
    "exactly": "there are exactly {number} {things} in the {place}",
    "all": "all of the {things} are in the {place}",
    "left": "{agent} put {things} in the {place}",
}
