"""What speaks for a quantity being the bottom line of an answer, and what against: the tables.

The weights of all that holds for a quantity are added up, and the sum decides. About 3 is what one
plain statement of a result is worth (`in total …`), and what one plain sign that a quantity is
something else takes away (`… before the flight`). The weights were set by hand and compared with
those that logistic regression finds on answers written by other people.
"""

import re
from typing import NamedTuple

from pragworld_tasks.quantities.tables import any_of, first_of_all, last_of_all, words


class Cue(NamedTuple):
    """Words that speak for or against.

    Attributes:
        name: of the cue. Of several with one name only the strongest counts.
        where: what is searched: an attribute of `context.Context`.
        weight: what it adds.
        pattern: what is looked for.
    """

    name: str
    where: str
    weight: float
    pattern: re.Pattern[str]


# For: it is said to be the total, the conclusion, what somebody would say or expect. --------------

_TOTALS = r"""
    (?<!sub)(?<!sub-)(?<!sub )totals? | overall | altogether | all[- ]told | all[- ]in(?:[- ]all)?
    in sum | sum(?:s|med)?(?: up)? | combined | together | everything (?:included|considered)
    door[- ]to[- ](?:door|terminal) | in all | all up | start to finish | net | tot(?:al)?
    (?:adds|added|adding) (?:\w+ ){0,4}up | add (?:\w+ ){1,4}up | counting everything | the lot
    all (?:things )?considered | break-?even
    (?:that|this|which|it all) (?:makes|comes to|sums to)
    (?:full|entire|whole) (?:route|trip|journey|hike|program|thing|cost|price)
"""
_CONCLUSIONS = r"""
    answer | conclusion | in short | bottom line | summary | to sum up | tl;?dr | to conclude
    final(?:ly)? | result | verdict | upshot | ultimately | takeaway | simply put
    in a nutshell | short version
"""
_GOOD = words(
    "best my our good reasonable fair rough safe decent sensible solid plausible working educated "
    "conservative quick ballpark realistic honest"
)
_GUESS = words("estimate guess bet figure number range budget target answer rule")
_OPINE = words(
    "say plan budget guess go estimate expect put set use aim count figure recommend suggest rent "
    "book reckon call consider assume allow bet lean settle round pick ask reserve order take opt"
)
_JUDGEMENTS = rf"""
    realistic(?:ally)? | more? likely | most likely | recommend(?:ation|ed|ing)? | ballpark
    {_GOOD} (?:\w+ )?{_GUESS} | i(?:'d| would) (?:\w+ )?{_OPINE}
    i (?:estimate|reckon|guess|think|suggest|recommend|believe) | single (?:number|figure)
    mid-?point | middle[- ](?:ground|of the road) | call it | safe to say | sweet spot
    plan (?:on|for) | most (?:mornings|days)
"""
_HAPPEN = words(
    "take last cost save need be burn require lose gain owe come run amount total range yield "
    "prevent avoid pay leave spend generate reach exceed result saved burned burnt lost gained "
    "spent paid have see drop shed put set rent want get drive use make allow go fall lie sit land"
)
_MODAL = words(r"will would should could might may can must \w+'ll \w+'d")
_PREDICTIONS = rf"""
    expect(?:ed|ing)? | estimat(?:e|es|ed|ing) | likely | budget | figure on | count on | plan
    looking at | projected | approximately | roughly equivalent | probably | equivalent
    comes? (?:out )?(?:to|at|up to|in at) | amounts? to | works? out (?:to|at|as) | adds? up to
    (?:brings?|bringing|puts?|takes|gets?|leaves?) (?:us|you|it|the|this|that|your)
    equals? | equates? to | translates? (?:to|into) | gives? | giving | makes | means | ends? up
    lasts? | takes? | costs? | owes? | loses? | gains? | saves? | burns? | uses? | needs? | pays?
    ranges? (?:from|between) | in the (?:range|order|neighborhood|vicinity|region) of
    on average | typically | for most people | implies | imply | implying | suggests? | yields?
    results? in | resulting | requires? | rent | reach(?:es)? | save | lose | gain | owe
    (?:savings?|total|costs?|estimate|loss|gain|time) of
    {_MODAL} (?:\w+ ){{0,3}}(?:{_HAPPEN}|set you back)
"""
PREDICTION = any_of(_PREDICTIONS)
_ENOUGH = words(
    "enough plenty realistic reasonable likely fair sensible most my about in"  # `my best estimate`
)
_TOTAL_BEHIND = re.compile(
    r"^(?: total\b|,? is an? (?:good|reasonable|realistic|sensible|fair|safe)\b)"
    r"|^(?! (?:of|in) (?!the|your|total|all))[ \w'-]{0,40}\b(?:in total|altogether|overall|"
    r"all[- ]told|all[- ]in|in all|all up|everything|combined|all together|"
    r"door[- ]to[- ]door|does it|"
    r"from (?:your )?(?:front )?door|"
    r"(?:for|to (?:do|make|complete|finish|cover)) (?:the|your|that|this|all)(?: of)? "
    r"(?:whole|entire|full|total|complete|lot|\d+)|"
    r"i(?:'d| would) (?:say|guess|estimate|think|reckon)|i (?:estimate|guess|think|reckon)|"
    rf"(?:is|are|(?:would|will|should|ought to) be) (?:{_ENOUGH}|an? {_GOOD})|"
    r"(?:should|will|would|ought to)(?: \w+)? (?:do|be enough|cover|suffice|handle|get you)|"
    r"(?:would|will|should|to) (?:be|make|leave|put|come|break) (?:you )?(?:\w+ ){0,3}"
    r"(?:well off|equivalent|indifferent|the same|even|equal))\b",
    re.IGNORECASE,
)
_THEREFORE = re.compile(
    r"^\W*(?:so|thus|based on|given|considering|taking|with (?:all )?(?:this|that|these)|after|"
    r"putting|as (?:a result|you|it|this|we)|(?:which|this) means|in (?:this|that|your) case|"
    r"for (?:the|your|an?)|under these|rounding|all)\b"
    r"|\b(?:therefore|thus|hence|so|consequently|accordingly)\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|roughly|some|nearly|almost|between|somewhere|anywhere|"
    r"at least|up to|approx\.?|over|from|ca\.|under|close to|like)|[≈~=→:])\W*$",
    re.IGNORECASE,
)
_CONCLUDING_HEADINGS = rf"""{_CONCLUSIONS}{_TOTALS}
    recommendation | putting (?:it|everything|this) (?:all )?together | estimate | so,? how .*
    (?:final|overall|my|rough|best|quick|time|cost|estimated?) (?:\w+ ){{0,3}}(?:savings|cost|time)
"""
_NAMES = r"""
    estimat(?:e|ed|es|ion) | expected | approximate(?:ly)? | recommend(?:ed|ation)? | projected
    likely | realistic(?:ally)? | equivalent | potential | probable | needed | required
    budget
"""

# Against: it is an aside, an addition, a part, a rate, a condition, a comparison. -----------------

_ASIDES = r"""
    tips? | notes? | disclaimers? | caveats? | assum(?:e|es|ed|ing|ptions?) | keep in mind
    important | alternatives? | optional | warnings? | reminders? | references? | sources?
    examples? | limitations? | inputs? | safety | uncertaint(?:y|ies)
"""
_ASIDE_HEADINGS = rf"""{_ASIDES}
    factors? | considerations? | ways to \w+ | offset\w* | benefits? | background | additional
    things (?:to|that) | suggestions? | recommendations | reduc\w+ | save (?:money|time)
    lower your | more (?:accurate|precise) | next steps? | data | given | variables | health risks?
    (?:could|may|might|can) (?:\w+ )?(?:change|affect|vary|influence|increase|reduce) | other
    what you (?:need|should) | deductions? | taxable | brackets? | capacity | volume | dimensions
    speed | distance | weight | gross | withholding | per (?!month|year)\w+ | resources
"""
_ASIDE_LABELS = rf"""{_ASIDES}
    buffer | margin | sub-?total | each | rate | capacity | deduct\w* | limits? | credits? | speed
    distance | additional | extra | taxable | gross | savings account | payload | brackets?
    volume | budget airlines? | (?:^|[a-z]{{4,}} )per (?!month|year)\w+
"""
_ASIDE_INTROS = rf"""{_ASIDES}
    (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:tips|things|factors|ways)
    (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:resources|suggestions)
    to (?:reduce|save|cut|lower|speed|avoid|get|make|be|find|give|refine|improve|help|narrow)
    (?:you|i|we) (?:can|could|may|might|would|'d|should|will|need|want) | (?:could|can|would|if) you
    (?:some|other|additional|further|several) (?:\w+ )?(?:factors|things|considerations|options)
    for an? (?:more )?(?:precise|accurate|exact|better)
"""
_ASIDE_LEADS = r"""
    tip | note(?: that)? | please note | keep in mind | remember | don't forget | be aware
    for example | for instance | e\.g\. | such as | suppose | (?<=, )say(?=,? \W*$)
    assum(?:e|es|ed|ing)(?=[^,;]*$)
    compared? (?:to|with) | in comparison | by contrast | alternatively | instead | safe rate
    guidelines? | if you (?:need|want|would like) | make sure | be sure | whereas | unless
    let's (?:assume|use|take) | alone | by itself | just the | study | consult\w* | quotes?
    calculator | penalt(?:y|ies)
    (?:standard deduction|according to|in (?:19|20)\d\d)(?=[^,]*$)
    only the | limited to | don't exceed | maximum of | who (?:earn|make)
    to (?:work out|calculate|find|determine|compute|figure out) your
    totals? (?:for|over|in|across|per) $
    (?:per (?!month|year|day)\w+|each(?: \w+)?) (?:is|of|=|costs?|has|takes?|at|:)
"""
_OTHER_MEANS = r"""
    by (?:bike|bicycle|bus|train|subway|rail|transit|foot|ferry|boat|taxi) | bike ride | mbta
    bike | bus | train | subway | walking | cycling | commuter rail | carpool\w*
    public (?:transit|transport)
"""
_COMPONENT = r"""
    (?<!and )(?<!or )(?<!\+ )(?:in)?direct (?:\w+ )?costs?(?! (?:and|&|\+|plus|or) (?:in)?direct)
"""
_PARTIAL = words(
    "fixed variable fuel flight flying air driving service labor labour food interest principal "
    "mileage layover stops? volume weight distance payments? income deductions? stop parking "
    "loading unloading handling boarding"
)
_PARTIAL_TOTALS = rf"""
    total (?:\w+ )?(?:direct|indirect)(?! ?(?:and|&|\+|plus|or|/|costs? (?:and|\+|&)))
    total (?:\w+ )?{_PARTIAL} | total calories (?:eaten|consumed) | total (?:\w+ )?in the air
"""
_ADDED_BEFORE = r"""
    add(?:s|ed|ing)?(?! up) | allow(?:s|ing)? | extra | additional | another | further | plus
    minus | off | sav(?:es|ing)(?: you)? | by | (?:reduc|increas)\w+(?: \w+){0,3} by
    deduct\w* | subtract\w* | buffer of | on top | within | every | each | for every | each of
    after | before | ago | past | first | up from | down from | less than | starts? at
    starting (?:at|from) | holds? | fits? | carry | carries | capacity of | limit of | per
    faster | slower | longer | \+/- | ± | plus or minus | give or take
"""
_AFTERTHOUGHTS = words(
    "extra more less longer shorter faster slower cheaper early earlier later? ahead behind before "
    "beforehand prior ago apart away old off apiece buffer cushion below above deductible"
)
_THINGS = words(
    "layover stopover flight walk connection deficit surplus deduction limit window shift "
    "workday break minimum maximum difference buffer cushion wait mark supply period cycle term "
    "mortgage loan taper delay extension job task affair"
)
_ADDED_BEHIND = rf"""
    (?:of the |or so )?{_AFTERTHOUGHTS} | in advance | on top | each(?! (?:way|direction|morning))
    for (?:each|every) | at each | a stop | of buffer | time difference | short of (?:a|the)
    in (?:deductions|credits|tips|fees|interest|taxes withheld) | shelf life
    (?:short )?{_THINGS}s?
"""
_CONDITION = re.compile(
    r"^\W*(?:if|when|in case|should you|unless|even if|while|although|though)\b"
    r"(?! i (?:had|were)| we\b| you(?:'re| are) looking| everything| all goes| you want)"
    r"|\b(?:if|unless|when) (?:you|the|there|it|they|your|any|traffic)\b",
    re.IGNORECASE,
)
_CONDITION_OPENS = re.compile(r"^\W*(?:if|when|should) (?!i |we |everything|all )", re.IGNORECASE)
_RATE_BEHIND = re.compile(
    r"^(?: [\w-]+){0,3} (?:per (?!trip|way|hike|route|journey)|every (?!thing))\w+", re.IGNORECASE
)
_INSTRUCTION = re.compile(
    r"\badd (?:up|together|these|the)\b(?!.*(?:=|\b(?:get|is|comes|land)\b))", re.IGNORECASE
)
_DENIED = re.compile(
    r"\b(?:isn't|aren't|is not|are not|not) (?:the (?:same|answer|whole|full)|what|included|equal|"
    r"comparable|something|part)|\bdoesn't count\b|\bjust (?:the|for)\b",
    re.IGNORECASE,
)

CUES = (
    Cue("total", "label", 4.5, any_of("grand total | total (?:cost|time)")),
    Cue("total", "label", 3.5, any_of(_TOTALS)),
    Cue("total", "lead", 3.0, any_of(_TOTALS)),
    Cue("total", "tail", 2.5, _TOTAL_BEHIND),
    Cue("conclusion", "lead", 3.0, any_of(_CONCLUSIONS)),
    Cue("conclusion", "heading", 2.0, any_of(_CONCLUDING_HEADINGS)),
    Cue("judgement", "lead", 3.5, any_of(_JUDGEMENTS)),
    Cue("prediction", "lead", 2.0, PREDICTION),
    Cue("named", "label", 1.5, any_of(_NAMES)),
    Cue("therefore", "lead", 1.5, _THEREFORE),
    Cue("about", "lead", 1.0, _ABOUT),
    Cue("column", "column", 1.5, any_of("""
        total | overall | estimated | duration | savings? | result | how (?:long|many|much)
    """)),
    Cue("partial total", "lead", -4.0, any_of(_PARTIAL_TOTALS)),
    Cue("component", "label", -2.5, any_of(_COMPONENT)),
    Cue("component", "lead", -2.5, any_of(_COMPONENT)),
    Cue("aside", "heading", -3.0, any_of(_ASIDE_HEADINGS)),
    Cue("aside", "intro", -3.0, first_of_all(_ASIDE_INTROS)),
    Cue("aside", "intro", -3.0, any_of("""
        i(?:'d| would)? need | need to know | depends? on | more information | consider | factors
    """)),
    Cue("aside", "label", -2.5, any_of(_ASIDE_LABELS)),
    Cue("aside", "lead", -2.5, any_of(_ASIDE_LEADS)),
    Cue("instruction", "lead", -3.0, _INSTRUCTION),
    Cue("relative clause", "lead", -4.0, re.compile(r"^ (?:which|who|whose|where)\b")),
    Cue("other means", "lead", -2.0, any_of(_OTHER_MEANS)),
    Cue("aside", "opening", -2.5, first_of_all("if you (?:also|want|can|could|would like|decide)")),
    Cue("condition", "opening", -1.0, _CONDITION_OPENS),
    Cue("condition", "lead", -1.0, _CONDITION),
    Cue("added", "lead", -3.0, last_of_all(_ADDED_BEFORE)),
    Cue("added", "tail", -3.0, first_of_all(_ADDED_BEHIND)),
    Cue("rate", "tail", -4.0, _RATE_BEHIND),
    Cue("denied", "rest", -3.0, _DENIED),
    Cue("question", "rest", -3.0, re.compile(r"\?\W*$")),
    Cue("other column", "column", -2.5, any_of("""
        per (?!month|year)\\w+ | each | rate | speed | share | % | distance | weight | capacity
        deduction | bracket | income | notes?
    """)),
)  # fmt: skip

# Weights of what is no matter of words.
WEIGHTS = {
    # For. -----------------------------------------------------------------------------------------
    "boxed": 6.0,
    "whole answer": 6.0,  # nothing else is said
    "last row": 3.0,  # of its table, and the only one in bold
    "bold": 2.5,
    "opens": 2.5,  # the answer, with nothing but hedges before it
    "short answer": 2.5,
    "first sentence": 1.5,
    "alone": 1.5,  # in its line or sentence
    "sum": 1.5,  # behind an equals sign and a plus before
    "horizon": 1.5,  # over as many years as were asked for
    "said again": 1.5,
    "later": 1.5,  # at the very end, in proportion
    "terms": 1.0,  # its label repeats a number of the prompt: `30-day loss`
    "statement": 1.0,  # of the right subject, in words of no cue
    "only one": 1.0,  # with the unit asked for
    "topic": 0.6,  # for each word of the prompt, to three
    "result": 0.5,  # behind an equals sign
    # Against. -------------------------------------------------------------------------------------
    "input": -6.0,  # equal to one in the prompt
    "input, computed": -2.0,  # likewise, but the result of a computation
    "rate": -5.0,  # per something that was not asked
    "no unit": -4.0,
    "unit in label": -1.5,  # and not by the number
    "unit left out": -1.0,  # `at least 4 trucks, but I'd go with 5`
    "over a term": -6.0,  # where a rate was asked for
    "added": -3.0,  # as the cue
    "operand": -4.0,
    "fraction": -3.0,  # of what is counted
    "brackets": -2.5,
    "part": -2.0,  # one of several items or rows
    "purpose": -2.0,  # `of interest`, `for parking`
    "foreign subject": -2.5,  # `a pallet costs …`
    "not said": -2.0,  # nothing says that it is the answer, or even a result
    "one": -1.5,  # just one unit, as in `7,700 kcal are 1 kg`
    "enumerated": -1.5,  # one of several in a sentence
    "foreign heading": -1.0,
    "declines": -3.0,  # the answer does
    "declines, concludes": -1.0,  # but this is said to be a result all the same
    "cut off": -2.5,  # the answer is
    "asks back": -1.5,
    "hard to say": -1.0,
}
# What says of a quantity that it is the answer.
SAYING = (
    *("total", "conclusion", "judgement", "prediction", "therefore", "sum", "named"),
    *("boxed", "opens", "last row"),
)

# That an answer gives no value, or asks for what it would need. -----------------------------------

_TELL = words("say tell give provide determine estimate guess calculate predict know")
DECLINES = re.compile(
    r"\b(?:can(?:'t|not)|unable to|not able to|couldn't|difficult for me to|impossible to|"
    r"rather not)"
    rf"(?: (?!exact|precise)\w+){{0,3}} {_TELL}\b"
    r"(?![^.\n]{0,30}\b(?:exact|precise|specific|definitive|personal|advice|sure)\b)"
    r"|\bwithout (?:knowing|more|these|that|further)\b"
    r"|(?<!since )(?<!because )(?<!as )\bi (?:don't|do not) (?:have|know)\b"
    r"(?![^.\n]{0,30}\b(?:exact|real-time)\b)",
    re.IGNORECASE,
)
HARD_TO_SAY = re.compile(
    rf"\b(?:difficult|hard|impossible|tough|tricky) to (?:\w+ ){{0,2}}{_TELL}\b"
    r"(?![^.\n]{0,80}\bbut\b)",
    re.IGNORECASE,
)
ASKS_BACK = re.compile(
    r"\b(?:could|can|would) you (?:please )?(?:tell|share|provide|let|give|specify)"
    r"|\b(?:once|if|when) (?:i (?:know|have)|you (?:can |could )?"
    r"(?:tell|give|share|provide|send|let) (?:me|us))\b"
    r"|\b(?:i|we)(?:'d| would|'ll)? need (?:to know|a (?:few|little|bit)|some|more|the following)"
    r"|\b(?:more|additional|further|few) (?:information|details)"
    r"|\b(?:which|what|where|when|how)\b[^.?\n]{3,80}\byou\b[^.?\n]{0,60}\?",
    re.IGNORECASE,
)
