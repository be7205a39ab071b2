"""Generated groups to be read: the dialogue, the question, what each variant changes."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pragworld_tasks.dialogues.generate import Group


def select(
    groups: Iterable[Group], count: int, alterations: Sequence[str], each: int
) -> list[Group]:
    """So many of the groups, in order, with each alteration in at least `each` of them.

    The first groups are taken as long as what is still missing fits into the places left.
    """
    chosen: list[Group] = []
    missing: Counter[str | None] = Counter(dict.fromkeys(alterations, each))
    for group in groups:
        if len(chosen) == count:
            break
        has = {variant.alteration for variant in group.variants} & set(+missing)
        if has or len(chosen) + sum((+missing).values()) < count:
            chosen.append(group)
            missing.subtract(has)
    return chosen


def to_text(group: Group) -> str:
    """The group in lines."""
    original, *variants = group.variants
    lines = [f"Group {group.number} ({original.dialogue.domain}, {group.question.kind})", ""]
    lines += [f"{index:>3}  {line}" for index, line in enumerate(original.lines)]
    lines += ["", f"     {group.question_words} {original.answer}", ""]
    for variant in variants:
        lines.append(f"     {variant.alteration}, {variant.effect}: {variant.answer}")
        lines += [
            f"{change.utterance:>8}  {_quoted(change.old)} -> {_quoted(change.new)}"
            for change in variant.changes
        ]
    return "\n".join(lines)


def _quoted(words: str) -> str:
    return f'"{words}"' if words else "(nothing)"
