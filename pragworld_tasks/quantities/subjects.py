"""What a clause is about: what was asked for, or something else that takes, costs or lasts too."""

import re

from pragworld_tasks.quantities.context import Context, Question, stems
from pragworld_tasks.quantities.favourable import PREDICTION
from pragworld_tasks.quantities.numerals import numerals
from pragworld_tasks.quantities.tables import vocabulary

_CLAUSE_BEGINS = re.compile(
    r"[.;:(!?—]|, |\b(?:and|but|so|then|that|which|while|because|since)\b(?!')"
    r"|(?=\bthat')",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[a-z]+")
_FIRST_WORDS = 4  # by which a subject is known
_ARTICLES = {"the", "a", "an", "so", "our"}
# Words that may mean what was asked for, or somebody who was asked about; the prompt's words do so
# too.
_SUBJECTS = vocabulary(
    "i you we it they this that these those he she one your my everything total totals overall sum "
    "cost costs price time duration trip journey drive route number amount answer estimate result "
    "budget figure range city program savings loss gain supply change hike expenses tax taxes bill "
    "liability rent shipment full whole altogether most people person someone anyone hiker adult "
    "there all both shipping moving driving delivery deliveries conclusion value medication which "
    "i'd you'd we'd it'd they'd that'd i'll you'll we'll it'll they'll that'll you're we're it's "
    "that's bottle stock pills tablets scenario option method irs uncle government "
    "adding summing multiplying dividing rounding combining putting "
    "spreading converting taking"
)
# Of, in or for what a quantity is, behind it: `of interest`, `for parking`, `to reach the airport`.
_PURPOSE = re.compile(
    r"^\W*(?:or so )?(?:of|in|for|at|to)(?: (?:the|your|an?|this|each|some|all))?(?: average)? "
    r"(?P<words>[a-z]+(?: [a-z]+)?)",
    re.IGNORECASE,
)
# Words there that leave it what was asked for.
_WHOLES = vocabulary(
    "total all everything day year month week whole entire full time money cost costs hour hours "
    "minutes dollars get complete finish do be cover make that this it them those these both "
    "medication supply weight body annual annually federal expenses trip way "
    "hike route most next days years months over case end stay worse better destination plan "
    "person morning normal typical average covering move ship send haul take drive travel fly burn "
    "lose gain rent budget round numbers terms mind calendar schedule books"
)
# Stems of words in headings under which a result may stand.
_HEADINGS = vocabulary(
    "calcu estim total final resul answe concl summa recom step time cost costs overa likel putti "
    "deter durat savin numbe budge annua month quick rough short botto verdi scena optio metho "
    "case longe detai break sum add combi grand reali round all prove compu solve solut math"
)


def is_foreign(lead: str, question: Question) -> bool:
    """Whether what takes, costs or lasts so much is something else than what was asked about.

    Args:
        lead: words up to a quantity, with a prediction in them.
        question: what was asked.
    """
    clause = _clause(lead, [match.start() for match in PREDICTION.finditer(lead)][-1])
    verb = PREDICTION.search(clause)
    subject = clause[: verb.start()] if verb else ""
    if verb and (verb[0].endswith(" of") or _LETTERS.findall(verb[0].lower())[0] in _SUBJECTS):
        subject += verb[0]  # `the true cost of …`, `you'd easily …`
    return bool(set(_LETTERS.findall(subject.lower())) - _ARTICLES) and not _is_asked(
        subject, question
    )


def states(lead: str, question: Question) -> bool:
    """Whether a clause on the right subject leads up to a quantity: `you land at about …`."""
    clause = _clause(lead, len(lead.rstrip()))
    return (len(clause.split()) > 1 or "'" in clause) and _is_asked(clause, question)


def is_for_something_else(tail: str, question: Question) -> bool:
    """Whether a quantity is of, in or for something that was not asked for."""
    purpose = _PURPOSE.match(tail)
    if not purpose or not question.topic:
        return False
    words = purpose["words"]
    return not (_WHOLES & set(words.lower().split()) or stems(words) & question.topic)


def is_foreign_heading(context: Context, question: Question) -> bool:
    """Whether a section is about something else than what was asked."""
    words = stems(context.heading)
    return bool(question.topic and words) and not words & (question.topic | _HEADINGS)


def _clause(lead: str, end: int) -> str:
    """The clause that goes on at lead[end]."""
    begins = [one.end() for one in _CLAUSE_BEGINS.finditer(lead) if one.end() <= end]
    if begins and lead[: begins[-1]].endswith("and") and not lead[begins[-1] : end].strip():
        begins.pop()  # `a pallet holds … and costs …`
    return lead[begins[-1] if begins else 0 :]


def _is_asked(words: str, question: Question) -> bool:
    """Whether words begin with what was asked about, or a word that may mean it."""
    first = [word for word in words.lower().split() if word not in _ARTICLES][:_FIRST_WORDS]
    text = " ".join(first)
    return bool(
        _SUBJECTS & {word.strip(" ,*\"'") for word in first}
        or stems(text) & question.topic
        or any(one.value in question.numbers for one in numerals(text))
    )
