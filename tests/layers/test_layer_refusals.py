"""Every refusal of reports, comparisons and figures, once."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from layer_reports import random_report

from pragworld_tasks.errors import InputError
from pragworld_tasks.layers import EXAMPLES
from pragworld_tasks.layers.ablation_report import (
    LayerReport,
    accuracy_figure,
    read_layers,
)
from pragworld_tasks.layers.comparison import compare_reports
from pragworld_tasks.layers.patching_report import patching_figure, read_patching
from pragworld_tasks.layers.settings import Intervention, Target


def report_of(layers: list[int]) -> LayerReport:
    return replace(
        random_report(2),
        targets=tuple(Target((layer,)) for layer in layers),
        model=random_report(3).model,
    )


ONE = {"a": random_report(3)}
BY_MEAN = replace(ONE["a"], intervention=Intervention("mlp", "mean"))
PATCHING = EXAMPLES / "patching.json"
LAYERS = EXAMPLES / "layers.json"
PATCHED = read_patching(PATCHING)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: ONE["a"].selected("good"), "role='good': must be one of useful, harmful, neutral"),  # type: ignore[arg-type]
        (lambda: compare_reports(ONE), "a comparison needs at least 2 layer reports, not 1"),
        (lambda: compare_reports({**ONE, "b": random_report(3, "synthetic")}), "b was swept with other documents than a; use the same for both"),
        (lambda: compare_reports({**ONE, "b": BY_MEAN}), "b was swept with other interventions than a; use the same for both"),
        (lambda: accuracy_figure({}), "there are no reports; give at least one"),
        (lambda: accuracy_figure({"a": report_of([0, 1]), "b": report_of([1, 2])}), "b was swept with other layers or heads than a; use the same for both"),
        (lambda: accuracy_figure(dict.fromkeys("abcde", random_report(3))), "5 models: a figure shows at most 4; draw several figures"),
        (lambda: compare_reports({"a": report_of([0, 1]), "b": report_of([0, 1])}), "a: not swept on every layer, each alone; sweep it without --layers"),
        (lambda: accuracy_figure(ONE, Path(__file__) / "f.png"), ".*: File exists; choose a file that can be written"),
        (lambda: patching_figure({"a": PATCHED, "b": replace(PATCHED, positions="last")}), "b was swept with other positions than a; use the same for both"),
        (lambda: patching_figure({"a": replace(PATCHED, pairs=())}), "a: no pair is kept, so there is nothing to show"),
        (lambda: read_layers(PATCHING), ".*: version 3 of pragworld-patching, not version 3 of pragworld-layers; give a file that this pragworld's `pragworld-interp ablate` wrote"),
        (lambda: ONE["a"].write(LAYERS), ".*layers.json exists; pass --overwrite, or another name"),
    ],
)  # fmt: skip
def test_a_mistake_is_refused_in_one_line(call: Callable[[], object], line: str) -> None:
    with pytest.raises(InputError, match=f"^{line}$"):
        call()


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "layers.json"
    path.write_text(LAYERS.read_text().replace('"version": 3', '"version": 2', 1))
    with pytest.raises(InputError, match="version 2 of pragworld-layers, not version 3 of pragw"):
        read_layers(path)
