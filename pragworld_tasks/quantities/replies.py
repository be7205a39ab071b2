"""What an answer says of itself: that it gives no value, asks back, or prefers one by its name."""

import re

from pragworld_tasks.quantities.tables import words

# One of several alternatives that is preferred by its name.
_NAMED = (
    r"(?:conservative|moderate|medium|optimistic|middle|mid(?:-range)?|base(?:line)?|realistic|"
    r"typical|central|average|expected|high|low|option \w|scenario \w|method \w)\b"
)
PREFERS = re.compile(
    r"\b(?:i'd|i would|i'll|let's|you should|please|to) (?:\w+ )?(?:go with|budget|plan|use|take|"
    r"pick|choose|assume|recommend|suggest|count)(?: (?:for|on|around))? (?:the |an? )?"
    rf"(?P<chosen>{_NAMED}) (?:one|case|scenario|estimate|figure|option|value)\b"
    rf"|\b(?P<name>{_NAMED})"
    r"(?: (?:one|case|scenario|estimate|figure|option|value|assumption)\b)?"
    r"(?: (?:is|seems|looks|feels|appears|sounds))(?: (?:to me|to be|like|the|probably|my|by far))*"
    r"(?: (?:most|more|best|likeliest))?"
    r" (?:likely|realistic|credible|reasonable|defensible|plausible|probable|sensible|bet|guess|"
    r"estimate|choice|one to use|recommended)\b",
    re.IGNORECASE,
)

_TELL = words("say tell give provide determine estimate guess calculate predict know")
DECLINES = re.compile(
    r"\b(?:can(?:'t|not)|unable to|not able to|couldn't|difficult for me to|impossible to|"
    r"rather not)"
    rf"(?: (?!exact|precise)\w+){{0,3}} {_TELL}\b"
    r"(?![^.\n]{0,30}\b(?:exact|precise|specific|definitive|personal|advice|sure)\b)"
    r"|\bwithout (?:knowing|more|these|that|further)\b"
    r"(?![^.\n]{0,80}, (?:let's|i'll|i'd|we|the|an?|you|assum\w+|suppose))"
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
    r"|\b(?:i|we)(?:'d| would|'ll)? need "
    r"(?:to know|your|a (?:few|little|bit)|some|more|the following)"
    r"|\b(?:more|additional|further|few) (?:information|details)"
    r"|\b(?:which|what|where|when|how)\b[^.?\n]{3,80}\byour?\b[^.?\n]{0,60}\?",
    re.IGNORECASE,
)
