"""The choice of the final number: the best candidate, or the middle of equal alternatives."""

from collections import defaultdict
from collections.abc import Sequence

from pragworld_tasks.quantities.alternatives import OPTION
from pragworld_tasks.quantities.candidates import Candidate
from pragworld_tasks.quantities.cues import evidence
from pragworld_tasks.quantities.patterns import pattern

# The least score of an answer: to read a number that is not an answer is worse than to read none.
# A candidate in doubt, for which one plain cue is not enough, has a weight below `_DOUBT`, or no
# weight that marks it as the answer.
_ENOUGH, _ENOUGH_IN_DOUBT, _DOUBT = 2.5, 3.0, -1.5
_MARKED = evidence("saying") + evidence("set_apart")

# A group of alternatives has at least a score of its own. Its members are worded alike, so that
# their scores differ little. One is preferred if its score is clearly ahead of the others.
_ENOUGH_FOR_GROUP, _ALIKE, _CLEARLY_AHEAD = 2.0, 5.0, 2.0
_ALTERNATIVES_AHEAD = pattern("alternatives_ahead")
_PERHAPS_AHEAD = pattern("perhaps_alternatives_ahead")
_PARTS_AHEAD = pattern("parts_ahead")


def choose_value(candidates: Sequence[Candidate]) -> float | None:
    """Return the best candidate's value or the middle of alternatives; None if none will do."""
    best = max(candidates, key=lambda candidate: candidate.score, default=None)
    if best is not None and best.score < _enough(best):
        best = None
    group = _find_group(candidates)
    if group and (best is None or _is_member(best, group)):
        return (min(member.low for member in group) + max(member.high for member in group)) / 2
    return None if best is None else best.value


def _enough(candidate: Candidate) -> float:
    in_doubt = min(candidate.weights.values()) < _DOUBT or not candidate.has(*_MARKED)
    return _ENOUGH_IN_DOUBT if in_doubt else _ENOUGH


def _find_group(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that an answer offers side by side, as `50 days at 20 mg, 25 at 40 mg`.

    They are the best candidates of each item of a list, of each row of a table, or under each
    heading of an option; else all labelled ones of the text, or all of one paragraph.
    """
    groups: dict[tuple[str, int], dict[int, Candidate]] = defaultdict(dict)
    sections = [candidate.place.line.section for candidate in candidates]
    for candidate in candidates:
        is_total = candidate.has("total") and not candidate.alternative
        if is_total or not candidate.sized or candidate.has(*evidence("never_in_groups")):
            continue
        line = candidate.place.line
        if line.group >= 0 and OPTION.match(line.section):
            members, spot = groups["option", 0], sections.index(line.section)
        elif line.group >= 0:
            members, spot = groups["list", line.group], line.number
        elif candidate.labelled:
            members, spot = groups["labelled", 0], candidate.mention.start
        elif candidate.alternative:
            members, spot = groups["paragraph", line.number], candidate.mention.start
        else:
            continue
        if spot not in members or candidate.score >= members[spot].score:
            members[spot] = candidate
    best_group: list[Candidate] = []
    best_score = _ENOUGH_FOR_GROUP
    for members in groups.values():
        least = max(map(_score_without_place, members.values())) - _ALIKE
        group = [member for member in members.values() if _score_without_place(member) >= least]
        if len(group) > 1 and (score := _score(group)) >= best_score:
            best_group, best_score = group, score
    return best_group


def _is_member(best: Candidate, group: Sequence[Candidate]) -> bool:
    """Return whether a candidate is one of several alternatives, and not the preferred one."""
    if not any(best is member or best.same(member) for member in group):
        return False
    others = (member.score for member in group if not best.same(member))
    decided = not best.alternative or best.has(
        "judgement", "conclusion", "boxed", "total", "preferred"
    )
    return not (decided and best.score >= max(others, default=best.score) + _CLEARLY_AHEAD)


def _score_without_place(candidate: Candidate) -> float:
    """Return a candidate's score without the cues that only the first alternative can have."""
    return candidate.score - sum(candidate.weights.get(name, 0) for name in evidence("by_place"))


def _score(group: Sequence[Candidate]) -> float:
    """Return what speaks for candidates being alternatives of each other, and not parts."""
    line = group[0].place.line
    ahead = f"{line.section} {line.intro} {' '.join(line.header)}"
    share = sum(member.alternative for member in group) / len(group)
    topic = sum(member.weights.get("topic", 0) for member in group) / len(group)
    doubts = min(member.weights.get("declines", 0) for member in group)
    doubts += min(member.weights.get("cut off", 0) for member in group)
    doubts += group[0].weights.get("asks back", 0)
    announced = 2 if _ALTERNATIVES_AHEAD.search(ahead) else bool(_PERHAPS_AHEAD.search(ahead))
    announced -= 2 * bool(_PARTS_AHEAD.search(ahead))
    return 2 * share + topic + announced + doubts
