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
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from pragworld_tasks.chat import content_text
from pragworld_tasks.data.documents import Answer
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import pattern_compiler, strip_reasoning

_LEFT, _RIGHT = 240, 120  # characters before and behind a word that are looked at
_MOST = 1000  # words yes and no that are looked at: a response with more of them rambles
_PHRASES = read_package_toml(__package__, "answer_phrases.toml")
_pattern = pattern_compiler(_PHRASES)
_ANSWERS: dict[str, Answer] = {"yes": "yes", "no": "no"}


UnreadableReason = Literal[
    "empty", "cut off", "unfinished reasoning", "refusal", "both", "no answer"
]


class _Kind(enum.IntEnum):
    """How much a claim counts against others; the first sentence decides before all others."""

    NOUN = 1  # a `no` that may belong to the next word
    OTHER_WORD = 2  # yep, not at all, true
    SENTENCE = 3  # a sentence that begins with the word, or ends in it after a comma
    LAST = 4  # the last sentence, if it is nothing but the word
    STATED = 5  # `the answer is`, or a conclusion
    LABELLED = 6  # behind a label (`Answer:`), or alone in the last line
    FINAL = 7  # behind a label that says so


class _Claim(NamedTuple):
    """An answer that a response gives somewhere."""

    answer: Answer
    kind: _Kind
    line: int
    opens: bool = False  # whether it opens the response, and what follows doesn't take it back


def read_answer(response: str | None) -> Answer | None:
    """Return the answer that a response gives, or None where none can be read.

    - Reasoning is stripped first (`strip_reasoning`); unfinished reasoning leaves no answer.
    - An answer that opens the response decides, whatever explanation follows, unless the model
      takes it back at once (`Yes... wait, no.`), or gives another one under the same label.
    - Otherwise the answers further down count if they agree: behind a label (`Final answer: no`),
      at the start of a sentence (`Let me see. No, …`) or at its end (`…, so yes.`). A final answer
      overrules others, and the last one under a label those before. All overrule a `no` that may
      belong to the next word (`No apples are left, so the answer is yes`).
    - Where both options are listed, the marked one is the answer (`[ ] Yes [x] No`, `Yes: 12%,
      No: 88%`, `A) Yes B) No. Answer: B`). Calls of tools and JSON answer with their value.
    - Words such as `Yep` or `Not at all` answer where they open the response or follow a label, and
      no yes or no follows; `Ja` or `はい` where they open it.
    - Choices (`yes or no`), questions (`Yes?`), conditions (`Yes, if …`), contradictions (`Yes, but
      no`), quotations and what is said to be wrong (`"Yes" is incorrect`) are not answers.

    Examples:
        >>> read_answer("**No.** Bob moved them.")
        'no'
        >>> read_answer("<think>Yes?</think>The answer is no.")
        'no'
        >>> read_answer("It depends.") is None
        True
    """
    text = strip_reasoning(_normalized(response)).lower()
    for name, replacement in _PHRASES["rewritten"]:
        text = _pattern(name).sub(replacement, text)
    text = _pattern("valued").sub(_likelier_option, text).strip()
    if more := next(itertools.islice(_pattern("word").finditer(text), _MOST, None), None):
        text = text[: more.start()]
    claims = [*_claims(text)]
    opening = next((claim for claim in claims if claim.opens), None)
    if not opening:
        if _pattern("breaks_off").search(f"\n{text}"):
            claims = [claim for claim in claims if claim.kind is not _Kind.SENTENCE]
        return _agreed(claims)
    claims.remove(opening)
    overruling = [
        claim
        for claim in claims
        if claim.kind is _Kind.FINAL or claim.kind is opening.kind is _Kind.LABELLED
    ]
    near = [claim for claim in claims if claim.kind >= _Kind.STATED and claim.line == opening.line]
    contradicted = any(claim.answer != opening.answer for claim in near + overruling)
    return _agreed(overruling) if contradicted else opening.answer


def _normalized(response: str | None) -> str:
    """Return a response, or the text of its parts, in plain characters without invisible marks."""
    text = unicodedata.normalize("NFKC", content_text(response)).replace("\u2019", "'")
    if text.isascii():  # which has no such marks
        return text
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _likelier_option(match: re.Match[str]) -> str:
    """Write two options with their values (`Yes: 12%, No: 88%`) as the answer of the greater."""
    one, value, other, other_value = match.groups()
    first, second = (float(_PHRASES["truths"].get(text, text)) for text in (value, other_value))
    if one == other or first == second:
        return "yes or no"
    return f"final answer: {one if first > second else other}"


def unreadable_reason(
    response: str | None, finish_reason: str | None = None
) -> UnreadableReason | None:
    """Return why no answer can be read in a response, or None where one is read.

    - `unfinished reasoning`: the response ends within its reasoning.
    - `refusal`: the model or its provider declines to answer.
    - `cut off`: the server stopped at the limit of tokens, or the text breaks off in a sentence.
    - `empty`: nothing but white space and finished reasoning.
    - `both`: yes and no, and nothing says which holds.
    - `no answer`: anything else.

    Args:
        response: the response; None is one that an API refused to give.
        finish_reason: why the server stopped, where it is known (`length`, `content_filter`).

    Examples:
        >>> unreadable_reason("<think>Bob left, so")
        'unfinished reasoning'
        >>> unreadable_reason("Yes or no.")
        'both'
    """
    if read_answer(response):
        return None
    text = _normalized(response)
    if not strip_reasoning(f"{text}\n{'.' * 99}").endswith("."):  # the last block takes all
        return "unfinished reasoning"
    text = strip_reasoning(text).strip()
    ended = f"{finish_reason or ''}\n{text}".lower()
    if _pattern("refusal").search(ended):
        return "refusal"
    if _pattern("cut_off").search(ended):
        return "cut off"
    words = {found["word"] for found in _pattern("word").finditer(ended)}
    return "both" if words == _ANSWERS.keys() else "no answer" if text else "empty"


def _agreed(claims: Sequence[_Claim]) -> Answer | None:
    """Return the answer of the strongest claims: the last label's, or what others agree on."""
    strongest = max((claim.kind for claim in claims), default=_Kind.NOUN)
    answers = [claim.answer for claim in claims if claim.kind is strongest]
    decided = len({*answers}) == 1 or (answers and strongest >= _Kind.LABELLED)
    return answers[-1] if decided else None


def _claims(text: str) -> Iterator[_Claim]:
    """Yield what a response claims, up to the next question that the model invents."""
    is_first = True  # whether no sentence before says anything
    behind_label = _Kind.SENTENCE  # what the line before makes of an answer
    claimed = False
    line = 0
    for found in _pattern("sentence").finditer(text):
        sentence = found.group()
        if claimed and _pattern("next_question").match(sentence):
            return
        bare = _bare(sentence[: _LEFT + 1])
        if bare.strip(" ,:'"):
            for claim in _claims_of(text, found.span(), line, is_first, behind_label):
                claimed = True
                yield claim
            is_label = bool(_pattern("bare_label").fullmatch(bare))
            behind_label = _Kind.LABELLED if is_label else _Kind.SENTENCE
            is_first &= is_label
        line += sentence.count("\n")


def _claims_of(
    text: str, span: tuple[int, int], line: int, is_first: bool, behind_label: _Kind
) -> Iterator[_Claim]:
    """Yield the claims of the sentence at `span` of a response."""
    start, end = span
    claimed = False
    for word in _pattern("word").finditer(text, start, end):
        opens, kind = _before(text[max(start, word.start() - _LEFT) : word.start()])
        behind = text[word.end() : word.end() + _RIGHT]
        if not (opens or kind) or _pattern("leaves_open").match(
            text, word.start(), word.end() + _RIGHT
        ):
            continue
        answer = _ANSWERS[word["word"]]
        if opens and is_first and not claimed:
            if answer == "no" and _pattern("noun_behind").match(behind):
                yield _Claim(answer, _Kind.NOUN, line)
            elif _pattern("is_taken_back").match(behind):
                yield _Claim(answer, _Kind.SENTENCE, line)
            else:
                yield _Claim(answer, kind or _Kind.SENTENCE, line, opens=True)
        elif _pattern("ends").match(behind):
            last = _Kind.LABELLED if text.endswith("\n\n", 0, start) else _Kind.LAST
            alone = opens and _pattern("closes").match(behind)
            yield _Claim(answer, kind or max(behind_label, last if alone else behind_label), line)
        claimed = True
    other = _pattern("other_word").search(text, start, min(end, start + _LEFT))
    if claimed or not other or _pattern("word").search(text, start, end):
        return
    opens, kind = _before(text[start : other.start()])
    behind = text[other.end() : other.end() + _RIGHT]
    answers = is_first or behind_label > _Kind.SENTENCE or text.endswith("? ", 0, start)
    counts = (opens and answers) or (kind or 0) >= _Kind.STATED
    ends = _pattern("ends").match(behind) and not _pattern("leaves_other_open").match(behind)
    if counts and ends:
        yield _Claim("no" if other["no"] else "yes", _Kind.OTHER_WORD, line)


def _before(text: str) -> tuple[bool, _Kind | None]:
    """Return whether a word opens its sentence, and the claim that the text before makes of it."""
    bare = _bare(text)
    if _pattern("condition").search(bare) or _pattern("tentative_label").search(bare):
        return False, None
    opens = not bare.strip(" ,:'") or bool(_pattern("opener").fullmatch(bare))
    if not opens and _pattern("is_others").search(bare) and not _pattern("is_own").search(bare):
        return False, None
    if _pattern("behind_label").search(bare):
        stated = _Kind.LABELLED if _pattern("colon_label").fullmatch(bare) else _Kind.STATED
        return opens, _Kind.FINAL if _pattern("final_label").search(bare) else stated
    if _pattern("conclusion").search(bare) or _pattern("behind_back").search(bare):
        return opens, _Kind.STATED
    if opens:
        return True, None
    if _pattern("is_speech").search(bare):
        return False, None
    if bare.endswith(":") and bare.count(":") == 1 and len(bare.split()) > 3:
        return False, _Kind.STATED
    if _pattern("said").search(bare):
        return False, None
    return False, _Kind.SENTENCE if _pattern("set_off").search(text) else None


def _bare(text: str) -> str:
    """Return words, apostrophes, commas and colons of a text, separated by single spaces."""
    text = _pattern("dash").sub(",", text)
    return " ".join(_pattern("separators").sub(" ", text).split())


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
        for answer in _ANSWERS.values():
            if text in (f"({answer})", f"{answer})", answer):
                return answer
    return None


def likelier_answer(yes: float, no: float) -> Answer | None:
    """Return the answer with the greater log-likelihood.

    None where they are equal or NaN, as broken half-precision models give them.

    Examples:
        >>> likelier_answer(yes=-0.2, no=-1.7)
        'yes'
    """
    return "yes" if yes > no else "no" if no > yes else None


def yes_share(yes: float, no: float) -> float:
    """Return the probability of yes among both, from log-likelihoods; NaN where it is undefined."""
    return (1 + math.tanh((yes - no) / 2)) / 2  # the logistic function, which cannot overflow
