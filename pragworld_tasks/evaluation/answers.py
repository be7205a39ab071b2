"""The answer in a response: yes or no, or another label.

`read_answer` is the default; `read_answer_released` is the reading behind the paper's tables.

A label is a claim where it stands like an answer: at the start of a sentence (behind openers
such as `Well,` or `Based on the conversation,`), behind a label (`Answer:`, `the answer is`), or
where a sentence ends in it (`…, so no.`, `I'd lean yes.`). Everything is decided by the sentence up
to the word and by a few words behind it, so that reading takes time in proportion to the length.
"""

import enum
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple

from pragworld_tasks.chat import content_text
from pragworld_tasks.data.documents import YES_NO
from pragworld_tasks.files import read_package_toml
from pragworld_tasks.text import pattern_compiler, strip_reasoning

_LEFT, _RIGHT = 240, 120  # characters before and behind a word that are looked at
_MOST = 1000  # labels that are looked at: a response with more of them rambles
_PHRASES = read_package_toml(__package__, "answer_phrases.toml")
_NEVER = "(?!)"  # a pattern that matches nothing
Pattern = Callable[[str], re.Pattern[str]]
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

    answer: str
    kind: _Kind
    line: int
    opens: bool = False  # whether it opens the response, and what follows doesn't take it back


@cache
def _patterns(labels: Sequence[str]) -> Pattern:
    """Return the patterns of `answer_phrases.toml` for some labels, by their names."""
    texts = [re.escape(text) for text in sorted(map(_folded, labels), key=len, reverse=True)]
    only_yes_no, more = {*texts} == {*YES_NO}, len(texts) > 2
    of_labels = {
        "labels": "|".join(texts),
        "words": "|".join(text + "%no_noun%" * (text == "no") for text in texts),
        "said_words": "|".join(text + "(?!%noun_behind%)" * (text != "yes") for text in texts),
        "quoted": "|".join(f'(?<=["“]{text})' for text in texts),
        "others": str(len(texts) - 1),
        "in_list": r"[\W_]{1,5}%other%[\W_]{1,5}(?:or |and )?(?:%labels%)\b" if more else _NEVER,
        # `I don't know` answers with the label `don't know`.
        "subject": "" if only_yes_no else "(?:(?:i|we|it|this|that) )?",
        "if_yes_no": "" if {*YES_NO} <= {*texts} else _NEVER,
        "if_only_yes_no": "" if only_yes_no else _NEVER,
        "if_others": _NEVER if only_yes_no else "",
    }
    return pattern_compiler({**_PHRASES, **of_labels})


def _folded(label: str) -> str:
    """Return a label as it stands in responses in which answers are looked for."""
    return " ".join(_normalized(label).lower().split())


def read_answer(response: str | None, labels: Sequence[str] = YES_NO) -> str | None:
    """Return the label that a response answers with, or None where none can be read.

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
    - Other labels are read in the same places. Other words stand for yes and no only.

    Args:
        response: the response; None is one that an API refused to give.
        labels: the possible answers.

    Examples:
        >>> read_answer("**No.** Bob moved them.")
        'no'
        >>> read_answer("<think>Yes?</think>The answer is no.")
        'no'
        >>> read_answer("It depends.") is None
        True
        >>> read_answer("Answer: (B) Paris", ["A", "B", "C"])
        'B'
    """
    pattern = _patterns(tuple(labels))
    label_of: dict[str | None, str] = {_folded(label): label for label in labels}
    text = strip_reasoning(_normalized(response)).lower()
    for name, replacement in _PHRASES["rewritten"]:
        text = pattern(name).sub(replacement, text)
    text = pattern("valued").sub(lambda match: _likeliest_option(match[0], pattern), text).strip()
    if more := next(itertools.islice(pattern("word").finditer(text), _MOST, None), None):
        text = text[: more.start()]
    claims = [*_claims(text, pattern)]
    opening = next((claim for claim in claims if claim.opens), None)
    if not opening:
        if pattern("breaks_off").search(f"\n{text}"):
            claims = [claim for claim in claims if claim.kind is not _Kind.SENTENCE]
        return label_of.get(_agreed(claims))
    claims.remove(opening)
    overruling = [
        claim
        for claim in claims
        if claim.kind is _Kind.FINAL or claim.kind is opening.kind is _Kind.LABELLED
    ]
    near = [claim for claim in claims if claim.kind >= _Kind.STATED and claim.line == opening.line]
    contradicted = any(claim.answer != opening.answer for claim in near + overruling)
    return label_of.get(_agreed(overruling) if contradicted else opening.answer)


def _normalized(response: str | None) -> str:
    """Return a response, or the text of its parts, in plain characters without invisible marks."""
    text = unicodedata.normalize("NFKC", content_text(response)).replace("\u2019", "'")
    if text.isascii():  # which has no such marks
        return text
    return "".join(character for character in text if unicodedata.category(character) != "Cf")


def _likeliest_option(text: str, pattern: Pattern) -> str:
    """Write options with their values (`Yes: 12%, No: 88%`) as the answer of the greatest."""
    options, texts = zip(*pattern("valued_option").findall(text), strict=True)
    values = [float(_PHRASES["truths"].get(value, value)) for value in texts]
    if len({*options}) < len(options) or values.count(max(values)) > 1:
        return "yes or no"
    return f"final answer: {options[values.index(max(values))]}"


def unreadable_reason(
    response: str | None, finish_reason: str | None = None, labels: Sequence[str] = YES_NO
) -> UnreadableReason | None:
    """Return why no answer can be read in a response, or None where one is read.

    - `unfinished reasoning`: the response ends within its reasoning.
    - `refusal`: the model or its provider declines to answer.
    - `cut off`: the server stopped at the limit of tokens, or the text breaks off in a sentence.
    - `empty`: nothing but white space and finished reasoning.
    - `both`: several labels, and nothing says which holds.
    - `no answer`: anything else.

    Args:
        response: the response; None is one that an API refused to give.
        finish_reason: why the server stopped, where it is known (`length`, `content_filter`).
        labels: the possible answers.

    Examples:
        >>> unreadable_reason("<think>Bob left, so")
        'unfinished reasoning'
        >>> unreadable_reason("Yes or no.")
        'both'
    """
    if read_answer(response, labels):
        return None
    pattern, text = _patterns(tuple(labels)), _normalized(response)
    if not strip_reasoning(f"{text}\n{'.' * 99}").endswith("."):  # the last block takes all
        return "unfinished reasoning"
    text = strip_reasoning(text).strip()
    ended = f"{finish_reason or ''}\n{text}".lower()
    if pattern("refusal").search(ended):
        return "refusal"
    if pattern("cut_off").search(ended):
        return "cut off"
    words = {found["word"] for found in pattern("word").finditer(ended)}
    return "both" if len(words) > 1 else "no answer" if text else "empty"


def _agreed(claims: Sequence[_Claim]) -> str | None:
    """Return the answer of the strongest claims: the last label's, or what others agree on."""
    strongest = max((claim.kind for claim in claims), default=_Kind.NOUN)
    answers = [claim.answer for claim in claims if claim.kind is strongest]
    decided = len({*answers}) == 1 or (answers and strongest >= _Kind.LABELLED)
    return answers[-1] if decided else None


def _claims(text: str, pattern: Pattern) -> Iterator[_Claim]:
    """Yield what a response claims, up to the next question that the model invents."""
    is_first = True  # whether no sentence before says anything
    behind_label = _Kind.SENTENCE  # what the line before makes of an answer
    claimed = False
    line = 0
    for found in pattern("sentence").finditer(text):
        sentence = found.group()
        if claimed and pattern("next_question").match(sentence):
            return
        bare = _bare(sentence[: _LEFT + 1], pattern)
        if bare.strip(" ,:'"):
            for claim in _claims_of(found, line, is_first, behind_label, pattern):
                claimed = True
                yield claim
            is_label = bool(pattern("bare_label").fullmatch(bare))
            behind_label = _Kind.LABELLED if is_label else _Kind.SENTENCE
            is_first &= is_label
        line += sentence.count("\n")


def _claims_of(
    found: re.Match[str], line: int, is_first: bool, behind_label: _Kind, pattern: Pattern
) -> Iterator[_Claim]:
    """Yield the claims of a sentence that was found in a response."""
    text, (start, end) = found.string, found.span()
    claimed = False
    for word in pattern("word").finditer(text, start, end):
        opens, kind = _before(text[max(start, word.start() - _LEFT) : word.start()], pattern)
        behind = text[word.end() : word.end() + _RIGHT]
        if not (opens or kind) or pattern("leaves_open").match(
            text, word.start(), word.end() + _RIGHT
        ):
            continue
        answer = word["word"]
        if opens and is_first and not claimed:
            if answer != "yes" and pattern("noun_behind").match(behind):
                if len(answer) > 1:  # `A` is a word, too
                    yield _Claim(answer, _Kind.NOUN, line)
            elif pattern("is_taken_back").match(behind):
                yield _Claim(answer, _Kind.SENTENCE, line)
            else:
                yield _Claim(answer, kind or _Kind.SENTENCE, line, opens=True)
        elif pattern("ends").match(behind):
            last = _Kind.LABELLED if text.endswith("\n\n", 0, start) else _Kind.LAST
            alone = opens and pattern("closes").match(behind)
            yield _Claim(answer, kind or max(behind_label, last if alone else behind_label), line)
        claimed = True
    other = pattern("other_word").search(text, start, min(end, start + _LEFT))
    if claimed or not other or pattern("word").search(text, start, end):
        return
    opens, kind = _before(text[start : other.start()], pattern)
    behind = text[other.end() : other.end() + _RIGHT]
    answers = is_first or behind_label > _Kind.SENTENCE or text.endswith("? ", 0, start)
    counts = (opens and answers) or (kind or 0) >= _Kind.STATED
    ends = pattern("ends").match(behind) and not pattern("leaves_other_open").match(behind)
    if counts and ends:
        yield _Claim("no" if other["no"] else "yes", _Kind.OTHER_WORD, line)


def _before(text: str, pattern: Pattern) -> tuple[bool, _Kind | None]:
    """Return whether a word opens its sentence, and the claim that the text before makes of it."""
    bare = _bare(text, pattern)
    if pattern("condition").search(bare) or pattern("tentative_label").search(bare):
        return False, None
    opens = not bare.strip(" ,:'") or bool(pattern("opener").fullmatch(bare))
    if not opens and pattern("is_others").search(bare) and not pattern("is_own").search(bare):
        return False, None
    if pattern("behind_label").search(bare):
        stated = _Kind.LABELLED if pattern("colon_label").fullmatch(bare) else _Kind.STATED
        return opens, _Kind.FINAL if pattern("final_label").search(bare) else stated
    if pattern("conclusion").search(bare) or pattern("behind_back").search(bare):
        return opens, _Kind.STATED
    if opens:
        return True, None
    if pattern("is_speech").search(bare):
        return False, None
    if bare.endswith(":") and bare.count(":") == 1 and len(bare.split()) > 3:
        return False, _Kind.STATED
    if pattern("said").search(bare):
        return False, None
    return False, _Kind.SENTENCE if pattern("set_off").search(text) else None


def _bare(text: str, pattern: Pattern) -> str:
    """Return words, apostrophes, commas and colons of a text, separated by single spaces."""
    text = pattern("dash").sub(",", text)
    return " ".join(pattern("separators").sub(" ", text).split())


def read_answer_released(response: str, labels: Sequence[str] = YES_NO) -> str | None:
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
        for answer in labels:
            if text in (f"({answer.lower()})", f"{answer.lower()})", answer.lower()):
                return answer
    return None


def likelier_answer(likelihoods: Sequence[float], labels: Sequence[str] = YES_NO) -> str | None:
    """Return the label with the greatest log-likelihood.

    None where two are equal or NaN, as broken half-precision models give them.

    Examples:
        >>> likelier_answer([-0.2, -1.7])
        'yes'
    """
    best = max(likelihoods)
    likeliest = [label for label, own in zip(labels, likelihoods, strict=True) if own == best]
    return likeliest[0] if len(likeliest) == 1 and not math.isnan(sum(likelihoods)) else None


def yes_share(yes: float, no: float) -> float:
    """Return the probability of yes among both, from log-likelihoods; NaN where it is undefined."""
    return (1 + math.tanh((yes - no) / 2)) / 2  # the logistic function, which cannot overflow
