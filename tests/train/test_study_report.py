"""The means, differences and intervals of a study."""

import numpy as np
import pytest

from pragworld_tasks.evaluation.metrics import Tally, bootstrap_intervals
from pragworld_train.experiments.study_report import _draws, _measure


def tallies(seeds: int, groups: int, level: float, seed: int = 0) -> list[Tally]:
    generator = np.random.default_rng(seed)
    total = generator.integers(1, 9, groups).astype(float)
    return [
        Tally(generator.binomial(total.astype(int), level).astype(float), total)
        for _ in range(seeds)
    ]


def test_the_mean_is_over_seeds() -> None:
    runs = tallies(3, 40, 0.6)
    measured = _measure(runs, None)
    assert measured.mean == pytest.approx(
        np.mean([run.right.sum() / run.total.sum() for run in runs])
    )
    assert measured.difference is None


def test_one_seed_has_the_interval_of_a_bootstrap_over_groups() -> None:
    (run,) = tallies(1, 200, 0.6)
    expected = bootstrap_intervals({"": run}, resamples=20_000)[""]
    assert _measure([run], None).interval == pytest.approx(expected, abs=0.004)


def test_an_arm_does_not_differ_from_itself() -> None:
    runs = tallies(3, 40, 0.6)
    measured = _measure(runs, runs)
    assert measured.difference == 0
    assert measured.difference_interval == (0, 0)


def test_the_difficulty_of_groups_cancels_out_in_differences() -> None:
    runs = tallies(3, 60, 0.6)
    better = [Tally(run.right + 0.1 * run.total, run.total) for run in runs]
    measured = _measure(better, runs)
    assert measured.difference == pytest.approx(0.1)
    assert measured.difference_interval == pytest.approx((0.1, 0.1))


def test_draws_agree_with_a_loop_over_groups_and_seeds() -> None:
    """Groups and seeds are drawn independently of each other."""
    runs = [
        Tally(run.right + shift * run.total, run.total)
        for run, shift in zip(tallies(4, 50, 0.5), (0, 0.1, 0.2, 0.3), strict=True)
    ]
    generator = np.random.default_rng(5)
    by_loop = []
    for _ in range(2000):
        groups = generator.integers(50, size=50)
        seeds = generator.integers(4, size=4)
        by_loop.append(
            np.mean(
                [runs[seed].right[groups].sum() / runs[seed].total[groups].sum() for seed in seeds]
            )
        )
    draws = _draws(runs)
    assert draws.mean() == pytest.approx(np.mean(by_loop), abs=0.01)
    assert draws.std() == pytest.approx(np.std(by_loop), rel=0.08)


def test_the_base_model_is_compared_with_every_seed() -> None:
    (base,), trained = tallies(1, 40, 0.5, seed=1), tallies(3, 40, 0.5)
    trained = [Tally(run.right, base.total) for run in trained]
    measured = _measure([base], trained)
    assert measured.difference == pytest.approx(
        base.share - np.mean([run.share for run in trained])
    )
