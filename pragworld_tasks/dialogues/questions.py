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
from pragworld_tasks.dialogues.vocabulary import Domain, Names, NounNumber, domain_style, number_of
from pragworld_tasks.dialogues.world import REPLIER, Cell, State
from pragworld_tasks.files import read_package_toml

QuestionForm = Literal[
    "the",  # the things are in the place
    "any",  # there are things in the place
    "all",  # all of the things are in the place
    "some",  # some, and perhaps all, of the things are in the place
    "left",  # the agent put the things in the place
    "know where",  # the speaker who asks knows where the things are, or is sure about it
    "sure where",
    "know who",  # … who put them in the place
    "sure who",
    "know how many",  # … how many they are
    "sure how many",
]
QUESTION_FORMS: tuple[QuestionForm, ...] = get_args(QuestionForm)
_ABOUT_AMOUNTS = frozenset(("any", "all", "some", "know how many", "sure how many"))
_COUNTING = frozenset(("know how many", "sure how many"))


class Question(NamedTuple):
    """A yes/no question; `wording` is the number of its phrase."""

    form: QuestionForm
    agent: str = ""
    thing: str = ""
    place: str = ""
    wording: int = 0

    @property
    def is_about_speaker(self) -> bool:
        """Whether the question is about what a speaker knows or is sure about."""
        return self.form.startswith(("know", "sure"))


# The answer ---------------------------------------------------------------------------------------


def evaluate(question: Question, state: State) -> bool | None:
    """Return whether the answer is yes, or None if people would not agree on an answer."""
    if question.is_about_speaker and question.thing in state.reported:
        return None  # hearsay: some take it for knowledge of the speaker who passes it on
    holds = _is_established(question, state)
    if holds is False and question.thing in state.doubted and not question.is_about_speaker:
        # Whether what was only likely is so is open.
        return False if _is_excluded(question, state) else None
    return holds


def _is_established(question: Question, state: State) -> bool | None:
    form, agent, thing, place, _ = question
    cells, cell = state.cells.get(thing, {}), state.cell(thing, place)
    if form == "left":
        # Whether "the things" stands for some of them is disputable.
        is_done = cell is not None and agent in cell.agents
        return (cell.whole or None) if cell and is_done else False
    if form.endswith("where"):
        return _is_located(state, thing)
    if form.endswith("who"):
        if cell is None:
            return None if _is_known_absent(state, thing, place) else False
        # "Who put the things there?" is about all of them.
        return bool(cell.agents) if cell.whole else None
    if form.endswith("how many"):
        # "Three are there" tells how many they are only if all of them are there.
        is_counted = any(len(known.counts) == 1 for known in cells.values())
        return (all(known.whole for known in cells.values()) or None) if is_counted else False
    if cell is None:
        return False
    if form == "all":
        if len(cells) > 1:
            return False
        # "Three are there" may be all of them, and "three of them" may be not all.
        return None if cell.whole and cell.counted else cell.whole
    return True if form in ("any", "some") else cell.whole or None


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
    form, agent, thing, place, _ = question
    cells, cell = state.cells.get(thing, {}), state.cell(thing, place)
    if form.endswith("where"):
        return thing in state.alternatives or ("where", thing, "") in state.unanswered
    if form.endswith("who"):
        return ("who", thing, place) in state.unanswered or bool(cell and cell.one_agent_of)
    if form.endswith("how many"):
        is_asked = any(kind == "count" and thing == name for kind, name, _ in state.unanswered)
        return is_asked or any(known.counted for known in cells.values())
    if form == "left":
        return not _may_have_put(state, agent, thing, place, cell)
    if cell is None and _is_known_absent(state, thing, place):
        return True
    return form == "all" and bool(len(cells) > (cell is not None) or (cell and cell.whole is False))


def _may_have_put(state: State, agent: str, thing: str, place: str, cell: Cell | None) -> bool:
    """Return whether the agent may have put things in the place, where the cell is."""
    if (agent, thing, place) in state.denied_acts or (agent, place) in state.not_went:
        return False
    agents: Sequence[str] | frozenset[str] = ()
    if cell is not None:
        agents = cell.agents or cell.one_agent_of
    elif place in state.alternatives.get(thing, ()):
        agents = state.alternative_agents.get(thing, ())
    elif _is_known_absent(state, thing, place):
        return False
    return not agents or agent in agents


# The possible questions ---------------------------------------------------------------------------


def questions_by_answer(
    form: QuestionForm, names: Names, state: State, keeps_undetermined: bool = True
) -> dict[Answer, list[Question]]:
    """Return the questions of the form about the names, by their answer.

    Questions without an answer are left out, and perhaps those whose answer is undetermined.
    """
    questions: dict[Answer, list[Question]] = {"yes": [], "no": []}
    for question in possible_questions(form, names):
        holds = evaluate(question, state)
        if holds or (holds is False and (keeps_undetermined or _is_excluded(question, state))):
            questions["yes" if holds else "no"].append(question)
    return questions


def possible_questions(form: QuestionForm, names: Names) -> Iterator[Question]:
    """Yield the questions of the form about the names, apart from their wording."""
    agents = [name for name in names.agents if name != REPLIER] if form == "left" else [""]
    things = [thing for thing in names.things if _may_ask(form, number_of(thing))]
    places = [""] if form.endswith(("where", "how many")) else names.places
    for agent, thing, place in product(agents, things, places):
        yield Question(form, agent, thing, place)


def _may_ask(form: QuestionForm, number: NounNumber) -> bool:
    """Return whether the form can ask about things whose noun has this number."""
    return number == "plural" or form not in (_COUNTING if number == "mass" else _ABOUT_AMOUNTS)


# The text -----------------------------------------------------------------------------------------


def question_text(question: Question, domain: Domain) -> str:
    """Return the question as text.

    >>> question_text(Question("know where", thing="vases"), "shop")
    'Does the woman know where the vases are?'
    """
    form, agent, thing, place, wording = question
    number = number_of(thing)
    tables: Mapping[str, Mapping[str, Sequence[str]]] = read_package_toml(
        __package__, "questions.toml"
    )
    phrases = tables[number].get(form) or tables["plural"][form]
    if number == "plural":
        phrases = tables.get(domain, {}).get(form, phrases)
    are = "are" if number == "plural" else "is"
    text = phrases[wording % len(phrases)].format(agent=agent, things=thing, place=place, are=are)
    return text if domain_style(domain).is_plain else text[0].upper() + text[1:]


def question_shares() -> Mapping[QuestionForm, int]:
    """Return how often the manual split has each form of question about things and places."""
    shares: Mapping[QuestionForm, int] = read_package_toml(__package__, "questions.toml")["shares"]
    return shares
