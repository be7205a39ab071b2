"""Generated groups as text for a reader: the dialogue, the question, and the changes."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pragworld_tasks.dialogues.generate import Group
from pragworld_tasks.dialogues.questions import Question


def select_groups(
    groups: Iterable[Group], count: int, alterations: Sequence[str], least: int
) -> list[Group]:
    """Select groups that between them show every alteration.

    Args:
        groups: The groups to select from, in order.
        count: Number of groups to select.
        alterations: The alterations to show.
        least: Number of groups to select for each alteration, as far as there are enough.
    """
    remaining = list(groups)
    missing: Counter[str | None] = Counter(dict.fromkeys(alterations, least))
    selected: list[Group] = []
    while remaining and len(selected) < count:
        # The first of the groups that show most of what is missing.
        group = max(remaining, key=lambda group: len(_alterations(group) & set(+missing)))
        remaining.remove(group)
        selected.append(group)
        missing.subtract(_alterations(group))
    return sorted(selected, key=lambda group: group.number)


def _alterations(group: Group) -> set[str | None]:
    return {variant.alteration for variant in group.variants[1:]}


def group_to_text(group: Group) -> str:
    """Return the group as lines of text."""
    original, *variants = group.variants
    kind = f", {group.question.kind}" if isinstance(group.question, Question) else ""
    lines = [f"Group {group.number} ({group.domain}{kind})", ""]
    lines += [f"{index:>3}  {line}" for index, line in enumerate(original.dialogue.lines)]
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
