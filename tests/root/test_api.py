"""The Python API: names that only it has, and what it refuses."""

import pytest

import pragworld_tasks as pt


def test_mistakes_are_value_errors_with_a_remedy() -> None:
    assert issubclass(pt.InputError, ValueError)
    with pytest.raises(pt.InputError, match=r"^setting 'group' does not exist; choose from g"):
        pt.generate(group=3)


def test_metrics_are_attributes_of_the_splits_that_have_them(sample_data: None) -> None:
    documents = pt.load("entity_tracking")
    result = pt.score(documents, ["yes"] * len(documents))
    assert result.yes_acc == 100
    with pytest.raises(AttributeError, match="of the split entity_tracking has no 'robust_acc'"):
        _ = result.robust_acc
