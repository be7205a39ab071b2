"""The comparison of lm-eval tasks before and after training."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from pragworld_train.evaluation import compare_tasks


def compare(folder: Path, *runs: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the cells of the table of two runs on a task by metric, and check its title."""
    for name, records in zip(("before", "after"), runs, strict=True):
        (folder / name).mkdir()
        path = folder / name / "samples_arc_easy_2026-01-02T03-04-05.678.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
    title, _, _, _, *rows = compare_tasks(folder / "before", folder / "after").splitlines()
    assert title == f"arc_easy: {len({record['doc_id'] for record in runs[0]})} documents"
    cells = ([cell.strip() for cell in row.strip("|").split("|")] for row in rows)
    return {name: others for name, *others in cells}


def sample(number: int, **metrics: Any) -> dict[str, Any]:
    return {"doc_id": number, "doc": {"query": "?"}, "metrics": [*metrics], **metrics}


def test_right_and_wrong_answers_are_paired_by_document(tmp_path: Path) -> None:
    before, after = [1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1, 1, 0]
    runs = [
        [sample(number, acc=float(answer)) for number, answer in enumerate(right)]
        for right in (before, after)
    ]
    change = compare(tmp_path, runs[0][::-1], runs[1])["acc"]
    assert change[:3] == ["37.50", "75.00", "+37.50"]
    assert change[4:6] == ["1", "4"]
    assert float(change[6]) == pytest.approx(binomtest(1, 5).pvalue)
    # the interval is that of the mean of eight differences
    draws = np.random.default_rng(1).choice(np.array(after) - before, size=(20_000, 8)).mean(1)
    ends = [float(end) for end in change[3].split(" to ")]
    assert ends == pytest.approx(100 * np.quantile(draws, [0.025, 0.975]), abs=13)


def test_a_difference_of_none_of_the_documents_has_an_exact_interval(tmp_path: Path) -> None:
    runs = [[sample(number, acc=1.0, score=2.5) for number in range(88)]] * 2
    changes = compare(tmp_path, *runs)
    assert changes["acc"][2:4] == ["+0.00", "-4.11 to 4.11"]
    assert changes["score"][2:4] == ["+0.0000", "0.0000 to 0.0000"]


def test_perplexities_are_compared_by_log_likelihood_of_a_unit(tmp_path: Path) -> None:
    runs = [
        [
            sample(
                number,
                word_perplexity=[likelihood, 10 * (number + 1)],
                byte_perplexity=[likelihood, 50 * (number + 1)],
                bits_per_byte=[likelihood, 50 * (number + 1)],  # not shown under a second name
            )
            for number, likelihood in enumerate(likelihoods)
        ]
        for likelihoods in ([-20.0, -50.0], [-10.0, -50.0])
    ]
    changes = compare(tmp_path, *runs)
    assert [*changes] == ["word_perplexity (log-likelihood)", "byte_perplexity (log-likelihood)"]
    words, of_bytes = changes.values()
    assert words[:3] == [f"{-70 / 30:.4f}", f"{-60 / 30:.4f}", "+0.3333"]
    # the differences of the two documents are the extremes of all draws
    assert words[3:] == ["0.0000 to 1.0000", "", "", ""]
    assert of_bytes[:2] == [f"{-70 / 150:.4f}", f"{-60 / 150:.4f}"]


def test_metrics_that_are_not_means_over_documents_are_left_out(tmp_path: Path) -> None:
    # F1 has pairs of a gold answer and a response; one document has no interval
    runs = [[sample(0, bleu=["a", "b"], ter="?", f1=[0, 1], score=value)] for value in (2.0, 2.5)]
    changes = compare(tmp_path, *runs)
    assert changes == {"score": ["2.0000", "2.5000", "+0.5000", "-", "", "", ""]}


def test_filters_of_a_task_are_compared_separately(tmp_path: Path) -> None:
    runs = [
        [{**sample(0, exact_match=right[name]), "filter": name} for name in right]
        for right in ({"strict": 0.0, "flexible": 0.0}, {"strict": 0.0, "flexible": 1.0})
    ]
    changes = compare(tmp_path, *runs)
    assert changes["exact_match, strict"][1] == "0.00"
    assert changes["exact_match, flexible"][1] == "100.00"
