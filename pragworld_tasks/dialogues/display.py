"""Generated groups to be read: the dialogue, the question, what each variant changes."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pragworld_tasks.dialogues.generate import Group


def select_groups(
    groups: Iterable[Group], count: int, alterations: Sequence[str], each: int
) -> list[Group]:
    """So many of the groups, in order, with each alteration in at least `each` of them.

    Where there are not so many with an alteration, all of these are taken, as far as there is room.
    """
    left = list(groups)
    missing: Counter[str | None] = Counter(dict.fromkeys(alterations, each))
    chosen: list[Group] = []
    while left and len(chosen) < count:
        group = max(left, key=lambda one: len(_alterations(one) & set(+missing)))  # the first such
        left.remove(group)
        chosen.append(group)
        missing.subtract(_alterations(group))
    return sorted(chosen, key=lambda one: one.number)


def _alterations(group: Group) -> set[str | None]:
    return {variant.alteration for variant in group.variants[1:]}


def group_to_text(group: Group) -> str:
    """The group in lines."""
    original, *variants = group.variants
    lines = [f"Group {group.number} ({original.dialogue.domain}, {group.question.kind})", ""]
    lines += [f"{index:>3}  {line}" for index, line in enumerate(original.lines)]
    lines += ["", f"     {group.question_text} {original.answer}", ""]
    for variant in variants:
        lines.append(f"     {variant.alteration}, {variant.effect}: {variant.answer}")
        lines += [
            f"{change.utterance:>8}  {_quoted(change.old)} -> {_quoted(change.new)}"
            for change in variant.changes
        ]
    return "\n".join(lines)


def _quoted(words: str) -> str:
    return f'"{words}"' if words else "(nothing)"
