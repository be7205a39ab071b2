"""Words that speak for a quantity being the bottom line: totals, conclusions, what to expect."""

import re

from pragworld_tasks.quantities.tables import any_of, words

TOTALS = r"""
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
CONCLUSIONS = r"""
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
    "book reckon call give consider assume allow bet lean settle round pick ask reserve order "
    "take opt"
)
JUDGEMENTS = rf"""
    realistic(?:ally)? | more? likely | most likely | recommend(?:ation|ed|ing)? | ballpark
    {_GOOD} (?:\w+ )?{_GUESS} | i(?:'?d| would) (?:\w+ )?{_OPINE}
    i (?:estimate|reckon|guess|think|suggest|recommend|believe) | single (?:number|figure)
    mid-?point | middle[- ](?:ground|of the road) | call it | safe to say | sweet spot
    (?:plan|planned|scheduled|budgeted) (?:on|for|with|around) | most (?:mornings|days)
    (?:most|many) (?:people|drivers|folks|locals|commuters|hikers) (?:would|will|should|find|need)
"""
_HAPPEN = words(
    "take last cost save need be burn require lose gain owe come run amount total range yield "
    "prevent avoid pay leave spend generate reach exceed result saved burned burnt lost gained "
    "spent paid have see drop shed put set rent want get drive use make allow go fall lie sit land "
    "weigh read show fit stand earmark reckon count"
)
_MODAL = words(r"will would should could might may can must ought \w+'ll \w+'d")
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
    (?:you|it|that|this|we)(?:'d|'ll| would| could| will| should| might| can| may) (?:\w+ ){{1,3}}$
    (?:arrives?|arriving|stands?|lands?) (?:at|on|around|near|in)
    sets? (?:\w+ ){{1,8}}back by | wants?
    (?:used up|gone|runs? out|empty|exhausted) (?:after|in|within) | set(?:ting)? aside | allow
    going through | (?:you|we|that)(?:'re| are) (?:up )?(?:at|to) | (?:good|set|covered|fine) for
"""
PREDICTION = any_of(_PREDICTIONS)
_ENOUGH = words(  # `my best estimate`
    "enough plenty realistic reasonable likely fair sensible most my about defensible credible"
)
TOTAL_BEHIND = re.compile(
    r"^(?: total\b|,? is an? (?:good|reasonable|realistic|sensible|fair|safe)\b)"
    r"|^(?! (?:of|in) (?!the|your|total|all))[ \w'-]{0,40}\b(?:in total|altogether|overall|"
    r"all[- ]told|all[- ]in|in all|all up|(?<!if )everything|combined|all together|"
    r"door[- ]to[- ]door|does it|"
    r"from (?:your )?(?:front )?door|"
    r"(?:for|to (?:do|make|complete|finish|cover)) (?:the|your|that|this|all)(?: of)? "
    r"(?:whole|entire|full|total|complete|lot|\d+)|"
    r"i(?:'d| would) (?:say|guess|estimate|think|reckon)|i (?:estimate|guess|think|reckon)|"
    rf"(?:is|are|(?:would|will|should|ought to) be) (?:{_ENOUGH}|an? {_GOOD})|"
    r"(?:is|are|be) (?:the|your|our) (?:most )?(?:\w+ )?(?:likely|realistic|expected|amount|number|"
    r"figure|rent|cost|total|estimate|commute|answer)|"
    r"is (?:all|what) (?:you|it|we|i)|it is|"
    r"(?:(?:should|must|can) be|has to be|needs to be) "
    r"(?:reserved|budgeted|planned|set aside|put aside|found|paid|spent|expected|allowed)|"
    r"(?:should|will|would|ought to)(?: \w+)? (?:do|be enough|cover|suffice|handle|get you)|"
    r"(?:would|will|should|to) (?:be|make|leave|put|come|break) (?:you )?(?:\w+ ){0,3}"
    r"(?:well off|equivalent|indifferent|the same|even|equal))\b",
    re.IGNORECASE,
)
# Only what is meant as an answer is hedged like this behind it: `$1,600-$1,800 probably`.
HEDGED_BEHIND = re.compile(
    r"^(?: or so)?,? (?:probably|i'd bet|i bet|tops|give or take|if i had to guess)\b",
    re.IGNORECASE,
)
THEREFORE = re.compile(
    r"^\W*(?:so|thus|based on|given|considering|taking|with (?:all )?(?:this|that|these)|after|"
    r"putting|as (?:a result|you|it|this|we)|(?:which|this) means|in (?:this|that|your) case|"
    r"for (?:the|your|an?)|under these|rounding|all)\b"
    r"|\b(?:therefore|thus|hence|so|consequently|accordingly)\b",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|roughly|some|nearly|almost|between|somewhere|anywhere|"
    r"at least|up to|approx\.?|over|from|ca\.|under|close to|like)|[≈~=→:])\W*$",
    re.IGNORECASE,
)
CONCLUDING_HEADINGS = rf"""{CONCLUSIONS}{TOTALS}
    what (?:i|we)(?:'d| would) \w+ | what to (?:plan|book|budget)
    recommendation | putting (?:it|everything|this) (?:all )?together | estimate | so,? how .*
    (?:final|overall|my|rough|best|quick|time|cost|estimated?) (?:\w+ ){{0,3}}(?:savings|cost|time)
"""
NAMES = r"""
    estimat(?:e|ed|es|ion) | expected | approximate(?:ly)? | recommend(?:ed|ation)? | projected
    likely | realistic(?:ally)? | equivalent | potential | probable | needed | required
    budget
"""

# Where two sides are equal, which is what was asked for if rent is to equal the cost of owning.
_BALANCE = (
    r"(?:break(?:ing|s)?[- ]even|same (?:wealth|position|place|spot)|(?:just as|equally) well off"
    r"|indifferent|come out even|a wash|(?:cost|costs|costing) (?:you )?the same)"
)
BALANCE_BEFORE = re.compile(
    rf"\b{_BALANCE}\b[^.;]{{0,30}}\b(?:if|when|at|with)\b[^.;]{{0,50}}$", re.IGNORECASE
)
BALANCE_BEHIND = re.compile(
    rf"^[^.;$]{{0,40}}(?:,|\b(?:and|is|are|be|to|would|you'd)) [^.;$]{{0,30}}\b{_BALANCE}\b",
    re.IGNORECASE,
)
# A sentence that tells what to reckon with: `Budget $25,000`, `So set aside five hours`.
IMPERATIVE = re.compile(
    r"^\W*(?:(?:so|then|therefore|thus|and|realistically|conservatively|overall|just)\W+){0,2}"
    r"(?:for [^,.]{1,40}, )?(?:budget|expect|set aside|allow|figure(?: on)?|plan (?:on|for)|"
    r"reserve|order|rent|book|get|put|call it|count on|make it|go with|"
    r"round (?:it )?up (?:to|and \w+))\b",
    re.IGNORECASE,
)
IN_OTHER_WORDS = re.compile(
    r"(?:\bi\.e\.|\bthat is|\bin other words|\bequivalently|\bmeaning),? *$", re.IGNORECASE
)
