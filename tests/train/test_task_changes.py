"""The comparison of lm-eval tasks before and after training."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from pragworld_interp.run.loading import Model
from pragworld_tasks.errors import InputError
from pragworld_train.lm_eval_process import run_lm_eval
from pragworld_train.task_changes import MetricChange, compare_tasks


def samples(folder: Path, task: str, records: list[dict[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_{task}_2026-01-02T03-04-05.678.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def arc(right: list[int]) -> list[dict[str, Any]]:
    """Return samples of a task of another benchmark, not in order."""
    made = [
        {"doc_id": number, "doc": {"query": "?"}, "metrics": ["acc"], "acc": float(answer)}
        for number, answer in enumerate(right)
    ]
    return made[::-1]


def test_right_and_wrong_answers_are_paired_by_document(tmp_path: Path) -> None:
    before, after = [1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 1, 1, 1, 1, 1, 0]
    (change,) = compare_tasks(
        samples(tmp_path / "before", "arc_easy", arc(before)),
        samples(tmp_path / "after", "arc_easy", arc(after)[::-1]),
    )
    assert (change.task, change.documents) == ("arc_easy", 8)
    acc = change.metrics["acc"]
    assert (acc.before, acc.after, acc.difference) == (37.5, 75.0, 37.5)
    test = change.tests["acc"]
    assert (test.only_first, test.only_second) == (1, 4)
    assert test.p == pytest.approx(binomtest(1, 5).pvalue)
    # the interval is that of the mean of eight differences
    draws = np.random.default_rng(1).choice(np.array(after) - before, size=(20_000, 8)).mean(1)
    assert acc.interval.low == pytest.approx(100 * np.quantile(draws, 0.025), abs=13)
    assert acc.interval.high == pytest.approx(100 * np.quantile(draws, 0.975), abs=13)


def test_one_document_has_no_interval(tmp_path: Path) -> None:
    folders = (
        samples(tmp_path / name, "arc_easy", arc([right]))
        for name, right in {"before": 0, "after": 1}.items()
    )
    (change,) = compare_tasks(*folders)
    assert change.metrics["acc"].difference == 100
    assert change.to_text().splitlines()[4].split()[-2:] == ["-", "|"]
    found = change.to_json()["metrics"]["acc"]
    assert found == {"before": 0.0, "after": 100.0, "low": None, "high": None}


def test_perplexities_are_compared_by_log_likelihood_of_a_word(tmp_path: Path) -> None:
    def wiki(likelihoods: list[float]) -> list[dict[str, Any]]:
        return [
            {
                "doc_id": number,
                "doc": {"page": "?"},
                "metrics": ["word_perplexity", "byte_perplexity"],
                "word_perplexity": [likelihood, 10 * (number + 1)],
                "byte_perplexity": [likelihood, 50 * (number + 1)],
            }
            for number, likelihood in enumerate(likelihoods)
        ]

    (change,) = compare_tasks(
        samples(tmp_path / "before", "wikitext", wiki([-20.0, -50.0])),
        samples(tmp_path / "after", "wikitext", wiki([-10.0, -50.0])),
    )
    assert (
        "| word_perplexity (log-likelihood) | -2.3333 | -2.0000 |    +0.3333 |" in change.to_text()
    )
    words = change.metrics["word_perplexity (log-likelihood)"]
    assert words.before == pytest.approx(-70 / 30)
    assert words.after == pytest.approx(-60 / 30)
    # the differences of the two documents are the extremes of all draws
    assert words.interval == pytest.approx((0.0, 1.0))
    assert not change.tests


def test_a_metric_is_not_shown_twice_under_two_names(tmp_path: Path) -> None:
    """Bits per byte and the perplexity of a byte are of the same log-likelihoods."""
    record = {"doc_id": 0, "doc": {}, "metrics": ["byte_perplexity", "bits_per_byte"]}
    record |= {"byte_perplexity": [-3.0, 4], "bits_per_byte": [-3.0, 4]}
    (change,) = compare_tasks(
        samples(tmp_path / "before", "text", [record]),
        samples(tmp_path / "after", "text", [record]),
    )
    assert [*change.metrics] == ["byte_perplexity (log-likelihood)"]


def test_metrics_that_are_not_means_over_documents_are_left_out(tmp_path: Path) -> None:
    record = {"doc_id": 0, "doc": {"src": "?"}, "metrics": ["bleu", "ter", "f1"]}
    record |= {"bleu": ["a", "b"], "f1": [0, 1]}  # F1: pairs of gold answer and response
    (change,) = compare_tasks(
        samples(tmp_path / "before", "wmt", [record]), samples(tmp_path / "after", "wmt", [record])
    )
    assert change.metrics == {}


def test_filters_of_a_task_are_compared_separately(tmp_path: Path) -> None:
    def gsm8k(strict: float, flexible: float) -> list[dict[str, Any]]:
        return [
            {
                "doc_id": 0,
                "doc": {},
                "filter": name,
                "metrics": ["exact_match"],
                "exact_match": match,
            }
            for name, match in (("strict", strict), ("flexible", flexible))
        ]

    (change,) = compare_tasks(
        samples(tmp_path / "before", "gsm8k", gsm8k(0.0, 0.0)),
        samples(tmp_path / "after", "gsm8k", gsm8k(0.0, 1.0)),
    )
    assert change.documents == 1
    assert change.metrics["exact_match, strict"].after == 0
    assert change.metrics["exact_match, flexible"].after == 100


def test_a_difference_is_shown_after_minus_before() -> None:
    assert MetricChange(40.0, 45.5, (0.0, 1.0)).difference == 5.5  # type: ignore[arg-type]
    assert math.isnan(MetricChange(math.nan, 1.0, (0.0, 1.0)).difference)  # type: ignore[arg-type]


def test_a_task_that_fails_is_one_line_that_names_its_log(tmp_path: Path) -> None:
    model = Model(str(tmp_path / "no model"), dtype="float32")
    with pytest.raises(InputError) as refused:
        run_lm_eval(model, ["pragworld_generated_mc"], tmp_path / "out", {"groups": 1}, 1)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("lm_eval on pragworld_generated_mc: ")
    assert (tmp_path / "out.partial" / "log.txt").is_file()
    assert not (tmp_path / "out").exists()


def test_the_table_shows_both_and_the_tests(tmp_path: Path) -> None:
    folders = [
        samples(tmp_path / name, "arc_easy", arc(right))
        for name, right in (("before", [1, 0]), ("after", [1, 1]))
    ]
    text = compare_tasks(*folders)[0].to_text()
    assert "| acc    |  50.00 | 100.00 |     +50.00 |" in text
    assert "only before right 0, only after right 1, p = 1" in text
