"""Words that speak against a quantity being the bottom line: asides, parts, rates, conditions."""

import re

from pragworld_tasks.quantities.tables import words

_ASIDES = r"""
    tips? | notes? | disclaimers? | caveats? | assum(?:e|es|ed|ing|ptions?) | keep in mind
    important | alternatives? | optional | warnings? | reminders? | references? | sources?
    examples? | limitations? | inputs? | safety | uncertaint(?:y|ies)
"""
ASIDE_HEADINGS = rf"""{_ASIDES}
    factors? | considerations? | ways to \w+ | offset\w* | benefits? | background | additional
    things (?:to|that) | suggestions? | recommendations | reduc\w+ | save (?:money|time)
    lower your | more (?:accurate|precise) | next steps? | data | given | variables | health risks?
    (?:could|may|might|can) (?:\w+ )?(?:change|affect|vary|influence|increase|reduce) | other
    what you (?:need|should) | deductions? | taxable | brackets? | capacity | volume | dimensions
    speed | distance | weight | gross | withholding | per (?!month|year)\w+ | resources
"""
ASIDE_LABELS = rf"""{_ASIDES}
    buffer | margin | sub-?total | each | rate | capacity | deduct\w* | limits? | credits? | speed
    distance | additional | extra | taxable | gross | savings account | payload | brackets?
    volume | budget airlines? | (?:^|[a-z]{{4,}} )per (?!month|year)\w+
"""
ASIDE_INTROS = rf"""{_ASIDES}
    (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:tips|things|factors|ways)
    (?:(?:here|these|there) (?:are|is) )?(?:a few |some |several )?(?:resources|suggestions)
    to (?:reduce|save|cut|lower|speed|avoid|get|make|be|find|give|refine|improve|help|narrow)
    (?:you|i|we) (?:can|could|may|might|would|'d|should|will|need|want) | (?:could|can|would|if) you
    (?:some|other|additional|further|several) (?:\w+ )?(?:factors|things|considerations|options)
    for an? (?:more )?(?:precise|accurate|exact|better)
"""
ASIDE_LEADS = r"""
    tip | note(?: that)? | please note | keep in mind | remember | don't forget | be aware
    for example | for instance | e\.g\. | such as | suppose | (?<=, )say(?=,? \W*$)
    assum(?:e|es|ed|ing)(?=[^,;]*$)
    compared? (?:to|with) | relative to | versus | in comparison | by contrast
    alternatively | instead | safe rate
    guidelines? | if you (?:need|want|would like) | make sure | be sure | whereas | unless
    let's (?:assume|use|take) | alone | by itself | just the | study | consult\w* | quotes?
    calculator | penalt(?:y|ies)
    (?:standard deduction|according to|in (?:19|20)\d\d)(?=[^,]*$)
    only the | limited to | don't exceed | maximum of | who (?:earn|make)
    to (?:work out|calculate|find|determine|compute|figure out) your
    totals? (?:for|over|in|across|per) $
    (?:per (?!month|year|day)\w+|each(?: (?!month|year|day)\w+)?) (?:is|of|=|costs?|has|takes?|at|:)
    time (?:zone )?difference | jet lag | taper\w* | shelf life | typical stops?
    arriv(?:e|ing) (?:at the airport|early) | (?:at|to) the airport(?= \W*$)
    between (?:\w+ )?(?:stops|deliveries|addresses)
    each (?:costing|worth|averaging|taking|saving|needing)
"""
OTHER_MEANS = r"""
    by (?:bike|bicycle|bus|train|subway|rail|transit|foot|ferry|boat|taxi) | bike ride | mbta
    bike | bus | train | subway | by the t | (?:green|red|orange|blue|silver) line
    walking | cycling | commuter rail | carpool\w*
    public (?:transit|transport)
"""
COMPONENT = r"""
    (?<!and )(?<!or )(?<!\+ )(?:in)?direct (?:\w+ )?costs?(?! (?:and|&|\+|plus|or) (?:in)?direct)
"""
_PARTIAL = words(
    "fixed variable fuel flight flying air driving service labor labour food interest principal "
    "mileage layover stops? volume weight distance payments? income deductions? stop parking "
    "loading unloading handling boarding"
)
PARTIAL_TOTALS = rf"""
    total (?:\w+ )?(?:direct|indirect)(?! ?(?:and|&|\+|plus|or|/|costs? (?:and|\+|&)))
    total (?:\w+ )?{_PARTIAL} | total calories (?:eaten|consumed) | total (?:\w+ )?in the air
"""
ADDED_BEFORE = r"""
    add(?:s|ed|ing)?(?! up) | extra | additional | another | further | plus
    minus | off | sav(?:es|ing)(?: you)? | (?<!back )by | (?:reduc|increas)\w+(?: \w+){0,3} by
    deduct\w* | subtract\w* | on top
    (?:buffer|cushion|margin|reserve|slack|connection|layover|stopover|stop|break|wait)s? of
    within | every | each | for every | each of
    (?<!up )(?<!out )(?<!gone )(?<!empty )(?<!exhausted )after
    before | ago | past | first | up from | down from | less than | starts? at
    starting (?:at|from) | holds? | fits? | carry | carries | capacity of | limit of | per
    faster | slower | longer | \+/- | ± | plus or minus | give or take
"""
_AFTERTHOUGHTS = words(
    "extra more(?!.or.less) less longer shorter faster slower cheaper early earlier later? ahead "
    "behind before beforehand prior ago apart away old off apiece buffer cushion below above "
    "deductible"
)
_THINGS = words(
    "layover stopover flight walk connection deficit surplus deduction limit window shift "
    "workday break minimum maximum difference buffer cushion wait mark supply period cycle term "
    "mortgage loan taper delay extension job task affair"
)
ADDED_BEHIND = rf"""
    (?:of the |or so )?{_AFTERTHOUGHTS}(?! (?:at|by) the end)(?! than (?:today|now|at))
    in advance | on top | each(?! (?:way|direction|morning))
    for (?:each|every) | at each | a stop | of (?:buffer|slack|cushion|margin|leeway)
    time difference | days?(?! and) | short of (?:a|the)
    in (?:deductions|credits|tips|fees|interest|taxes withheld) | shelf life
    (?:short )?{_THINGS}s?
"""
CONDITION = re.compile(
    r"^\W*(?:if|when|in case|should you|unless|even if|while|although|though)\b"
    r"(?! i (?:had|were)| we\b| you(?:'re| are) looking| everything| all goes| you want)"
    r"|\b(?:if|unless|when) (?:you|the|there|it|they|your|any|traffic)\b",
    re.IGNORECASE,
)
CONDITION_OPENS = re.compile(r"^\W*(?:if|when|should) (?!i |we |everything|all )", re.IGNORECASE)
RATE_BEHIND = re.compile(
    r"^(?: [\w-]+){0,3} (?:per (?!trip|way|hike|route|journey)|every (?!thing))\w+", re.IGNORECASE
)
INSTRUCTION = re.compile(
    r"\badd (?:up(?! to)|together|these|the)\b(?!.*(?:=|\b(?:and|get|is|comes|land)\b))",
    re.IGNORECASE,
)
DENIED = re.compile(
    r"\b(?:isn't|aren't|is not|are not|not) (?:the (?:same|answer|whole|full)|what|included|equal|"
    r"comparable|something|part)|\bdoesn't count\b|\bjust (?:the|for)\b",
    re.IGNORECASE,
)

# A quantity within a condition, and no outcome of it: `if each stop takes 5 minutes`.
GIVEN = re.compile(
    r"\b(?:if|assuming|provided|given) (?:(?:that|you|we|it|the|each|every|your|they|an?)\b)"
    r"(?:(?!\b(?:then|would|will|takes? (?:about|around)|expect|budget|plan|that's|it's|means|"
    r"rent|pay|paid|paying)\b|,|'d|'ll)[^.;:])*$",
    re.IGNORECASE,
)
# What only goes into the computation, however large it is.
_INPUT_NAMES = (
    r"\b(?:standard deduction|taxable income|adjusted gross income|agi|gross income|salary|"
    r"(?:house|home|purchase|vehicle|car|sticker|selling|sale) (?:price|value)|msrp|net proceeds|"
    r"proceeds|loan (?:amount|balance)|down payment|total interest|interest paid|home equity|"
    r"value of the (?:house|home|car|property)|total (?:paid|payments|repaid)|payroll tax(?:es)?|"
    r"fica|social security|medicare|state (?:income )?tax(?:es)?|"
    r"(?:current|existing|yearly|operating) (?:\w+ ){0,2}budget)\b"
)
INPUT_BEFORE = re.compile(
    rf"{_INPUT_NAMES}[^.;:,$\d]{{0,25}}(?:, which is (?:\w+ )?|: ?)?[^.;:,$\d]{{0,3}}$",
    re.IGNORECASE,
)
INPUT_LABEL = re.compile(rf"^\W*(?:\w+ ){{0,2}}{_INPUT_NAMES}", re.IGNORECASE)
# Parts of what a program, a car, a house, a shipment or a journey takes.
_PARTS = (
    r"(?:fuel|gas(?:oline)?|(?:\w+ )?insurance|maintenance|repairs?|upkeep|depreciation|tires|"
    r"registration|parking|tolls|property tax(?:es)?|hoa(?: fees)?|food|labor|labour|staffing|"
    r"admin(?:istration|istrative costs)?|equipment|training|facilities|packaging|fuel surcharge|"
    r"outreach|check-in|security|baggage(?: claim)?|layovers?|customs|immigration|deplaning)"
)
PART_HEADING = re.compile(
    rf"^\W*(?:\w{{1,2}}[.):] ?)?{_PARTS}\b(?: (?:costs?|&|and) ?\w*)?\W*$", re.IGNORECASE
)
PART_LABEL = re.compile(rf"^\W*{_PARTS}\b(?: (?:costs?|&|and) ?\w*)?\W*$", re.IGNORECASE)
PART_BEFORE = re.compile(
    rf"\b(?:need|buy|replace|get) (?:new |a set of |more )?{_PARTS}\b[^.;,$\d]{{0,40}}$"
    rf"|(?:^|[,;:.(]|\b(?:and|plus|for|while))\W*(?:your |the )?{_PARTS}(?: costs?)?:? ?"
    r"(?:is|are|costs?|runs?|will|would|could|can|about|around|at|may|might|typically|usually|"
    r"averages?|adds?|takes?|comes?|[=→≈~])[^.;,$\d]{0,25}$",
    re.IGNORECASE,
)
# Where nothing comes in between, which is not how it will be.
IDEAL = r"""
    (?:without|with no|with zero|in the absence of) (?:any )?traffic | in (?:light|no) traffic
    (?:in|under) (?:ideal|perfect) conditions | outside (?:of )?rush hour | off-?peak
    at (?:3|4|5)(?::\d\d)? ?a\.?m\.? | free[- ]flow\w* | on a sunday
"""
