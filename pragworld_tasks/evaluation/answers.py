"""The yes or no in a response.

`read_answer` is the default. It reads what a careful person would, and refuses to guess elsewhere:
an unreadable response counts as wrong, and its share is reported. `read_answer_released` is the
reading behind the paper's tables.

A yes or no is a claim where it stands like an answer: at the start of a sentence (behind openers
such as `Well,` or `Based on the conversation,`), behind a label (`Answer:`, `the answer is`), or
where a sentence ends in it (`…, so no.`, `I'd lean yes.`). Everything is decided by the sentence up
to the word and by a few words behind it, so that reading takes time in proportion to the length.
"""

import enum
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pragworld_tasks.data.documents import Answer
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import strip_reasoning

_LEFT, _RIGHT = 240, 120  # characters before and behind a word that are looked at
_MOST = 1000  # words yes and no that are looked at: a response with more of them rambles


def _any_of(name: str) -> str:
    """Return the pattern of any phrase of a list in `answer_phrases.toml`."""
    return f"(?:{'|'.join(read_package_toml(__package__, 'answer_phrases.toml')[name])})"


# Tags that announce an answer; special tokens of chat templates and ends of tags, which end a line;
# other tags and LaTeX, which are left out.
_ANSWER_TAG = re.compile(r"<(?:final[_ -]?)?(?:answer|final|label|response|output|result)>")
_END = re.compile(r"<\|[^|<>\n]{1,40}\|>|\[/?inst\]|<</?sys>>|</[^\W_]\w{0,30}>|<(?:eos|bos)>")
_TAG = re.compile(
    r"<(?!yes>|no>)[^\W_]\w{0,30}>|\\(?:text(?:bf|it|tt|rm)?|math(?:bf|rm|it)|bf|large|huge)\b|[|#>]"
)
# A sentence ends at a mark before white space or a closing bracket or quotation mark, but not where
# a quoted question is a part of it: `the answer to "…?" is no`.
_MARK = r"[.!?;](?:(?!\s|$|[\"')\]*}_`])|(?=[\"')]{1,2} (?:is|was|would|should|must)\b))"
_SENTENCE = re.compile(rf"[^.!?;\n]*(?:{_MARK}[^.!?;\n]*)*[.!?;\n]*")

# The word itself: not a part of another word (`no-one`) or of a phrase that answers nothing.
_ALONE = (r"(?<![^\W_])(?<![^\W_][-'])", r"(?![^\W_]|[-'][^\W_])")
_WORD = re.compile(rf"{_ALONE[0]}(?P<word>yes|no(?!\s+{_any_of('no_phrases')}\b)){_ALONE[1]}")
_OTHER_WORD = re.compile(
    rf"{_ALONE[0]}(?:(?P<no>{_any_of('negative')})|(?P<yes>{_any_of('affirmative')})){_ALONE[1]}"
)

# What may stand before an answer, in the sentence as `_bare` writes it.
_NAME = rf"(?:{_any_of('label_attributes')} ){{0,5}}{_any_of('label_nouns')}"
_CHOICES = r"(?:yes (?:or )?no|true (?:or )?false)"
_IS = (
    r"(?:is|was|becomes|(?:would|should|must|will|has to|can only|would have to) be)(?: (?:clearly|"
    r"definitely|likely|probably|therefore|simply|thus|still|most likely|a|an|clear|that)){0,3}"
)
_BARE_LABEL = re.compile(rf"(?:{_NAME}|{_CHOICES})(?: {_CHOICES})? ?:?")
_BEHIND_LABEL = re.compile(
    rf"(?:^|[ ,:])(?:{_NAME}(?: (?:text|here|below))?(?: (?:to|for) [^:]{{1,100}}?"
    rf"| in the conversation)?(?: {_CHOICES})? ?(?::|{_IS} ?:?)|{_CHOICES} ?:)$"
)
_FINAL = re.compile(rf"(?:^|[ ,:]){_any_of('final')}(?: {_any_of('label_nouns')})?[^,]{{0,30}}$")
_TENTATIVE = re.compile(rf"\b{_any_of('tentative')} {_any_of('label_nouns')}\b[^,]{{0,10}}$")
_UP_TO_HERE = r"(?:(?!\b(?:so|therefore|thus|hence|but)\b)[^,])*$"  # within a clause
_REPORTED = re.compile(rf"(?:\b{_any_of('reported')}|\b{_any_of('denied')})\b{_UP_TO_HERE}")
_SOMEBODYS = re.compile(
    rf"\b(?:(?!model|today|it|that|there|here|what|let)[^\W_]+'s|his|her|their) "
    rf"(?:{_any_of('label_attributes')} ){{0,3}}{_any_of('label_nouns')}\b[^,]*$"
)
_NOT_REPORTED = re.compile(r"\bi(?: would|'?d| will|'?ll)? (?:say|think)\b[^,]*$")
_CONDITION = re.compile(rf"(?:^|[ ,:]){_any_of('conditions')}\b|\b(?:maybe|perhaps)\b[^,]{{0,20}}$")
# Possessive: a sentence that is no opener is left at once.
_OPENER = re.compile(
    rf"(?>(?:{_NAME}(?: {_IS})?|{_CHOICES}(?= ?:)|{_any_of('openers')})(?:[ ,:]+|$))*+"
)
_CONCLUSION = re.compile(
    rf"(?:^|[ ,:]){_any_of('conclusions')}"
    r"(?: (?:definitely|probably|likely|clearly|simply|most likely|a|an))?[ ,:]*$"
)
_BEHIND_BACK = re.compile(
    rf"\b{_any_of('taken_back')}[ ,:]*(?:(?:it|that|the answer)(?:'s| is|'d be| should be))?$"
)
_BOXED = re.compile(r"\\boxed\b\W{0,20}$")
_SPEECH = re.compile(rf"\b{_any_of('speech')}\b")

# What may stand behind an answer.
_WRAPPED = r"(?:[^\w\n]|_){0,80}"
_ANYTHING = r"[\W_]{0,80}"
_OTHER = r"(?!(?P=word))(?:yes|no)(?![^\W_])"
_IS_CHOICE = re.compile(
    rf"(?P<word>yes|no)(?:{_WRAPPED}(?:\b(?:or|nor|vs|versus|over)\b|[/|&]){_ANYTHING}{_OTHER}"
    rf"|{_WRAPPED}\b(?:and|but|yet)\b(?:{_WRAPPED}\balso\b)?{_ANYTHING}{_OTHER}(?![ \t]+[^\W_])"
    rf"|{_WRAPPED}{_OTHER}{_WRAPPED}(?:\n|$))"
)
_IS_TAKEN_BACK = re.compile(
    rf"[^\n]{{0,{_RIGHT}}}?(?:\n+\W{{0,9}}(?:[a-z]+\W+)?)?\b{_any_of('taken_back')}\b"
)
_IS_CONDITIONAL = re.compile(
    r"[^\w\n]{0,10}(?:but )?(?:only )?(?:if|unless|provided|assuming|depending|as long as)\b"
)
_IS_REJECTED = re.compile(rf"[\"'\u201d*_`)\]}}]{{0,4}} {_any_of('rejected')}\b")
_IS_QUESTION = re.compile(r"[^\w\n?]{0,10}\?")
_IS_COURTESY = re.compile(
    r"[^\w]{0,10}(?:i understand|(?:i (?:can|could|will|would)|i'?(?:ll|d)|of course)\b[^\n]{0,20}?"
    r"\b(?:help|answer|assist|explain|tell|happy|glad|do that|analy[sz]e))\b"
)
_IS_PREFACE = re.compile(
    r"[^\w]{0,10}(?:here(?:'s| is| are)|let(?:'s| me| us)|i(?:'ll|'d| can| will| would))\b"
)
_ENDS = re.compile(
    rf"{_WRAPPED}(?:\n|$)|[*_`\"'\u201d)\]}}$ ]{{0,20}}[.!?,;:)\]}}\u2013\u2014\u2026-]|"
    r"[^\w\n]{1,20}(?:because|since|as|for|given|although|though|even|but|in|on|according|based|he|"
    r"she|it|they|there|here|i|we|you)\b"
)
# A word that `no` may belong to (`No apples`), and not one that a sentence begins with (`No he`).
_NOUN_BEHIND = re.compile(
    r"[ \t]+(?!(?:i|you|he|she|it|we|they|the|this|that|these|those|there|a|an|not|both|all|some|"
    r"only|because|since|as|but|alice|bob|(?:person|speaker|listener)\s\d)\b)[^\W_]"
)
_LETTER = re.compile(r"[\W_]{0,20}(?P<letter>[yn])[\W_]{0,20}")
_NEXT_QUESTION = re.compile(
    r"[\W_]*(?:question|q|user|human|conversation|read this)\b[ \t\d]*[:\n]"
)
_SEPARATORS = re.compile(r"(?:[^\w',:]|_|(?<![^\W_])'|'(?![^\W_]))+")

_ANSWERS: dict[str, Answer] = {"yes": "yes", "no": "no"}


class _Kind(enum.IntEnum):
    """How much a claim counts against others; the first sentence decides before all others."""

    NOUN = 1  # a `no` that may belong to the next word
    OTHER_WORD = 2  # yep, not at all, true
    SENTENCE = 3  # a sentence that begins with the word, or ends in it after a comma
    STATED = 4  # behind a label, or a conclusion
    FINAL = 5  # behind a label that says so


class _Claim(NamedTuple):
    """An answer that a response gives somewhere.

    Attributes:
        answer, kind: the answer, and how much it counts.
        line: the number of its line, from 0.
        opens: whether it opens the response.
        is_taken_back: whether it opens the response, and what follows at once takes it back.
    """

    answer: Answer
    kind: _Kind
    line: int
    opens: bool = False
    is_taken_back: bool = False


def read_answer(response: str) -> Answer | None:
    """Return the answer that a response gives, or None where none can be read.

    - Reasoning is stripped first (`strip_reasoning`); unfinished reasoning leaves no answer.
    - An answer that opens the response decides, whatever explanation follows, unless the model
      takes it back at once (`Yes... wait, no.`).
    - Otherwise the answers further down count if they agree: behind a label (`Final answer: no`),
      at the start of a sentence (`Let me see. No, …`) or at its end (`…, so yes.`). A final answer
      overrules others. All overrule a `no` that may belong to the next word (`No apples are left,
      so the answer is yes`).
    - Words such as `Yep`, `Not at all` or `True` answer where they open the response or follow a
      label, and no yes or no follows.
    - Repeated choices (`yes or no`), questions (`Yes?`), conditions (`Yes, if …`), contradictions
      (`Yes, but no`) and what is said to be wrong (`"Yes" is incorrect`) are not answers.

    Never raises.

    Examples:
        >>> read_answer("**No.** Bob moved them.")
        'no'
        >>> read_answer("<think>Yes?</think>The answer is no.")
        'no'
        >>> read_answer("It depends.") is None
        True
    """
    text = unicodedata.normalize("NFKC", response)
    if not text.isascii():  # it may have zero-width marks
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    text = strip_reasoning(text).lower().replace("\u2019", "'")
    text = _ANSWER_TAG.sub(" final answer: ", text)
    text = _TAG.sub(" ", _END.sub("\n", text)).strip()
    if letter := _LETTER.fullmatch(text):
        return "yes" if letter["letter"] == "y" else "no"
    if more := next(itertools.islice(_WORD.finditer(text), _MOST, None), None):
        text = text[: more.start()]
    opening: _Claim | None = None
    claims: list[_Claim] = []
    for claim in _claims(text):
        if claim.opens:
            opening = claim
        elif (
            not opening
            or opening.is_taken_back
            or claim.line == opening.line
            or claim.kind is _Kind.FINAL
        ):
            claims.append(claim)
    stated = [claim for claim in claims if claim.kind >= _Kind.STATED]
    if opening and not opening.is_taken_back:
        final = _agreed(claim for claim in claims if claim.kind is _Kind.FINAL)
        contradicted = any(claim.answer != opening.answer for claim in stated)
        return final if contradicted else opening.answer
    if opening and not stated:
        return _agreed([opening, *claims])
    return _agreed(claims)


def _agreed(claims: Iterable[_Claim]) -> Answer | None:
    """Return the answer of the strongest claims, or None where they differ or there are none."""
    claims = list(claims)
    strongest = max((claim.kind for claim in claims), default=None)
    answers = {claim.answer for claim in claims if claim.kind is strongest}
    return answers.pop() if len(answers) == 1 else None


def _claims(text: str) -> Iterator[_Claim]:
    """Yield what a response claims, up to the next question that the model invents."""
    is_first = True  # whether no sentence before says anything
    behind_label = False
    claimed = False
    line = 0
    for found in _SENTENCE.finditer(text):
        sentence = found.group()
        if claimed and _NEXT_QUESTION.match(sentence):
            return
        bare = _bare(sentence[: _LEFT + 1])
        if bare.strip(" ,:'"):
            for claim in _claims_of(text, found.span(), line, is_first, behind_label):
                claimed = True
                yield claim
            behind_label = bool(_BARE_LABEL.fullmatch(bare))
            is_first &= behind_label
        line += sentence.count("\n")


def _claims_of(
    text: str, span: tuple[int, int], line: int, is_first: bool, behind_label: bool
) -> Iterator[_Claim]:
    """Yield the claims of the sentence at `span` of a response."""
    start, end = span
    claimed = False
    for word in _WORD.finditer(text, start, end):
        opens, kind = _before(text[max(start, word.start() - _LEFT) : word.start()])
        whole = text[word.start() : word.end() + _RIGHT]
        behind = text[word.end() : word.end() + _RIGHT]
        if (
            not (opens or kind)
            or _IS_CHOICE.match(whole)
            or _IS_CONDITIONAL.match(behind)
            or _IS_REJECTED.match(behind)
            or _IS_QUESTION.match(behind)
            or (word["word"] == "yes" and _IS_COURTESY.match(behind))
        ):
            continue
        answer = _ANSWERS[word["word"]]
        if opens and is_first and not claimed:
            if answer == "no" and _NOUN_BEHIND.match(behind):
                yield _Claim(answer, _Kind.NOUN, line)
            else:
                taken_back = bool(_IS_TAKEN_BACK.match(behind))
                yield _Claim(answer, _Kind.SENTENCE, line, True, taken_back)
        elif _ENDS.match(behind):
            kind = kind or (_Kind.STATED if behind_label else _Kind.SENTENCE)
            yield _Claim(answer, kind, line)
        claimed = True
    if claimed or _WORD.search(text, start, end):
        return
    for word in _OTHER_WORD.finditer(text, start, min(end, start + _LEFT)):
        opens, kind = _before(text[start : word.start()])
        behind = text[word.end() : word.end() + _RIGHT]
        if (
            ((opens and (is_first or behind_label)) or kind in (_Kind.STATED, _Kind.FINAL))
            and _ENDS.match(behind)
            and not _IS_PREFACE.match(behind)
            and not _IS_QUESTION.match(behind)
            and not _IS_CONDITIONAL.match(behind)
        ):
            yield _Claim("no" if word["no"] else "yes", _Kind.OTHER_WORD, line)
        return


def _before(text: str) -> tuple[bool, _Kind | None]:
    """Return whether a word opens its sentence, and the claim that the text before makes of it."""
    bare = _bare(text)
    if _CONDITION.search(bare):
        return False, None
    if _TENTATIVE.search(bare):
        return False, _Kind.SENTENCE
    opens = not bare.strip(" ,:'") or bool(_OPENER.fullmatch(bare))
    if _BOXED.search(text):
        return opens, _Kind.FINAL
    if _BEHIND_LABEL.search(bare):
        if _SOMEBODYS.search(bare) or (_REPORTED.search(bare) and not _NOT_REPORTED.search(bare)):
            return False, None
        return opens, _Kind.FINAL if _FINAL.search(bare) else _Kind.STATED
    if _CONCLUSION.search(bare) or _BEHIND_BACK.search(bare):
        return opens, _Kind.STATED
    if opens:
        return True, None
    if bare.endswith(":") and bare.count(":") == 1 and len(bare.split()) > 3:
        return False, None if _SPEECH.search(" ".join(bare.split()[-5:])) else _Kind.STATED
    if _SPEECH.search(bare) or _WORD.search(bare):
        return False, None
    return False, _Kind.SENTENCE if bare.endswith(",") else None


def _bare(text: str) -> str:
    """Return words, apostrophes, commas and colons of a text, separated by single spaces."""
    return " ".join(_SEPARATORS.sub(" ", text).split())


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
