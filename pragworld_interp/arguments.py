"""Checks of what callers pass to the package's functions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, get_args

from pragworld_tasks.data.documents import Answer, Document, has_alterations
from pragworld_tasks.errors import InputError


def to_integer(name: str, value: Any) -> int:
    """Return an integer of any kind, such as numpy's, as Python's, which JSON can hold.

    Raises:
        InputError: It is no integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name}={value!r:.40}: must be an integer, not {type(value).__name__}")
    return int(value)


def to_size(name: str, value: Any) -> int:
    """Return an integer of any kind that is at least 1 as Python's.

    Raises:
        InputError: It is no integer, or smaller.
    """
    size = to_integer(name, value)
    if size < 1:
        raise InputError(f"{name}={size}: must be at least 1")
    return size


def to_items(name: str, values: Any, kind: type) -> list[Any]:
    """Return the items of a list, or of another iterable, all of one type.

    Raises:
        InputError: It is no list, or an item is of another type.
    """
    if isinstance(values, str | Document) or not isinstance(values, Iterable):
        raise InputError(
            f"{name} is of type {type(values).__name__}, but must be a list; write {name}=[…]"
        )
    items = list(values)
    for number, item in enumerate(items):
        if not isinstance(item, kind):
            raise InputError(
                f"{name}[{number}] is of type {type(item).__name__}, but must be of type "
                f"{kind.__name__}"
            )
    return items


def check_sweepable(documents: Sequence[Document]) -> None:
    """Refuse documents that are not some or all of those of one split, or contradict each other.

    Variants may be without their original.

    Raises:
        InputError: They are of several splits, one occurs twice, an answer is neither yes nor no,
            or a group has several originals.
    """
    splits = sorted({document.split for document in documents})
    if len(splits) > 1:
        raise InputError(
            f"documents of splits {' and '.join(splits)}, but groups are numbered within a split; "
            "give those of one split"
        )
    place = f"split {splits[0]}"
    (row, count), *_ = Counter(document.row for document in documents).most_common(1)
    if count > 1:
        raise InputError(f"{place}, row {row}: the document occurs twice; give each document once")
    for document in documents:
        if document.answer not in get_args(Answer):
            raise InputError(
                f"{place}, row {document.row}: the answer is {document.answer!r:.40}; must be "
                "'yes' or 'no'"
            )
    if not has_alterations(splits[0]):
        return
    originals = Counter(document.group for document in documents if document.is_original)
    for group, count in originals.most_common(1):
        if count > 1:
            raise InputError(
                f"{place}: group {group} has {count} originals; a group is one original and its "
                "altered variants, so give the others groups of their own"
            )
