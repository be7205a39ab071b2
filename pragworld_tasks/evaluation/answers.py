"""The yes or no in a response.

`read_answer` is the default. It looks where an answer stands, at the start of the response or after
a label such as `Answer:`, unwraps it, and refuses to guess elsewhere: an unreadable response counts
as wrong, and its share is reported. `read_answer_released` is the reading behind the paper's
tables.
"""

import re
import unicodedata

from pragworld_tasks.data.documents import Answer
from pragworld_tasks.evaluation.reasoning import strip_reasoning

# What an answer may be wrapped in: punctuation, brackets, quotes, markdown, tags such as <answer>,
# LaTeX's \boxed{. At most 80 pieces, each of which matches in one way only, so that matching takes
# linear time.
_PIECE = r"</?[^\W_]\w{0,19}>|\\(?:boxed|text|textbf|mathrm|mathbf)\b"
_WRAPPING = rf"(?:{_PIECE}|[\W_]){{0,80}}"
_WRAPPING_ON_LINE = rf"(?:{_PIECE}|[^\w\n]|_){{0,80}}"
# The word itself: not a part of another word (`no-one`), of a phrase that answers nothing
# (`no idea`) or of a condition (`yes if`).
_WORD = (
    r"(?P<word>yes|no(?![ \t]+(?:idea|clue|answer|comment|info|information|one|longer|matter|doubt|"
    r"problem|question|worries|mention|evidence|indication|way[ \t]+(?:to|of))\b))"
    r"(?![^\W_]|[-'\u2019][^\W_]|[ \t]+(?:if|unless)\b)"
)
# Repeated choices: `yes or no`, `(yes) or (no)`, `yes/no`, `yes and no.`, or only the two words.
_OTHER = r"(?!(?P=word))(?:yes|no)(?![^\W_])"
_NOT_CHOICES = (
    rf"(?!{_WRAPPING_ON_LINE}(?:\b(?:or|nor|vs|versus)\b|[/|&]){_WRAPPING}{_OTHER})"
    rf"(?!{_WRAPPING_ON_LINE}\band\b{_WRAPPING}{_OTHER}(?![ \t]+[^\W_]))"
    rf"(?!{_WRAPPING_ON_LINE}{_OTHER}{_WRAPPING_ON_LINE}(?:\n|$))"
)
# What announces an answer: `Answer:`, `so the correct answer is`, a heading on a line of its own.
_LABEL = (
    r"(?:(?:so|thus|hence|therefore|the|my|your|our|final|correct|short|best|right|most|likely|"
    r"i[ \t]+(?:think|believe|would[ \t]+say|conclude)(?:[ \t]+that)?),?[ \t_]+){0,5}"
    r"(?:answer|ans|label|response|output|verdict|conclusion|result|decision|prediction|solution|"
    r"judge?ment)"
    r"(?:[ \t]+(?:here|to[ \t]+(?:the|this|your)[ \t]+question)|"
    r"[ \t]*\(yes[ \t]*(?:/|or)[ \t]*no\))?"
    rf"{_WRAPPING_ON_LINE}(?:(?:is|(?:would|should|must|will)[ \t]+be)"
    r"(?:[ \t]+(?:clearly|definitely|likely|probably|therefore|simply))?\b"
    r"|(?<=[-:=*_\u2013\u2014\u2192])|(?=\n))"
)

_AT_THE_START = re.compile(
    rf"(?:\d{{1,2}}[.)][ \t]+)?{_WRAPPING}(?:{_LABEL}{_WRAPPING})?{_WORD}{_NOT_CHOICES}"
)
_BEHIND_A_LABEL = re.compile(
    rf"(?:^|[\n.,;:!?])[^\w\n]{{0,8}}{_LABEL}{_WRAPPING}{_WORD}{_NOT_CHOICES}"
)
_BOXED = re.compile(rf"\\boxed\b{_WRAPPING_ON_LINE}{_WORD}{_NOT_CHOICES}")
_ALONE_ON_A_LINE = re.compile(rf"^{_WRAPPING_ON_LINE}{_WORD}{_WRAPPING_ON_LINE}$", re.MULTILINE)
_FURTHER_DOWN = (_BEHIND_A_LABEL, _BOXED, _ALONE_ON_A_LINE)
# A word that `no` may belong to (`No apples`), and not one that a sentence begins with (`No he`).
_NOUN_BEHIND = re.compile(
    r"[ \t]+(?!(?:i|you|he|she|it|we|they|the|this|that|these|those|there|a|an|not|both|all|some|"
    r"only|because|since|as|but|alice|bob|person|speaker|listener)\b)[^\W_]"
)

_ANSWERS: dict[str, Answer] = {"yes": "yes", "no": "no"}


def read_answer(response: str) -> Answer | None:
    """Return the answer that a response gives, or None where none can be read.

    - Reasoning is stripped first (`strip_reasoning`); unfinished reasoning leaves no answer.
    - An answer at the start of the response decides, whatever explanation follows.
    - Otherwise answers after a label (`Final answer: no`, `so the answer is yes`), in a LaTeX box
      or alone on a line count, if all of them agree. They also overrule a `no` that may belong to
      the next word (`No apples are left, so the answer is yes`).
    - Repeated choices (`yes or no?`) are not an answer.

    Never raises.

    Examples:
        >>> read_answer("**No.** Bob moved them.")
        'no'
        >>> read_answer("<think>Yes?</think>The answer is no.")
        'no'
        >>> read_answer("It depends.") is None
        True
    """
    text = "".join(
        character
        for character in unicodedata.normalize("NFKC", response)
        if unicodedata.category(character) != "Cf"  # zero-width marks
    )
    text = strip_reasoning(text).strip().lower()
    first = _AT_THE_START.match(text)
    if first and not (first["word"] == "no" and _NOUN_BEHIND.match(text, first.end())):
        return _ANSWERS[first["word"]]
    found = {match["word"] for pattern in _FURTHER_DOWN for match in pattern.finditer(text)}
    if len(found) == 1:
        return _ANSWERS[found.pop()]
    return _ANSWERS[first["word"]] if first else None


def read_answer_released(response: str) -> Answer | None:
    r"""Return the answer as the released scoring reads it: from the first line or its first word.

    None where neither is an answer. The released code raises an error on an empty response; here
    it is unreadable.

    Examples:
        >>> read_answer_released("Yes)\nThe conversation says so.")
        'yes'
    """
    first_line = response.strip().split("\n")[0].strip().lower().replace(",", "")
    words = first_line.split()
    first_word = words[0].replace(".", "") if words else ""
    for text in (first_line, first_word):
        if text in ("(yes)", "yes)", "yes"):
            return "yes"
        if text in ("(no)", "no)", "no"):
            return "no"
    return None


def likelier_answer(yes: float, no: float) -> Answer | None:
    """Return the answer with the greater log-likelihood.

    None where they are equal or NaN, as broken half-precision models give them.

    Examples:
        >>> likelier_answer(yes=-0.2, no=-1.7)
        'yes'
    """
    return "yes" if yes > no else "no" if no > yes else None
