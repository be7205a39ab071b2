"""How large a change a sweep finds: against the tests themselves, in simulated sweeps."""

import math
import re

import numpy as np
import pytest
from command_runs import refused

from pragworld_interp import detectable_before_sweep
from pragworld_interp.cli import main
from pragworld_tasks import generate
from pragworld_tasks.evaluation.metrics import mcnemar, sign_flip_test
from pragworld_tasks.layers.layer_statistics import holm
from pragworld_tasks.layers.power import smallest_found

LAYERS = 12
CHANGES = np.array([[1, 1, -1], [1, 0, 0], [1, 1, 1], [-1, 0, 0], [1, 1, 0]] * 12)  # of 3 documents


def is_found(changes: np.ndarray) -> bool:
    """Return whether both tests find the layer, whatever the other layers are."""
    before = changes.ravel() < 0
    after = changes.ravel() > 0
    others = [1.0] * (LAYERS - 1)
    p = (mcnemar(before, after).p, sign_flip_test(changes.sum(axis=1)))
    return bool(max(holm([value, *others])[0] for value in p) <= 0.05)


def test_the_smallest_change_is_found_in_four_of_five_simulated_sweeps() -> None:
    net = np.abs(CHANGES.sum(axis=1))
    groups, changed = len(net), 100 * float(np.abs(CHANGES).mean())
    sizes = np.bincount(net) / groups
    smallest = smallest_found(sizes, groups, CHANGES.size, changed, LAYERS, alpha=0.05)
    assert smallest.changed == changed
    # The change is the mean over sweeps, so it tells how likely a group is to gain.
    tendency = smallest.points / 100 * CHANGES.size / net.sum()
    generator = np.random.default_rng(0)
    to_gain = CHANGES * np.sign(CHANGES.sum(axis=1, keepdims=True))
    found = []
    for _ in range(1000):
        gains = generator.random((groups, 1)) < (1 + tendency) / 2
        drawn = to_gain[generator.integers(groups, size=groups)]
        found.append(is_found(drawn * np.where(gains, 1, -1)))
    assert np.mean(found) == pytest.approx(0.8, abs=0.05)


def test_no_change_is_found_where_too_few_answers_change() -> None:
    assert math.isnan(smallest_found([1.0], 8, 40, 0, LAYERS, alpha=0.05).points)
    # Eight groups that change by one each have a smallest p of 2 / 2**8, or 0.047 of 6 layers.
    assert math.isnan(smallest_found([0, 1], 8, 40, 20, 7, alpha=0.05).points)
    assert smallest_found([0, 1], 8, 40, 20, 6, alpha=0.05).points <= 20


def test_more_documents_find_less_and_more_layers_or_noise_find_more() -> None:
    few, many = list(generate(groups=60)), list(generate(groups=240))
    base = detectable_before_sweep(few, 12, 20).points
    assert detectable_before_sweep(many, 12, 20).points < 0.7 * base
    assert detectable_before_sweep(few, 48, 20).points > base
    assert detectable_before_sweep(few, 12, 40).points > base


@pytest.mark.parametrize(("layers", "changed"), [(0, 10), (12, 0), (12, 101)])
def test_impossible_sweeps_are_refused(layers: int, changed: float) -> None:
    with pytest.raises(ValueError, match="at least one document and one layer"):
        detectable_before_sweep(generate(groups=2), layers, changed)


def test_the_command_prints_a_line_for_each_share_of_answers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    split = ["power", "--split", "generated", "--metadata", '{"groups": 40}']
    main([*split, "--layers", "5"])
    printed = capsys.readouterr().out
    assert "40 groups, 5 layers" in printed
    expected = detectable_before_sweep(list(generate(groups=40)), 5, 10).points
    assert re.search(rf"^\| 10 +\| +{expected:.2f} \|$", printed, re.MULTILINE)
    note = "-: even if all of these answers turn the same way, fewer than 80% of sweeps find it"
    main(["power", "--split", "generated", "--metadata", '{"groups": 3}', "--layers", "28"])
    assert capsys.readouterr().out.endswith(f"|\n\n{note}; more groups are needed.\n")
    with refused("--layers 0: must be at least 1"):
        main([*split, "--layers", "0"])
