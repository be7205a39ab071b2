"""Reasoning before an answer: what it looks like, and a response without it.

Families of models mark their reasoning in different ways: in tags (`<think>`, `[THINK]`,
`◁think▷`, `<reflection>` and so on), between `<|begin_of_thought|>` and `<|end_of_thought|>`, or in
the analysis channel of gpt-oss, of which only the words `analysis` and `assistantfinal` are left
where special tokens are not decoded.
"""

import re

_TAGS = r"(?P<{}>think|thought|reason|analysis|scratchpad|reflection)(?:s|ing)?"
_MARKS = re.compile(
    rf"[<\[\u25c1](?:{_TAGS.format('opening_tag')}|/{_TAGS.format('closing_tag')})[>\]\u25b7]"
    r"|(?P<opening><\|begin_of_thought\|>|<\|channel\|>analysis|\A(?-i:analysis(?=[A-Z])))"
    r"|(?P<closing><\|end_of_thought\|>|<\|channel\|>final<\|message\|>|(?-i:assistantfinal))",
    re.IGNORECASE,
)
_SIGNS = "<", "[", "\u25c1", "analysis", "assistantfinal"  # every mark has one


def strip_reasoning(response: str) -> str:
    """Return a response without its reasoning: all that both readers of answers look at.

    Blocks of reasoning are removed wherever they stand. Where a block ends that was never opened,
    its opening stood in the prompt, and everything before its end is reasoning. A block that never
    ends was cut off: unfinished reasoning is never an answer, so it is removed to the end of the
    response. Takes time in proportion to the response's length.

    Examples:
        >>> strip_reasoning("<think>Yes? No.</think>No")
        'No'
        >>> strip_reasoning("It must be yes.</think>No")
        'No'
        >>> strip_reasoning("<think>Yes</think><think>No, because")
        ''
    """
    if not any(sign in response for sign in _SIGNS):
        return response
    kept: list[str] = []
    open_blocks: list[str] = []
    start = 0  # of the text that follows the last block
    for mark in _MARKS.finditer(response):
        opened = mark["opening_tag"] or (mark["opening"] and "marker")
        closed = mark["closing_tag"] or (mark["closing"] and "marker")
        if opened:
            if not open_blocks:
                kept.append(response[start : mark.start()])
            if opened.lower() not in open_blocks:
                open_blocks.append(opened.lower())
        elif not open_blocks:
            kept.clear()
            start = mark.end()
        elif closed.lower() in open_blocks:
            del open_blocks[open_blocks.index(closed.lower()) :]
            start = mark.end()
    if not open_blocks:
        kept.append(response[start:])
    return "".join(kept)
