"""Generated groups as text for a reader: the dialogue, the question, and the changes."""

from pragworld_tasks.dialogues.generate import Group
from pragworld_tasks.dialogues.questions import Question


def group_to_text(group: Group) -> str:
    """Return the group as lines of text."""
    original, *variants = group.variants
    kind = f", {group.question.form}" if isinstance(group.question, Question) else ""
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
