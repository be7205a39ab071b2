"""Any task's samples by groups, against our own tasks, brute force, SciPy and statsmodels."""

import itertools
import json
from pathlib import Path
from typing import Any

import lxml.html
import numpy as np
import pytest
from command_runs import refused
from hypothesis import given
from hypothesis import strategies as st
from json_lines import to_lines, write_lines
from lm_eval_runs import LmEval
from scipy.stats import binomtest
from statsmodels.api import OLS

import pragworld_tasks as pt
from pragworld_tasks.cli import main
from pragworld_tasks.evaluation.statistics import Tally, mcnemar, sign_flip_test, tally

BOTH = ("robust_acc", "acc")


def sample(number: int, group: Any, score: Any, **fields: Any) -> dict[str, Any]:
    content = {"doc_id": number, "doc": {"group": group, "id": f"{group}_{number}"}, "target": "no"}
    known = {"filter": "none", "metrics": ["acc"], "doc_hash": f"{number}", "target_hash": ""}
    return {**content, "resps": [["x"]], **known, "acc": score, **fields}


def test_the_manual_split_as_any_task_has_the_figures_of_its_own(
    released_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents, ours, paths = pt.load("manual"), [], []
    for model in ("gpt-3.5-turbo", "Llama-3.3-70B-Instruct"):
        ours.append(pt.score(documents, pt.published_answers(model)))
        rows = zip(documents, ours[-1].correct.tolist(), strict=True)
        lines = [sample(one.row, one.group, int(right)) for one, right in rows]
        paths.append(write_lines(tmp_path / f"{model}.jsonl", lines[::-1]))
    reports = [pt.score_groups(path, "doc.group") for path in paths]
    for report, of_split in zip(reports, ours, strict=True):
        assert all(report.metrics[name] == of_split.metrics[name] for name in BOTH)
        assert report.detectable == of_split.to_text().splitlines()[-1]
    assert ours[0].detectable.endswith(": 22.5 in robust_acc, 15.4 in acc")
    compared, of_splits = pt.compare(*reports), pt.compare(*ours)
    assert all(compared.figures[name] == of_splits.figures[name] for name in BOTH)
    assert compared.to_text().splitlines()[-3:] == of_splits.to_text().splitlines()[-3:]
    command = ["score", str(paths[0]), "--group-by", r"doc.id~(\d+)_", "--against", str(paths[1])]
    main([*command, "--json", str(tmp_path / "out.json")])
    assert capsys.readouterr().out.endswith(f"{compared.to_text()}\n")
    written = json.loads((tmp_path / "out.json").read_text())
    assert written["metrics"]["acc"] == ours[0].metrics["acc"].model_dump()
    assert written["against"] == compared.to_json()
    shown, names = [], [f"published:{path.stem}" for path in paths]
    for runs in (names, [*map(str, paths), "--group-by", "doc.group"]):
        main(["board", *runs, "--out", str(site := tmp_path / f"site{len(runs)}")])
        page = lxml.html.parse(str(site / "index.html"))
        cells = page.xpath(  # ranks, metrics, and how many are not told apart
            "//tbody[@data-run]/tr[not(@hidden)]"
            "/td[not(@data-key) or @data-key='acc' or @data-key='robust_acc']"
        )
        (compare,) = site.glob("*-compare.html")
        data = json.loads(lxml.html.parse(str(compare)).getroot().get_element_by_id("data").text)
        pair = data["pairs"]["0-1"]
        assert all((site / link).exists() for link in page.xpath("//@href") if ".html" in link)
        figures = [(dict(cell.attrib), cell.text_content().split()) for cell in cells]
        shown.append(
            (figures, data["right"], pair["p"], pair["tests"], [*map(str, data["numbers"])])
        )
    assert shown[0] == shown[1]


def test_a_real_run_of_a_dummy_task(lm_eval: LmEval, tmp_path: Path) -> None:
    ways = itertools.product(range(5), ("Is it", "Could it be", "Isn't it"))
    questions = ({"id": f"{n}-{way}", "in": {"set": f"g{n}"}, "question": way} for n, way in ways)
    write_lines(tmp_path / "five.jsonl", questions)
    (tmp_path / "five.yaml").write_text(
        "task: five_groups\ndataset_path: json\noutput_type: multiple_choice\ntest_split: test\n"
        f"dataset_kwargs: {{data_files: {{test: {tmp_path / 'five.jsonl'}}}}}\n"
        "doc_to_text: '{{question}}'\ndoc_to_choice: ['yes', 'no']\ndoc_to_target: 0\n"
    )
    words = "--model dummy --tasks five_groups --log_samples --include_path"
    evaluation = lm_eval(*words.split(), str(tmp_path))
    path = evaluation.samples_file("five_groups")
    metrics, same = (pt.score_groups(path, by).metrics for by in ("doc.in.set", r"doc.id~(\d)-"))
    assert metrics == same
    assert metrics["acc"].percent == pytest.approx(100 * evaluation.metrics("five_groups")["acc"])
    right = [logged["acc"] for logged in evaluation.samples("five_groups")]
    robust = sum(all(right[start : start + 3]) for start in range(0, 15, 3))
    assert (metrics["robust_acc"].right, metrics["robust_acc"].total) == (robust, 5)


@st.composite
def scored_documents(draw: st.DrawFn) -> list[Any]:
    """Documents of two or three groups with the scores of one to three answers, 0 or 1 or not."""
    values = draw(st.sampled_from([(0.0, 1.0), (0.0, 0.25, 1.0)]))
    answers = draw(st.integers(1, 3))
    row = st.lists(st.sampled_from(values), min_size=answers, max_size=answers)
    more = draw(st.lists(st.tuples(st.sampled_from("cab"), row), min_size=2, max_size=20))
    return [("a", draw(row)), ("b", draw(row)), *more]


@given(documents=scored_documents())
def test_metrics_and_standard_errors(documents: list[Any], tmp_path_factory: Any) -> None:
    names, rows = zip(*documents, strict=True)
    lines = [
        sample(number, name, row if len(row) > 1 else row[0], resps=[["x"] * len(row)])
        for number, (name, row) in enumerate(documents)
    ]
    report = pt.score_groups(write_lines(tmp_path_factory.mktemp("a") / "a", lines), "doc.group")
    groups = [np.ravel([row for name, row in documents if name == of]) for of in {*names}]
    lowest = [group.min() for group in groups]
    pairs = [one == other for row in rows for one, other in itertools.combinations(row, 2)]
    is_binary = {*np.ravel(rows)} <= {0, 1}
    expected = {"acc": np.mean(rows), "worst_case": np.mean(lowest)}
    if is_binary:
        expected["robust_acc"] = np.mean([group.all() for group in groups])
        expected["consistency"] = np.mean([len({*group}) == 1 for group in groups])
    if is_binary and pairs:
        expected |= {"all_right": np.mean([all(row) for row in rows]), "agreement": np.mean(pairs)}
    expected |= {"same_text": 1} if pairs else {}
    shown = {name: share.percent / 100 for name, share in report.metrics.items()}
    assert shown == pytest.approx(expected)
    clusters = np.repeat(np.unique(names, return_inverse=True)[1], len(rows[0]))
    model = OLS(np.ravel(rows), np.ones(np.size(rows)))
    fit = model.fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert report.metrics["acc"].stderr == pytest.approx(100 * fit.bse[0], abs=1e-6)
    error = 100 * np.std(lowest, ddof=1) / np.sqrt(len(groups))
    assert report.metrics["worst_case"].stderr == pytest.approx(error, abs=1e-6)


def test_bounded_scores_are_compared_by_which_run_is_ahead(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    scores = [*random.random((2, 20)).tolist(), [1, 0] * 10]
    runs = [[sample(n, n // 2, one) for n, one in enumerate(run)] for run in scores]
    paths = [write_lines(tmp_path / f"{number}", run) for number, run in enumerate(runs)]
    first, second, binary = (pt.score_groups(path, "doc.group") for path in paths)
    *counts, p = pt.compare(first, second).by_group
    ahead = int((first.tallies["acc"].right > second.tallies["acc"].right).sum())
    assert [*counts, p] == pytest.approx([ahead, 10 - ahead, binomtest(ahead, 10).pvalue])
    for compared in (pt.compare(first, binary), pt.compare(binary, first)):
        assert ({*compared.figures}, compared.on_groups) == ({"acc", "worst_case"}, None)


def test_filters_and_repeated_answers(tmp_path: Path) -> None:
    texts = [["a", "b" if number else "a", "a"] for number in range(4)]
    lines = [
        sample(n, n // 2, None, metrics=["em"], em=em, filter=name, resps=[texts[n]])
        for name, right in (("strict", [1, 0, 1, 1]), ("loose", [True, "1.0", 1, None]))
        for n, em in enumerate(right)
    ]
    path = write_lines(tmp_path / "a.jsonl", lines)
    for name, documents in (("strict", 4), ("loose", 3)):
        shares = pt.score_groups(path, "target~n", f"em,{name}").metrics
        assert (shares["acc"].right, shares["acc"].total) == (3, documents)
        assert shares["same_text"].right == documents + 2
    twice = [sample(n, n // 2, int(n > run), resps=[[f"{n}"]]) for run in (0, 1) for n in range(4)]
    shares = pt.score_groups(write_lines(path, twice), "doc.group").metrics  # a line an answer
    expected = {"acc": (5, 8), "all_right": (2, 4), "agreement": (3, 4), "same_text": (4, 4)}
    assert {name: (shares[name].right, shares[name].total) for name in expected} == expected


@pytest.mark.parametrize(("groups", "level"), [(40, 0.4), (88, 0.1), (88, 0.75), (300, 0.05)])
def test_a_detectable_difference_is_found_in_80_percent(groups: int, level: float) -> None:
    """Of two independent runs, whose documents share the luck of their group."""
    random, group = np.random.default_rng(groups), np.repeat(np.arange(groups), 3)

    def run(level: float) -> tuple[Tally, Tally]:
        luck = np.repeat(random.beta(2 * level, 2 - 2 * level, groups), 3)
        robust = tally(random.random(groups) < level, np.ones(groups), range(groups))
        return robust, tally(random.random(3 * groups) < luck, np.ones(3 * groups), group)

    runs = zip(*(map(pt.detectable_difference, run(level)) for _ in range(20)), strict=True)
    robust, acc = (float(np.copysign(np.mean(points), 0.5 - level)) for points in runs)
    found = []
    for _ in range(500):
        (first, by_group), (second, _), (_, other) = map(run, (level, level + robust, level + acc))
        p = mcnemar(first.right > 0, second.right > 0).p
        found.append([p < 0.05, sign_flip_test(by_group.right - other.right) < 0.05])
    assert np.mean(found, axis=0) == pytest.approx([0.8, 0.8], abs=0.06)


def test_paired_runs_need_a_smaller_difference_and_five_groups_find_none() -> None:
    rights = np.arange(100) % 2, np.arange(100) % 2 + (np.arange(100) % 20 == 0), [0] * 100, [1] * 5
    first, second, none, five = (tally(of, np.ones(len(of)), range(len(of))) for of in rights)
    found = pt.detectable_difference(first)
    assert 2 * pt.detectable_difference(first, second) < found
    assert pt.detectable_difference(first, power=0.9) > found
    assert found > pt.detectable_difference(none) > 0.05
    assert np.isnan(pt.detectable_difference(five))


GOOD = [sample(n, n // 2, n % 2, f1=[0, 1], metrics=["acc", "f1"]) for n in range(4)]
FILES = {
    "good": GOOD,
    "other": [{**line, "doc_hash": "x"} for line in GOOD],
    "mixed": [*GOOD, {**GOOD[0], "doc_hash": "x"}],
    "uneven": [*GOOD, GOOD[0]],
    "low": [{**line, "acc": 0.5} for line in GOOD],
    "high": [*GOOD, sample(9, 9, 1.5)],
    "filters": [{**line, "filter": name} for line in GOOD for name in ("a", "b")],
    "responses": [{"response": "yes"}],
}


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("good --group-by doc.set", r"row 0 \(line 1\): .* no field 'set'; choose from .*'group'"),
        ("good --group-by doc.id", "--group-by doc.id: no two documents share it; name another"),
        (r"good --group-by doc.id~x(\d)", "'0_0' does not begin with the pattern"),
        ("good --group-by doc.id~(", r"doc.id~\(: not a pattern: missing \)"),
        ("good --group-by target --metric f1", r"no scores 'f1' from 0 to 1; .* \['acc'\]"),
        ("filters --group-by target", r"no scores 'acc' from 0 to 1; .* \['acc,a', 'acc,b'\]"),
        ("high --group-by target", "row 4 .*acc is 1.5, not from 0 to 1; use another metric"),
        ("mixed --group-by target", "another document has doc_id 0; pass samples of one task"),
        ("uneven --group-by target", "some documents have more answers than others; pass whole"),
        ("responses --group-by target", "doc: Field required"),
        ("good --group-by target --against other", "two runs are on different documents"),
        ("good --group-by target --split manual", "--split: not with --group-by"),
        ("good --metric acc", "--metric: not without --group-by"),
        ("good --metric acc --out site", "--metric: not without --group-by"),
        ("good --demo --group-by target --out site", "leave it out to show your own"),
        ("low.json --out site", "the responses do not hold their documents"),
        ("low good --group-by target --out site", "other groups, alterations, effects or metrics"),
    ],
)
def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, line: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, lines in FILES.items():
        (tmp_path / name).write_text(to_lines(lines))
    main(["score", "good", "low", "--group-by", "target", "--json", "low.json"])
    with refused(line):
        main(["board" if "--out" in command else "score", *command.split()])
