"""Questions about a dialogue: which can be asked, whether the answer is yes, and their text.

The kinds of questions are those of the paper (Table 8, appendix A.2). The answer is yes if the
dialogue establishes what the question asks, and no otherwise; `world` says what a dialogue
establishes. A question has no answer if its presupposition fails ("who put them there" of things
that are not there) or if people would disagree about the answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple, get_args

from pragworld_tasks.data.documents import Answer, Basis
from pragworld_tasks.dialogues.sentences import NUMBERS
from pragworld_tasks.dialogues.vocabulary import (
    Cast,
    Names,
    NounNumber,
    is_event,
    is_time,
    number_of,
    singular,
)
from pragworld_tasks.dialogues.world import NOWHERE, REPLIER, Cell, State
from pragworld_tasks.files import read_package_toml

Fact = Literal[
    "any",  # there are things in the place
    "exactly",  # there are exactly as many
    "more than",  # there are more
    "all",  # all of the things are in the place
    "some",  # some, and perhaps all, of the things are in the place
    "left",  # the agent put things in the place
    "left exactly",
    "left all",
    "left some",
]
QuestionForm = Literal[
    Fact,
    "where",  # a speaker knows where the things are
    "who",  # a speaker knows who put them in the place
    "how many",  # a speaker knows how many are in the place
    "agent knows",  # the agent, who is not a speaker, knows where the things are
    "went",  # the agent went to the place
    "moved",  # the agent moved the things to the place
    "told",  # the agent said where the things are
]
QuestionKind = Literal[
    "sure", "know", "quantity", "universal", "existential", "only-entity", "other"
]


class Question(NamedTuple):
    """A yes/no question, apart from its wording.

    Attributes:
        form: What the question asks about its agent, thing, place and number.
        kind: The paper's type of question. "sure" and "know" ask whether a speaker is sure of
            something or knows it.
        knower: Which speaker "sure" and "know" ask about: 0 asks in the dialogue, 1 replies.
        wording: Number of the phrase.
    """

    form: QuestionForm
    kind: QuestionKind
    agent: str = ""
    thing: str = ""
    place: str = ""
    number: int = 0
    knower: int = 0
    wording: int = 0


QUESTION_FORMS: dict[QuestionKind, tuple[QuestionForm, ...]] = {
    "sure": ("where", "who", "how many", "all", "exactly", "any"),
    "know": ("where", "who", "how many", "agent knows", "all", "exactly", "left"),
    "quantity": ("exactly", "more than", "left exactly"),
    "universal": ("all", "left all"),
    "existential": ("some", "left some"),
    "only-entity": ("any", "left"),
    "other": ("went", "moved", "told"),
}
_OF_AGENTS = frozenset(("left", "who", "moved"))  # forms about who puts an event at a time
# The forms of questions about events and about when people are free.
EVERYDAY_FORMS: dict[QuestionKind, tuple[QuestionForm, ...]] = {
    "sure": ("where", "who", "any"),
    "know": ("where", "who", "agent knows", "left"),
    "other": ("any", "any", "left", "went", "moved", "told"),
}
_FACTS: frozenset[str] = frozenset(get_args(Fact))
_ACTS = frozenset(form for form in _FACTS if form.startswith("left"))
# Forms about what the people know and said whom the dialogue names.
_OF_HEARERS: frozenset[QuestionForm] = frozenset(("agent knows", "told"))
# The forms that can ask about things whose noun has this number.
_OF_ALL: frozenset[QuestionForm] = frozenset(
    ("any", "left", "where", "who", "agent knows", "moved", "told")
)
_ASKED: dict[NounNumber, frozenset[QuestionForm]] = {
    "plural": frozenset(form for forms in QUESTION_FORMS.values() for form in forms),
    "mass": _OF_ALL | frozenset(("all", "some", "left all", "left some")),
    "singular": _OF_ALL,
}


# The answer ---------------------------------------------------------------------------------------


def evaluate(question: Question, state: State) -> bool | None:
    """Return whether the answer is yes, or None if people would not agree on an answer."""
    if question.form not in _OF_HEARERS and _is_hearsay(question, state):
        return None
    holds = _is_established(question, state)
    if not holds and question.thing in state.agreed and question.form in _OF_AGENTS:
        return None  # whoever agrees on the time of an event may be said to arrange it
    if holds is False and (question.thing or question.agent) in state.doubted:
        # Nobody is sure of what was only likely or was taken back. Whether it is so is open.
        is_about_speaker = question.kind in ("sure", "know") and question.form != "agent knows"
        if not is_about_speaker and not _is_excluded(question, state):
            return None
    return holds


def _is_hearsay(question: Question, state: State) -> bool:
    """Return whether people would disagree on what hearsay establishes.

    Some trust it at second hand, or take it for knowledge of the speaker who passes it on.
    """
    is_about_speaker = question.kind in ("sure", "know")
    return question.thing in (state.reported if is_about_speaker else state.passed_on)


def _is_established(question: Question, state: State) -> bool | None:
    form, _, agent, thing, place, number, *_ = question
    if form in _FACTS:
        is_of_act = form in _ACTS
        cell = state.acts.get((agent, thing, place)) if is_of_act else state.cell(thing, place)
        if cell is None:
            return False
        if form in ("exactly", "left exactly"):
            return cell.counts == (number,)
        if form == "more than":
            return cell.least > number
        if form in ("all", "left all"):
            if len(state.cells[thing]) > 1:
                return False
            # "Three are there" may be all of them, and "three of them" may be not all.
            return None if cell.whole and cell.counted else cell.whole
        return True
    if form in ("where", "agent knows", "told") and state.cell(thing, NOWHERE):
        return None  # whether anybody knows where they are, now that they do not exist
    if form == "where":
        return _is_located(state, thing)
    if form in ("who", "how many"):
        cell = state.cell(thing, place)
        if cell is None:
            return None if _is_known_absent(state, thing, place) else False
        if form == "how many":
            return len(cell.counts) == 1
        # "Who put the things there?" is about all of them.
        return None if cell.by_itself or not cell.whole else bool(cell.agents)
    if form == "agent knows":
        if (thing, agent) not in state.knowers:
            return False
        # If some are in one place and others may be elsewhere, people would disagree.
        partly = bool(state.cells.get(thing)) and _is_located(state, thing) is None
        return None if partly else True
    if form == "went":
        if (agent, place) in state.went:
            return True
        was_there = (agent, place) in state.was_at or any(
            act[0] == agent and act[2] == place for act in state.acts
        )
        return None if was_there and (agent, place) not in state.not_went else False
    if form == "moved":
        cell = state.acts.get((agent, thing, place))
        if cell is None:
            return False
        # People would disagree about some of the things, or about things that were nowhere before.
        return True if (agent, thing, place) in state.moved and cell.whole else None
    if agent not in state.reported.get(thing, ()):
        return False
    return True if _is_located(state, thing) else None


def _is_located(state: State, thing: str) -> bool | None:
    """Return whether it is known where the things are, or None if that holds for some of them."""
    cells = state.cells.get(thing)
    if not cells or thing in state.alternatives:
        return False
    if thing in state.spread or any(cell.whole for cell in cells.values()):
        return True
    return None


def _is_known_absent(state: State, thing: str, place: str) -> bool:
    return (
        (thing, place) in state.absent
        or (thing, place) in state.vacated
        or (len(state.alternatives.get(thing, ())) == 2 and place not in state.alternatives[thing])
        or _is_located(state, thing) is True
    )


# What the answer rests on -------------------------------------------------------------------------


def basis(question: Question, state: State) -> Basis | None:
    """Return what the answer rests on, or None if people would not agree on an answer.

    What was said excludes that a speaker is sure of something or knows it if the dialogue asks
    about it and leaves it open.
    """
    holds = evaluate(question, state)
    if holds is None:
        return None
    if holds:
        return "entailed"
    return "excluded" if _is_excluded(question, state) else "undetermined"


def _is_excluded(question: Question, state: State) -> bool:
    """Return whether what was said excludes what the question asks, which does not hold."""
    form, kind, agent, thing, place, *_ = question
    cell = state.cell(thing, place)
    if form in _FACTS:
        return _is_fact_excluded(question, state) or (
            kind in ("sure", "know") and _is_fact_open(question, state)
        )
    if form == "where":
        return _is_place_open(state, thing)
    if form == "who":
        return ("who", thing, place) in state.unanswered or bool(cell and cell.one_agent_of)
    if form == "how many":
        return ("count", thing, place) in state.unanswered or bool(cell and cell.counted)
    if form == "agent knows":
        return (thing, agent) in state.not_knowers
    if form == "went":
        return (agent, place) in state.not_went
    return form == "moved" and not _may_have_put(state, agent, thing, place, cell)


def _is_fact_excluded(question: Question, state: State) -> bool:
    form, _, agent, thing, place, number, *_ = question
    cell = state.cell(thing, place)
    if form in _ACTS:
        cell = cell or state.vacated.get((thing, place))
        if not _may_have_put(state, agent, thing, place, cell):
            return True
    elif cell is None and _is_known_absent(state, thing, place):
        return True
    if form in ("all", "left all"):
        elsewhere = len(state.cells.get(thing, ())) - (cell is not None)
        return elsewhere > 0 or (cell is not None and cell.whole is False)
    if cell is None or not cell.counted:
        return False
    if form == "more than":
        return bool(cell.counts) and max(cell.counts) <= number
    if form in ("exactly", "left exactly"):
        return number < cell.least or (bool(cell.counts) and number not in cell.counts)
    return False


def _may_have_put(state: State, agent: str, thing: str, place: str, cell: Cell | None) -> bool:
    """Return whether the agent may have put things in the place, where the cell is or was."""
    if (agent, thing, place) in state.denied_acts:
        return False
    if (thing, agent) in state.not_knowers and (thing, place) not in state.vacated:
        return False
    if cell is None:
        agents: Sequence[str] | frozenset[str] = ()
        if place in state.alternatives.get(thing, ()):
            agents = state.alternative_agents.get(thing, ())
        elif _is_known_absent(state, thing, place):
            return False
    elif cell.by_itself:
        return False
    else:
        agents = cell.agents or cell.one_agent_of
    return not agents or agent in agents


def _is_fact_open(question: Question, state: State) -> bool:
    """Return whether the dialogue asks about the fact, or speaks of it, and leaves it open."""
    form, _, _, thing, place, *_ = question
    if _is_place_open(state, thing) or ("whether", thing, place) in state.unanswered:
        return True
    cell = state.cell(thing, place)
    if form == "exactly":
        return ("count", thing, place) in state.unanswered or bool(cell and cell.counted)
    if form == "left":
        return ("who", thing, place) in state.unanswered or bool(cell and cell.one_agent_of)
    return False


def _is_place_open(state: State, thing: str) -> bool:
    return thing in state.alternatives or ("where", thing, "") in state.unanswered


# The possible questions ---------------------------------------------------------------------------


def questions_by_answer(
    form: QuestionForm, kind: QuestionKind, names: Names, state: State
) -> dict[Answer, list[Question]]:
    """Return the questions of the form about the names, by their answer.

    Questions without an answer are left out.

    Args:
        form: Form of the questions.
        kind: Kind of the questions.
        names: The names to ask about. Numbers are those that the dialogue establishes.
        state: What the dialogue establishes.
    """
    questions: dict[Answer, list[Question]] = {"yes": [], "no": []}
    for question in _possible_questions(form, kind, names, state):
        holds = evaluate(question, state)
        if holds is not None:
            questions["yes" if holds else "no"].append(question)
    return questions


def _possible_questions(
    form: QuestionForm, kind: QuestionKind, names: Names, state: State
) -> Iterator[Question]:
    agents: tuple[str, ...] = ("",)
    things: tuple[str, ...] = ("",)
    places: tuple[str, ...] = ("",)
    numbers = [0]
    if form in _ACTS or form in ("agent knows", "went", "moved", "told"):
        agents = names.agents
        if form in ("agent knows", "told"):
            agents = tuple(agent for agent in agents if agent != REPLIER)
    if form != "went":
        things = tuple(thing for thing in names.things if form in _ASKED[number_of(thing)])
    if form not in ("where", "agent knows", "told"):
        places = names.places
    if form in ("exactly", "left exactly", "more than"):
        cells = [cell for in_places in state.cells.values() for cell in in_places.values()]
        if form == "more than":
            numbers = sorted({cell.least - 1 for cell in cells if cell.least > 1})
        else:
            numbers = sorted({cell.counts[0] for cell in cells if len(cell.counts) == 1})
    for agent, thing, place, number in product(agents, things, places, numbers):
        yield Question(form, kind, agent, thing, place, number)


# The text -----------------------------------------------------------------------------------------


def question_text(question: Question, cast: Cast) -> str:
    """Return the question as text.

    >>> from pragworld_tasks.dialogues.vocabulary import CASTS
    >>> question = Question("exactly", "sure", thing="vases", place="vault", number=1)
    >>> question_text(question, CASTS[1])
    'Is the woman sure that there is exactly one vase in the vault?'
    """
    form, kind, agent, thing, place, number, knower, wording = question
    slots = {
        "agent": cast.names[1] if agent == REPLIER else agent,
        "things": thing,
        "place": place,
        "number": NUMBERS[number],
        "knower": cast.names[knower],
    }
    noun = _noun_class(thing, place)
    slots["are"] = "are" if noun == "plural" else "is"
    key: str = form
    if kind in ("sure", "know"):
        key = f"{kind} {form}"
        if form in _FACTS:
            key = f"{kind} that"
            slots["fact"] = _phrases_for(f"that {form}", noun)[0].format_map(slots)
    phrases = _phrases_for(key, noun)
    text = phrases[wording % len(phrases)].format_map(slots)
    if number == 1 and thing:
        text = text.replace(f"one {thing}", f"one {singular(thing)}")
        if "exactly one" in text:
            text = text.replace("Are there exactly", "Is there exactly")
            text = text.replace("there are exactly", "there is exactly")
        else:
            text = text.replace("Are there more", "Is there more")
    return text[0].upper() + text[1:]


def _noun_class(thing: str, place: str) -> Literal[NounNumber, "event"]:
    if is_event(thing) or is_time(place):
        return "event"
    return number_of(thing) if thing else "plural"


def _phrases_for(key: str, noun: Literal[NounNumber, "event"]) -> list[str]:
    table: Mapping[str, Mapping[str, list[str]]] = read_package_toml(__package__, "questions.toml")
    return table[noun].get(key) or table["plural"][key]
