"""The subject of a clause: what the prompt asks about, or something else with a quantity."""

import re

from pragworld_tasks.quantities.context import Context, QuantityTarget, stems
from pragworld_tasks.quantities.cues import PREDICTION
from pragworld_tasks.quantities.numerals import find_numerals
from pragworld_tasks.quantities.patterns import ignoring_case, vocabulary

_CLAUSE_BEGINS = ignoring_case(
    r"[.;:(!?—]|, |\b(?:and|but|so|then|that|which|while|because|since)\b(?!')"
    r"|(?=\bthat')"
)
_LETTERS = re.compile(r"[a-z]+")
_FIRST_WORDS = 4  # words that identify a subject
_ARTICLES = {"the", "a", "an", "so", "our"}
# Words that may stand for what or whom the prompt asks about, as the prompt's own words do.
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
# The purpose after a quantity: `of interest`, `for parking`, `to reach the airport`.
_PURPOSE = ignoring_case(
    r"^\W*(?:or so )?(?:of|in|for|at|to)(?: (?:the|your|an?|this|each|some|all))?(?: average)? "
    r"(?P<words>[a-z]+(?: [a-z]+)?)"
)
# Words in it that mean the whole target.
_WHOLES = vocabulary(
    "total all everything day year month week whole entire full time money cost costs hour hours "
    "minutes dollars get complete finish do be cover make that this it them those these both "
    "medication supply weight body annual annually federal expenses trip way "
    "hike route most next days years months over case end stay worse better destination plan "
    "person morning normal typical average covering move ship send haul take drive travel fly burn "
    "lose gain rent budget round numbers terms mind calendar schedule books"
)
# Stems of words in the headings of results.
_HEADINGS = vocabulary(
    "calcu estim total final resul answe concl summa recom step time cost costs overa likel putti "
    "deter durat savin numbe budge annua month quick rough short botto verdi scena optio metho "
    "case longe detai break sum add combi grand reali round all prove compu solve solut math"
)


def has_foreign_subject(lead: str, target: QuantityTarget) -> bool:
    """Return whether words up to a quantity, with a prediction, are about another subject."""
    clause = _clause(lead, [match.start() for match in PREDICTION.finditer(lead)][-1])
    verb = PREDICTION.search(clause)
    subject = clause[: verb.start()] if verb else ""
    if verb and (verb[0].endswith(" of") or _LETTERS.findall(verb[0].lower())[0] in _SUBJECTS):
        subject += verb[0]  # `the true cost of …`, `you'd easily …`
    has_subject = bool(set(_LETTERS.findall(subject.lower())) - _ARTICLES)
    return has_subject and not _is_about(subject, target)


def states(lead: str, target: QuantityTarget) -> bool:
    """Return whether a clause on the target leads up to a quantity: `you land at about …`."""
    clause = _clause(lead, len(lead.rstrip()))
    return (len(clause.split()) > 1 or "'" in clause) and _is_about(clause, target)


def has_foreign_purpose(tail: str, target: QuantityTarget) -> bool:
    """Return whether a quantity is of, in or for something that the prompt does not ask about."""
    purpose = _PURPOSE.match(tail)
    if not purpose or not target.topic:
        return False
    words = purpose["words"]
    return not (_WHOLES & set(words.lower().split()) or stems(words) & target.topic)


def has_foreign_heading(context: Context, target: QuantityTarget) -> bool:
    """Return whether the heading above a quantity is about something else than the prompt."""
    words = stems(context.heading)
    return bool(target.topic and words) and not words & (target.topic | _HEADINGS)


def _clause(lead: str, end: int) -> str:
    """Return the clause that continues at lead[end]."""
    begins = [match.end() for match in _CLAUSE_BEGINS.finditer(lead) if match.end() <= end]
    if begins and lead[: begins[-1]].endswith("and") and not lead[begins[-1] : end].strip():
        begins.pop()  # `a pallet holds … and costs …`
    return lead[begins[-1] if begins else 0 :]


def _is_about(words: str, target: QuantityTarget) -> bool:
    """Return whether words begin with what the prompt asks about, or a word that may mean it."""
    first = [word for word in words.lower().split() if word not in _ARTICLES][:_FIRST_WORDS]
    text = " ".join(first)
    return bool(
        _SUBJECTS & {word.strip(" ,*\"'") for word in first}
        or stems(text) & target.topic
        or any(number.value in target.numbers for number in find_numerals(text))
    )
