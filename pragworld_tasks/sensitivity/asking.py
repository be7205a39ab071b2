"""Whether a text asks for a value, or only for yes or no."""

import re

_SENTENCE_END = re.compile(r"(?<=[.?!;:])\s+")
_OPEN = re.compile(r"\b(?:how(?!\s+about\b)|what|which|where)\b|\bwhats\b")
_CLOSED = re.compile(r"\bwhether\b|\b(?:know|say|see|tell|tell (?:me|us)) if\b")
# A verb before its subject, as in "Is it far", "Can the cost be estimated", "Could you tell me".
_VERB_FIRST = re.compile(
    r"(?:^|,\s)(?:(?:and|but|hello|hey|hi|ok|okay|so|then)\b,?\s)*"
    r"(?:am|are|can|could|did|do|does|had|has|have|is|may|might|must|should|was|were|will|would)"
    r"(?:n't)?\s(?P<asked>(?:you|we)\b|i (?:get|have)\b)?"
)
_REQUEST = re.compile(
    r"\b(?:advise|appreciate|assist|ballpark|calculat(?:e|ing)|come up with|comput(?:e|ing)|curious"
    r"|estimat(?:e|ed|es|ing)|figur(?:e|ing) out|find|give|grateful|guess|help|idea|indicate|kindly"
    r"|know|looking for|number|pin down|please|provide|rough|roughly|run|sense of|tell|thanks?"
    r"|wonder(?:ing)?|work(?:ing)? out)\b"
    r"|\b(?:need|want|like)\s(?:an?|some|the|you\sto)\b"
)


def asks_for_value(text: str) -> bool:
    """Return whether a text asks for something other than yes or no.

    It does if one of its sentences holds *how*, *what*, *which* or *where*, is a question without a
    verb ("Total travel time?"), or makes a request ("Please estimate the cost."). What it asks for
    is not looked at: a question for a name passes as well as one for an amount.

    Args:
        text: The text, in English.

    Returns:
        False if the text is only statements and questions that yes or no answers.

    Example:
        >>> asks_for_value("From {city} to Rome by train. Could you tell me the time it takes?")
        True
        >>> asks_for_value("From {city} to Rome by train. Does it take long?")
        False
    """
    sentences = _SENTENCE_END.split(text.lower().replace("\u2019", "'"))
    return any(_asks(sentence) for sentence in sentences)


def _asks(sentence: str) -> bool:
    if _OPEN.search(sentence):
        return True
    if _CLOSED.search(sentence):
        return False
    question, request = sentence.endswith("?"), bool(_REQUEST.search(sentence))
    if question and (verb_first := _VERB_FIRST.search(sentence)):
        return request and verb_first["asked"] is not None
    return question or request
