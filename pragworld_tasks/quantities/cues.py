"""Cues: wording, and other evidence, for and against a quantity being an answer's bottom line.

The weights of all cues that hold for a quantity are added up, and the sum decides. A weight of 3 is
what one plain statement of a result is worth (`in total …`), and what one plain sign that a
quantity is something else takes away (`… before the flight`). The weights were set by hand and
compared with those that logistic regression finds on answers written by other people.
"""

import re
from typing import NamedTuple

from pragworld_tasks.quantities.patterns import (
    any_of,
    any_word,
    ends_with,
    ignoring_case,
    starts_with,
)


class Cue(NamedTuple):
    """Wording near a quantity that speaks for or against it.

    Attributes:
        name: Name of the cue. Of several cues with one name only the strongest counts.
        where: Name of the attribute of `context.Context` that is searched.
        weight: Weight of the cue, negative if it speaks against the quantity.
        pattern: The wording.
    """

    name: str
    where: str
    weight: float
    pattern: re.Pattern[str]


# Tables that several cues share, or parts of longer patterns.
_TOTALS = r"""
    (?<!sub)(?<!sub-)(?<!sub )totals? | overall | altogether | all[- ]told | all[- ]in(?:[- ]all)?
    in sum | sum(?:s|med)?(?: up)? | combined | together | everything (?:included|considered)
    (?:door|gate|curb|house)[- ]to[- ]\w+ | elapsed
    in all | all up | start to finish | net | tot(?:al)?
    (?:adds|added|adding) (?:\w+ ){0,4}up | add (?:\w+ ){1,4}up | counting everything | the lot
    all (?:things )?considered | break-?even(?! if)
    (?:that|this|which|it all) (?:makes|comes to|sums to|totals|adds up to)
    (?:that|this|it all) (?:brings?|gets?|puts?) (?:us|you|it|(?:the|your) \w+)(?: \w+)? (?:to|at)
    (?:full|entire|whole) (?:route|trip|journey|hike|program|thing|cost|price)
"""
_CONCLUSIONS = r"""
    answer | conclusion | in short | bottom line | summary | to sum up | tl;?dr | to conclude
    final(?:ly)? | result | verdict | upshot | ultimately | takeaway | simply put
    in a nutshell | short version
"""
_GOOD = any_word(
    "best my our good reasonable fair rough safe decent sensible solid plausible working educated "
    "conservative quick ballpark realistic honest"
)
_GUESS = any_word("estimate guess bet figure number range budget target answer rule")
_OPINE = any_word(
    "say plan budget guess go estimate expect put set use aim count figure recommend suggest rent "
    "book reckon call give consider assume allow bet lean settle round pick ask reserve order "
    "take opt"
)
_HAPPEN = any_word(
    "take last cost save need be burn require lose gain owe come run amount total range yield "
    "prevent avoid pay leave spend generate reach exceed result saved burned burnt lost gained "
    "spent paid have see drop shed put set rent want get drive use make allow go fall lie sit land "
    "weigh read show fit stand earmark reckon count"
)
_MODAL = any_word(r"will would should could might may can must ought \w+'ll \w+'d")
PREDICTION = any_of(rf"""
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
    (?:you|it|that|this|we)(?:'d|'ll| would| could| will| should| might| can| may) (?:\w+ ){{1,3}}$
    (?:arrives?|arriving|stands?|lands?) (?:at|on|around|near|in)
    sets? (?:\w+ ){{1,8}}back by | wants?
    (?:used up|gone|runs? out|empty|exhausted) (?:after|in|within) | set(?:ting)? aside | allow
    going through | (?:you|we|that)(?:'re| are) (?:up )?(?:at|to) | (?:good|set|covered|fine) for
""")
_ENOUGH = any_word(  # `my best estimate`
    "enough plenty realistic reasonable likely fair sensible most my about defensible credible"
)
# Where two sides are equal, which is the answer if rent is to equal the cost of owning.
_BALANCE = (
    r"(?:break(?:ing|s)?[- ]even|same (?:wealth|position|place|spot)|(?:just as|equally) well off"
    r"|indifferent|come out even|a wash|(?:cost|costs|costing) (?:you )?the same)"
)
_ASIDES = r"""
    tips? | notes? | disclaimers? | caveats? | assum(?:e|es|ed|ing|ptions?) | keep in mind
    important | alternatives? | optional | warnings? | reminders? | references? | sources?
    examples? | limitations? | inputs? | safety | uncertaint(?:y|ies)
"""
_COMPONENT = r"""
    (?<!and )(?<!or )(?<!\+ )(?:in)?direct (?:\w+ )?costs?(?! (?:and|&|\+|plus|or) (?:in)?direct)
"""
_PARTIAL = any_word(
    "fixed variable fuel flight flying air driving service labor labour food interest principal "
    "mileage layover stops? volume weight distance payments? income deductions? stop parking "
    "loading unloading handling boarding"
)
_PARTIAL_TOTALS = rf"""
    total (?:\w+ )?(?:direct|indirect)(?! ?(?:and|&|\+|plus|or|/|costs? (?:and|\+|&)))
    total (?:\w+ )?{_PARTIAL} | total calories (?:eaten|consumed) | total (?:\w+ )?in the air
"""
_AFTERTHOUGHTS = any_word(
    "extra more(?!.or.less) less longer shorter faster slower cheaper early earlier later? ahead "
    "behind before beforehand prior ago apart away old off apiece buffer cushion below above "
    "deductible"
)
_THINGS = any_word(
    "layover stopover flight walk connection deficit surplus deduction limit window shift "
    "workday break minimum maximum difference buffer cushion wait mark supply period cycle term "
    "mortgage loan taper delay extension job task affair"
)
# Inputs of a computation, however large they are.
_INPUT_NAMES = (
    r"\b(?:standard deduction|taxable income|adjusted gross income|agi|gross income|salary|"
    r"(?:house|home|purchase|vehicle|car|sticker|selling|sale) (?:price|value)|msrp|net proceeds|"
    r"proceeds|loan (?:amount|balance)|down payment|total interest|interest paid|home equity|"
    r"value of the (?:house|home|car|property)|total (?:paid|payments|repaid)|payroll tax(?:es)?|"
    r"fica|social security|medicare|state (?:income )?tax(?:es)?|"
    r"(?:current|existing|yearly|operating) (?:\w+ ){0,2}budget)\b"
)
# Parts of the cost or duration of a program, a car, a house, a shipment or a journey.
_PART = (
    r"(?:fuel|gas(?:oline)?|(?:\w+ )?insurance|maintenance|repairs?|upkeep|depreciation|tires|"
    r"registration|parking|tolls|property tax(?:es)?|hoa(?: fees)?|food|labor|labour|staffing|"
    r"admin(?:istration|istrative costs)?|equipment|training|facilities|packaging|fuel surcharge|"
    r"outreach|check-in|security|baggage(?: claim)?|layovers?|customs|immigration|deplaning)"
)
# Circumstances that are better than the real ones.
_IDEAL = r"""
    (?:without|with no|with zero|in the absence of) (?:any )?traffic | in (?:light|no) traffic
    (?:in|under) (?:ideal|perfect) conditions | outside (?:of )?rush hour | off-?peak
    at (?:3|4|5)(?::\d\d)? ?a\.?m\.? | free[- ]flow\w* | on a sunday
"""

CUES = (
    # For: totals, conclusions, what to expect.
    Cue("total", "label", 4.5, any_of("grand total | total (?:cost|time)")),
    Cue("total", "label", 3.5, any_of(_TOTALS)),
    Cue("total", "lead", 3.0, any_of(_TOTALS)),
    Cue("total", "tail", 2.5, ignoring_case(
        r"^(?: total\b|,? is an? (?:good|reasonable|realistic|sensible|fair|safe)\b)|"
        r"^(?! (?:of|in) (?!the|your|total|all))[ \w'-]{0,40}\b(?:in total|altogether|overall|"
        r"all[- ]told|all[- ]in|in all|all up|(?<!if )everything|combined|all together|"
        r"door[- ]to[- ]door|does it|from (?:your )?(?:front )?door|"
        r"(?:for|to (?:do|make|complete|finish|cover)) (?:the|your|that|this|all)(?: of)? (?:whole|"
        r"entire|full|total|complete|lot|\d+)|i(?:'d| would) (?:say|guess|estimate|think|reckon)|"
        r"i (?:estimate|guess|think|reckon)|"
        rf"(?:is|are|(?:would|will|should|ought to) be) (?:{_ENOUGH}|an? {_GOOD})|"
        r"(?:is|are|be) (?:the|your|our) (?:most )?(?:\w+ )?(?:likely|realistic|expected|amount|"
        r"number|figure|rent|cost|total|estimate|commute|answer)|is (?:all|what) (?:you|it|we|i)|"
        r"it is|(?:(?:should|must|can) be|has to be|needs to be) (?:reserved|budgeted|planned|"
        r"set aside|put aside|found|paid|spent|expected|allowed)|"
        r"(?:should|will|would|ought to)(?: \w+)? (?:do|be enough|cover|suffice|handle|get you)|"
        r"(?:would|will|should|to) (?:be|make|leave|put|come|break) (?:you )?(?:\w+ ){0,3}"
        r"(?:well off|equivalent|indifferent|the same|even|equal))\b")),
    # Only an answer is followed by hedges like these: `$1,600-$1,800 probably`.
    Cue("judgement", "tail", 2.0, ignoring_case(
        r"^(?: or so)?,? (?:probably|i'd bet|i bet|tops|give or take|if i had to guess)\b")),
    Cue("total", "lead", 3.0, ignoring_case(
        rf"\b{_BALANCE}\b[^.;]{{0,30}}\b(?:if|when|at|with)\b[^.;]{{0,50}}$")),
    Cue("total", "rest", 2.5, ignoring_case(
        rf"^[^.;$]{{0,40}}(?:,|\b(?:and|is|are|be|to|would|you'd)) [^.;$]{{0,30}}\b{_BALANCE}\b")),
    Cue("conclusion", "lead", 3.0, any_of(_CONCLUSIONS)),
    Cue("conclusion", "heading", 2.0, any_of(rf"""
        {_CONCLUSIONS}{_TOTALS}
        what (?:i|we)(?:'d| would) \w+ | what to (?:plan|book|budget)
        recommendation | putting (?:it|everything|this) (?:all )?together | estimate | so,? how .*
        (?:final|overall|my|rough|best|quick|time|cost|estimated?) (?:\w+ ){{0,3}}savings
        (?:final|overall|my|rough|best|quick|time|cost|estimated?) (?:\w+ ){{0,3}}(?:cost|time)
    """)),
    Cue("judgement", "lead", 3.5, any_of(rf"""
        realistic(?:ally)? | more? likely | most likely | recommend(?:ation|ed|ing)? | ballpark
        {_GOOD} (?:\w+ )?{_GUESS} | i(?:'?d| would) (?:\w+ )?{_OPINE}
        i (?:estimate|reckon|guess|think|suggest|recommend|believe) | single (?:number|figure)
        mid-?point | middle[- ](?:ground|of the road) | call it | safe to say | sweet spot
        (?:plan|planned|scheduled|budgeted) (?:on|for|with|around) | most (?:mornings|days)
        (?:most|many) (?:people|drivers|folks|locals|commuters|hikers) (?:would|will|should)
        (?:most|many) (?:people|drivers|folks|locals|commuters|hikers) (?:find|need)
    """)),
    # A sentence that gives advice: `Budget $25,000`, `So set aside five hours`.
    Cue("judgement", "lead", 2.5, ignoring_case(
        r"^\W*(?:(?:so|then|therefore|thus|and|realistically|conservatively|overall|"
        r"just)\W+){0,2}(?:for [^,.]{1,40}, )?(?:budget|expect|set aside|allow|figure(?: on)?|"
        r"plan (?:on|for)|reserve|order|rent|book|get|put|call it|count on|make it|go with|"
        r"round (?:it )?up (?:to|and \w+))\b")),
    Cue("prediction", "lead", 2.0, PREDICTION),
    Cue("named", "label", 1.5, any_of(r"""
        estimat(?:e|ed|es|ion) | expected | approximate(?:ly)? | recommend(?:ed|ation)? | projected
        likely | realistic(?:ally)? | equivalent | potential | probable | needed | required | budget
    """)),
    Cue("named", "label", 2.0, any_of("""
        (?:you|i)(?:'ll| will| would|'d)? (?:owe|pay|need|save|lose|spend|burn|gain)
    """)),
    Cue("therefore", "lead", 1.5, ignoring_case(
        r"^\W*(?:so|thus|based on|given|considering|taking|with (?:all )?(?:this|that|these)|after|"
        r"putting|as (?:a result|you|it|this|we)|(?:which|this) means|in (?:this|that|your) case|"
        r"for (?:the|your|an?)|under these|rounding|all)\b|\b(?:therefore|thus|hence|so|"
        r"consequently|accordingly)\b")),
    Cue("therefore", "lead", 1.5, ignoring_case(
        r"(?:\bi\.e\.|\bthat is|\bin other words|\bequivalently|\bmeaning),? *$")),
    Cue("about", "lead", 1.0, ignoring_case(
        r"(?:\b(?:about|around|approximately|roughly|some|nearly|almost|between|somewhere|anywhere|"
        r"at least|up to|approx\.?|over|from|ca\.|under|close to|like)|[≈~=→:])\W*$")),
    Cue("column", "column", 1.5, any_of("""
        total | overall | estimated | duration | savings? | result | how (?:long|many|much)
    """)),
    # Against: asides, parts, rates, conditions.
    Cue("partial total", "lead", -4.0, any_of(_PARTIAL_TOTALS)),
    Cue("partial total", "label", -4.0, any_of(_PARTIAL_TOTALS)),
    Cue("input by name", "lead", -4.0, ignoring_case(
        rf"{_INPUT_NAMES}[^.;:,$\d]{{0,25}}(?:, which is (?:\w+ )?|: ?)?[^.;:,$\d]{{0,3}}$")),
    Cue("input by name", "label", -4.0, ignoring_case(rf"^\W*(?:\w+ ){{0,2}}{_INPUT_NAMES}")),
    Cue("part by name", "heading", -3.0, ignoring_case(
        rf"^\W*(?:\w{{1,2}}[.):] ?)?{_PART}\b(?: (?:costs?|&|and) ?\w*)?\W*$")),
    Cue("part by name", "label", -2.0, ignoring_case(
        rf"^\W*{_PART}\b(?: (?:costs?|&|and) ?\w*)?\W*$")),
    Cue("part by name", "lead", -2.5, ignoring_case(
        rf"\b(?:need|buy|replace|get) (?:new |a set of |more )?{_PART}\b[^.;,$\d]{{0,40}}$|"
        rf"(?:^|[,;:.(]|\b(?:and|plus|for|while))\W*(?:your |the )?{_PART}(?: costs?)?:? ?"
        r"(?:is|are|costs?|runs?|will|would|could|can|about|around|at|may|might|typically|usually|"
        r"averages?|adds?|takes?|comes?|[=→≈~])[^.;,$\d]{0,25}$")),
    Cue("component", "label", -2.5, starts_with("(?:in)?direct(?! (?:and|&|plus|or|[+]))")),
    Cue("ideal", "lead", -2.0, any_of(_IDEAL)),
    Cue("ideal", "tail", -2.0, any_of(_IDEAL)),
    Cue("component", "label", -2.5, any_of(_COMPONENT)),
    Cue("component", "lead", -2.5, any_of(_COMPONENT)),
    Cue("component", "tail", -4.0, starts_with("""
        (?:in|of|for) (?:the )?(?:in)?direct (?:\\w+ )?(?:costs?|expenses?)
    """)),
    Cue("component", "lead", -2.0, any_of("""
        (?<!total )(?:flight|flying) (?:time|duration|itself) | time in the air | airborne
    """)),
    # A quantity within a condition, which is not its outcome: `if each stop takes 5 minutes`.
    Cue("given", "lead", -3.0, ignoring_case(
        r"\b(?:if|assuming|provided|given) (?:(?:that|you|we|it|the|each|every|your|they|"
        r"an?)\b)(?:(?!\b(?:then|would|will|takes? (?:about|around)|expect|budget|plan|that's|it's|"
        r"means|rent|pay|paid|paying)\b|,|'d|'ll)[^.;:])*$")),
    Cue("aside", "heading", -3.0, any_of(rf"""
        {_ASIDES}
        factors? | considerations? | ways to \w+ | offset\w* | benefits? | background
        additional | things (?:to|that) | suggestions? | recommendations | reduc\w+
        save (?:money|time) | lower your | more (?:accurate|precise) | next steps? | data | given
        variables | health risks?
        (?:could|may|might|can) (?:\w+ )?(?:change|affect|vary|influence|increase|reduce) | other
        what you (?:need|should) | deductions? | taxable | brackets? | capacity | volume
        dimensions | speed | distance | weight | gross | withholding | per (?!month|year)\w+
        resources
    """)),
    Cue("aside", "intro", -3.0, starts_with(rf"""
        {_ASIDES}
        (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:tips|things|factors|ways)
        (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:resources|suggestions)
        to (?:reduce|save|cut|lower|speed|avoid|get|make|be|find|give|refine|improve|help|narrow)
        (?:you|i|we) (?:can|could|may|might|would|'d|should|will|need|want)
        (?:could|can|would|if) you
        (?:some|other|additional|further|several) (?:\w+ )?(?:factors|things|considerations|options)
        for an? (?:more )?(?:precise|accurate|exact|better)
    """)),
    Cue("aside", "intro", -3.0, any_of("""
        i(?:'d| would)? need | need to know | depends? on | more information | consider | factors
    """)),
    Cue("aside", "label", -2.5, any_of(rf"""
        {_ASIDES}
        buffer | margin | sub-?total | each | rate | capacity | deduct\w* | limits?
        credits? | speed | distance | additional | extra | taxable | gross | savings account
        payload | brackets? | volume | budget airlines? | (?:^|[a-z]{{4,}} )per (?!month|year)\w+
    """)),
    Cue("aside", "lead", -2.5, any_of(r"""
        tip | note(?: that)? | please note | keep in mind | remember | don't forget | be aware
        for example | for instance | e\.g\. | such as | suppose | (?<=, )say(?=,? \W*$)
        assum(?:e|es|ed|ing)(?=[^,;]*$) | compared? (?:to|with) | relative to | versus
        in comparison | by contrast | alternatively | instead | safe rate | guidelines?
        if you (?:need|want|would like) | make sure | be sure | whereas | unless
        let's (?:assume|use|take) | alone | by itself | just the | study | consult\w* | quotes?
        calculator | penalt(?:y|ies)
        (?:standard deduction|according to|in (?:19|20)\d\d)(?=[^,]*$) | only the | limited to
        don't exceed | maximum of | who (?:earn|make)
        to (?:work out|calculate|find|determine|compute|figure out) your
        totals? (?:for|over|in|across|per) $
        per (?!month|year|day)\w+ (?:is|of|=|costs?|has|takes?|at|:)
        each(?: (?!month|year|day)\w+)? (?:is|of|=|costs?|has|takes?|at|:)
        time (?:zone )?difference | jet lag | taper\w* | shelf life | typical stops?
        arriv(?:e|ing) (?:at the airport|early) | (?:at|to) the airport(?= \W*$)
        between (?:\w+ )?(?:stops|deliveries|addresses)
        each (?:costing|worth|averaging|taking|saving|needing)
    """)),
    Cue("instruction", "lead", -3.0, ignoring_case(
        r"\badd (?:up(?! to)|together|these|the)\b(?!.*(?:=|\b(?:and|get|is|comes|land)\b))")),
    Cue("relative clause", "lead", -4.0, re.compile(r"^ (?:which|who|whose|where)\b")),
    Cue("other means", "lead", -3.0, any_of(r"""
        by (?:bike|bicycle|bus|train|subway|rail|transit|foot|ferry|boat|taxi) | bike ride | mbta
        bike | bus | train | subway | by the t | (?:green|red|orange|blue|silver) line | walking
        cycling | commuter rail | carpool\w* | public (?:transit|transport)
    """)),
    Cue("aside", "opening", -2.5, starts_with("if you (?:also|want|can|could|would like|decide)")),
    Cue("condition", "opening", -1.0, ignoring_case(
        r"^\W*(?:if|when|should) (?!i |we |everything|all )")),
    Cue("condition", "lead", -1.0, ignoring_case(
        r"^\W*(?:if|when|in case|should you|unless|even if|while|although|"
        r"though)\b(?! i (?:had|were)| we\b| you(?:'re| are) looking| everything| all goes|"
        r" you want)|\b(?:if|unless|when) (?:you|the|there|it|they|your|any|traffic)\b")),
    Cue("added", "lead", -3.0, ends_with(r"""
        add(?:s|ed|ing)?(?! up) | extra | additional | another | further | plus | minus | off
        sav(?:es|ing)(?: you)? | (?<!back )by | (?:reduc|increas)\w+(?: \w+){0,3} by | deduct\w*
        subtract\w* | on top
        (?:buffer|cushion|margin|reserve|slack|connection|layover|stopover|stop|break|wait)s? of
        within | every | each | for every | each of
        (?<!up )(?<!out )(?<!gone )(?<!empty )(?<!exhausted )after | before | ago | past | first
        up from | down from | less than | starts? at | starting (?:at|from) | holds? | fits? | carry
        carries | capacity of | limit of | per | faster | slower | longer | \+/- | ± | plus or minus
        give or take
    """)),
    Cue("added", "tail", -3.0, starts_with(rf"""
        (?:of the |or so )?{_AFTERTHOUGHTS}(?! (?:at|by) the end)(?! than (?:today|now|at))
        in advance | on top | each(?! (?:way|direction|morning)) | for (?:each|every) | at each
        a stop | of (?:buffer|slack|cushion|margin|leeway) | time difference | days?(?! and)
        short of (?:a|the) | in (?:deductions|credits|tips|fees|interest|taxes withheld)
        shelf life | (?:short )?{_THINGS}s?
    """)),
    Cue("rate", "tail", -4.0, ignoring_case(
        r"^(?: [\w-]+){0,3} (?:per (?!trip|way|hike|route|journey)|every (?!thing))\w+")),
    Cue("denied", "rest", -3.0, ignoring_case(
        r"\b(?:isn't|aren't|is not|are not|not) (?:the (?:same|answer|whole|full)|what|included|"
        r"equal|comparable|something|part)|\bdoesn't count\b|\bjust (?:the|for)\b")),
    Cue("question", "rest", -3.0, re.compile(r"\?\W*$")),
    Cue("other column", "column", -2.5, any_of("""
        per (?!month|year)\\w+ | each | rate | speed | share | % | distance | (?<!body )weight
        capacity | deduction | bracket | income | notes?
    """)),
)  # fmt: skip

# What an answer says of itself: it prefers an alternative by its name, declines, or asks back.
_NAMED = (
    r"(?:conservative|moderate|medium|optimistic|middle|mid(?:-range)?|base(?:line)?|realistic|"
    r"typical|central|average|expected|high|low|option \w|scenario \w|method \w)\b"
)
PREFERS = ignoring_case(
    r"\b(?:i'd|i would|i'll|let's|you should|please|to) (?:\w+ )?(?:go with|budget|plan|use|take|"
    r"pick|choose|assume|recommend|suggest|count)(?: (?:for|on|around))? (?:the |an? )?"
    rf"(?P<chosen>{_NAMED}) (?:one|case|scenario|estimate|figure|option|value)\b"
    rf"|\b(?P<name>{_NAMED})"
    r"(?: (?:one|case|scenario|estimate|figure|option|value|assumption)\b)?"
    r"(?: (?:is|seems|looks|feels|appears|sounds))(?: (?:to me|to be|like|the|probably|my|by far))*"
    r"(?: (?:most|more|best|likeliest))?"
    r" (?:likely|realistic|credible|reasonable|defensible|plausible|probable|sensible|bet|guess|"
    r"estimate|choice|one to use|recommended)\b"
)
_TELL = any_word("say tell give provide determine estimate guess calculate predict know")
DECLINES = ignoring_case(
    r"\b(?:can(?:'t|not)|unable to|not able to|couldn't|difficult for me to|impossible to|"
    r"rather not)"
    rf"(?: (?!exact|precise)\w+){{0,3}} {_TELL}\b"
    r"(?![^.\n]{0,30}\b(?:exact|precise|specific|definitive|personal|advice|sure)\b)"
    r"|\bwithout (?:knowing|more|these|that|further)\b"
    r"(?![^.\n]{0,80}, (?:let's|i'll|i'd|we|the|an?|you|assum\w+|suppose))"
    r"|(?<!since )(?<!because )(?<!as )\bi (?:don't|do not) (?:have|know)\b"
    r"(?![^.\n]{0,30}\b(?:exact|real-time)\b)"
)
HARD_TO_SAY = ignoring_case(
    rf"\b(?:difficult|hard|impossible|tough|tricky) to (?:\w+ ){{0,2}}{_TELL}\b"
    r"(?![^.\n]{0,80}\bbut\b)"
)
ASKS_BACK = ignoring_case(
    r"\b(?:could|can|would) you (?:please )?(?:tell|share|provide|let|give|specify)"
    r"|\b(?:once|if|when) (?:i (?:know|have)|you (?:can |could )?"
    r"(?:tell|give|share|provide|send|let) (?:me|us))\b"
    r"|\b(?:i|we)(?:'d| would|'ll)? need "
    r"(?:to know|your|a (?:few|little|bit)|some|more|the following)"
    r"|\b(?:more|additional|further|few) (?:information|details)"
    r"|\b(?:which|what|where|when|how)\b[^.?\n]{3,80}\byour?\b[^.?\n]{0,60}\?"
)

# Weights of evidence other than wording.
WEIGHTS = {
    # For. -----------------------------------------------------------------------------------------
    "boxed": 6.0,
    "whole answer": 6.0,  # the answer says nothing else
    "last row": 3.0,  # of its table, and the only one in bold
    "bold": 2.5,
    "opens": 2.5,  # opens the answer, after hedges at most
    "short answer": 2.5,
    "first sentence": 1.5,
    "alone": 2.0,  # alone in its line or sentence
    "in heading": 1.5,
    "preferred": 6.0,  # by its name elsewhere: `the moderate case seems the most credible`
    "sum": 1.5,  # follows an equals sign and, before that, a plus
    "horizon": 1.5,  # over as many years as the prompt asks for
    "repeated": 1.5,
    "later": 1.5,  # at the very end of the answer, and in proportion before
    "terms": 1.0,  # its label repeats a number of the prompt: `30-day loss`
    "statement": 1.0,  # stated of the right subject, without the wording of a cue
    "only one": 1.0,  # no other quantity has a fitting unit
    "topic": 0.6,  # for each word of the prompt beside it, at most three
    "result": 1.0,  # follows an equals sign
    # Against. -------------------------------------------------------------------------------------
    "input": -6.0,  # equals a number in the prompt
    "input, computed": -2.0,  # likewise, but as the result of a computation
    "rate": -5.0,  # per something that the prompt does not ask for
    "no unit": -4.5,
    "unit in label": -1.5,  # and not by the number
    "unit left out": -1.0,  # `at least 4 trucks, but I'd go with 5`
    "over a term": -6.0,  # although the prompt asks for a rate
    "added": -3.0,  # as the cue of this name
    "operand": -4.0,
    "fraction": -3.0,  # of something that is counted
    "brackets": -2.5,
    "part": -2.0,  # one of several items or rows
    "purpose": -2.0,  # `of interest`, `for parking`
    "foreign subject": -2.5,  # `a pallet costs …`
    "not stated": -2.0,  # nothing marks it as the answer, or even as a result
    "as large as given": -5.0,  # a tax as large as an income, a rent as a house
    "trifle": -4.0,  # a few dollars although the prompt asks for millions
    "one unit": -2.0,  # as in `7,700 kcal are 1 kg`
    "enumerated": -1.5,  # one of several in a sentence
    "foreign heading": -1.0,
    "declines": -3.0,  # the answer declines to give a value
    "declines, concludes": -1.0,  # likewise, but presents this as a result all the same
    "cut off": -2.5,  # the answer is cut off
    "cut off later": -4.0,  # likewise, in a further step towards the result
    "asks back": -1.5,  # the answer asks for information
    "hard to say": -1.0,
}
# Cues that say that a quantity is the answer.
SAYING = (
    *("total", "conclusion", "judgement", "prediction", "therefore", "sum", "named"),
    *("boxed", "opens", "last row"),
)
