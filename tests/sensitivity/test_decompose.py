"""`pragworld-tasks decompose`: samples files in; tables, JSON and figures out."""

import json
import math
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import Program, run_command
from command_runs import refused as command_refused
from servers import serve
from warm_client import KILLED

from pragworld_tasks.cli import main
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import Interval
from pragworld_tasks.quantities import read_quantity
from pragworld_tasks.sensitivity import samples
from pragworld_tasks.sensitivity.components import SCALES, cells, nest, plug_in, unbiased
from pragworld_tasks.sensitivity.decomposition import Estimate
from pragworld_tasks.sensitivity.figures import draw_figures
from pragworld_tasks.sensitivity.open_questions import DOMAINS, domain_of, questions
from pragworld_tasks.sensitivity.report import ReaderAgreement, decompose_samples
from pragworld_tasks.sensitivity.samples import _KEYS, read_samples
from pragworld_tasks.sensitivity.world_model_tasks import prompt_records

PARAPHRASES = 6


def write_samples(
    folder: Path,
    question: str,
    seed: int = 0,
    repeats: int = 8,
    readable: float = 0.9,
    effect: float = 1.0,
) -> Path:
    """Write a samples file like lm-eval's, with numbers in sentences.

    Without an effect, neither purpose nor wording matters.
    """
    asked = questions()[question]
    generator = np.random.default_rng(seed)
    wordings = [f"Wording {number}: {asked.slot}?" for number in range(PARAPHRASES)]
    lines = []
    for row, document in enumerate(prompt_records(asked, wordings)):
        values = 40 + effect * (12 * document["intent"] + 2 * document["paraphrase"])
        drawn = generator.normal(values, 4, repeats).round(1)
        responses = [
            f"It will be about {value} minutes." if generator.random() < readable else "Who knows?"
            for value in drawn
        ]
        lines.append({"doc_id": row, "doc": document, "resps": [responses]})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_world_model_{question}_2026-11-21.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def found_in(path: Path) -> list[tuple[float, int, int]]:
    """Return value, paraphrase and intent of each readable response in a file."""
    found = []
    for line in path.read_text().splitlines():
        sample = json.loads(line)
        document = sample["doc"]
        for response in sample["resps"][0]:
            words = response.split()
            if "about" in words:
                value = float(words[words.index("about") + 1])
                found.append((value, document["paraphrase"], document["intent"]))
    return found


def count_lines(path: Path) -> int:
    """Return the number of whole lines of a file."""
    return path.read_bytes().count(b"\n")


def run(*arguments: str | Path) -> tuple[str, dict[str, Any]]:
    """Run the command and return what it prints and its JSON."""
    beside = Path(str(arguments[0])).with_suffix(".json")
    options = ("--json", beside, "--overwrite", "--draws", "50")
    process = run_command("decompose", *arguments, *options)
    assert process.returncode == 0, process.stderr
    return process.stdout, json.loads(beside.read_text())


def test_numbers_are_those_of_the_responses(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "meta__llama", "travel_commute")
    text, found = run(path)
    (task,) = found["tasks"]
    values, paraphrase, intent = zip(*found_in(path), strict=True)
    whole = cells(nest(values, paraphrase, intent))
    for estimator, expected in (("published", plug_in(whole)), ("unbiased", unbiased(whole))):
        for name in ("ps", "as_", "mu", "variance", "mvs"):
            number = task[estimator][name.rstrip("_")]
            assert number["value"] == pytest.approx(float(getattr(expected, name)))
            assert number["low"] <= number["value"] <= number["high"]
    assert task["model"] == "meta/llama"
    assert task["responses"] == 3 * PARAPHRASES * 8
    assert task["unreadable"] == task["responses"] - len(values) > 0
    assert f"{task['published']['ps']['value']:.3f} [" in text
    assert "| travel " in text


def test_what_was_topped_up_counts_with_the_rest(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = path.read_text().splitlines()
    more = json.loads(lines[4])
    more |= {"resps": [["It will be about 51.0 minutes."] * 3], "round": 1}
    path.write_text("\n".join([*lines, json.dumps(more)]) + "\n")
    (sampled,) = read_samples([path])
    assert len(sampled.responses) == 3 * PARAPHRASES * 8 + 3
    (prompt,) = [one for one in sampled.prompts if len(one.responses) == 11]
    assert prompt.values[-3:] == (51, 51, 51)
    assert prompt.text == more["doc"]["prompt"]


def test_signs_are_dropped_unless_asked_for(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "health_weight", readable=1.0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        loses = line["doc"]["intent"] == 0
        line["resps"] = [[f"You'd {'lose' if loses else 'gain'} about 2 kg."]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (plain,), (signed,) = read_samples([path]), read_samples([path], signed=True)
    assert set(plain.values) == {2.0}
    assert set(signed.values) == {-2.0, 2.0}
    for prompt in signed.prompts:
        assert prompt.values == ((-2.0,) if prompt.intent == 0 else (2.0,))
    _, as_in_paper = run(path)
    _, with_signs = run(path, "--signed")
    assert as_in_paper["tasks"][0]["published"]["variance"]["value"] == 0
    assert with_signs["tasks"][0]["published"]["ps"]["value"] == pytest.approx(1)


def test_an_answer_to_a_prompt_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", repeats=3)
    lines = path.read_text().splitlines()
    more = [json.dumps({**json.loads(line), "round": 1}) for line in lines]  # topped up
    path.write_text("\n".join(lines + more) + "\n")
    before = read_samples([path])
    reads: list[tuple[str, str]] = []

    def read(response: str, unit: str, prompt: str, signs: tuple[str, ...]) -> float | None:
        reads.append((response, prompt))
        return read_quantity(response, unit, prompt, signs)

    monkeypatch.setattr(samples, "read_quantity", read)
    assert read_samples([path]) == before
    assert len(reads) == len(set(reads))
    assert len(before[0].responses) >= 2 * len(reads) > 0


def test_a_row_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", repeats=3)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[1]]))
    with pytest.raises(InputError, match="an earlier row has the same intent and paraphrase"):
        read_samples([path])


def test_an_intent_with_two_values_is_refused(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", repeats=3)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[3]["doc"]["value"] = "7"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError) as error:
        read_samples([path])
    assert str(error.value) == (
        f"{path}, row 3 (line 4): intent 0 is the value '7', but '5' in an earlier row; give the "
        "samples of one run, in which an intent is one value"
    )


def test_means_by_domain_are_means_of_questions(tmp_path: Path) -> None:
    names = ("travel_commute", "logistics_deliveries")
    paths = [
        write_samples(tmp_path / model, name, seed)
        for seed, (model, name) in enumerate((m, n) for m in ("one", "two") for n in names)
    ]
    found = decompose_samples(read_samples(paths), draws=20).to_json()
    assert [(one["model"], one["domain"]) for one in found["domains"]] == [
        *(("one", "logistics"), ("one", "travel"), ("two", "logistics"), ("two", "travel"))
    ]
    (travel,) = [
        one for one in found["tasks"] if (one["model"], one["question"]) == ("two", names[0])
    ]
    (domain,) = [
        one for one in found["domains"] if (one["model"], one["domain"]) == ("two", "travel")
    ]
    assert domain["questions"] == 1
    assert domain["left_out"] == {"published": {}, "unbiased": {}}
    for name in ("ps", "as", "mu", "mvs"):
        assert domain["published"][name]["value"] == travel["published"][name]["value"]
    one = decompose_samples(
        read_samples([paths[0], write_samples(tmp_path / "one", "travel_miami")]), draws=20
    )
    (domain_report,) = one.domains
    expected = np.mean([task.decomposition.published["ps"].value for task in one.tasks])
    errors = [task.decomposition.published["ps"].standard_error for task in one.tasks]
    assert domain_report.published["ps"].value == pytest.approx(expected)
    assert domain_report.published["ps"].standard_error == pytest.approx(math.hypot(*errors) / 2)


def test_values_read_by_an_llm_and_how_far_the_rules_agree(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=1.0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:  # the server replies with what follows the arrow
        line["resps"] = [[f"{one} => {one.split()[4]}" for one in line["resps"][0]]]
    lines[0]["resps"][0][:2] = ["It takes 30 minutes. => 90 apples", "It takes 70 minutes. => None"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    killed_log, log = tmp_path / "killed.log", tmp_path / "server.log"
    with serve("chat_server.py", "--log", str(killed_log), "--delay", "0.2") as address:
        llm = ("--extractor", "llm", "--base-url", address, "--model", "org/reader")
        program = Program("pragworld-tasks", "decompose", path, *llm, log=tmp_path / "output")
        while not (kept := [*path.parent.glob("*.journal")]) or count_lines(kept[0]) < 10:
            assert program.runs(), (tmp_path / "output").read_text()
            time.sleep(0.01)
        assert program.stop(signal.SIGKILL) == KILLED
    (journal,) = kept
    answered = count_lines(journal) - 1  # after its settings
    distinct = {response for line in lines for response in line["resps"][0]}
    assert 9 <= answered < len(distinct)
    with journal.open("ab") as stream:
        stream.write(b'{"key": "caf\xc3')  # as a kill in the middle of writing leaves it
    for _ in range(2):  # the second time nothing is asked
        with serve("chat_server.py", "--log", str(log)) as address:
            text, found = run(path, *llm[:3], address, *llm[4:])
    requests = [line for line in log.read_text().splitlines() if '"number"' in line]
    assert len(requests) == len(distinct) - answered
    (task,) = found["tasks"]
    assert task["agreement"] == {
        "extractor": "org/reader",
        "responses": 144,
        "same": 142,
        "only_extractor": 0,
        "only_rules": 2,
    }
    assert "org/reader and the rules agree on 98.6% of 144 responses" in text
    assert task["unreadable"] == 2


def test_agreement_is_to_one_percent() -> None:
    found = ReaderAgreement.of(
        "it", [None, 100.0, 100.0, 7.0, None, 0.0], [None, 100.9, 102.0, None, 7, 0]
    )
    assert found == ReaderAgreement("it", responses=6, same=3, only_extractor=1, only_rules=1)


def test_an_extractor_without_a_model(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    process = run_command("decompose", path, "--extractor", "llm", "--model", "reader")
    assert process.returncode == 2
    assert process.stderr == "--extractor llm: needs a model; add --base-url and --model\n"


def test_a_question_without_extraction_prompt_is_refused_before_requests(tmp_path: Path) -> None:
    first = write_samples(tmp_path / "model", "travel_commute")
    own = write_samples(tmp_path / "other", "travel_commute")
    own.write_text(own.read_text().replace('"travel_commute"', '"rome"'))
    # Nothing listens there: a request would be refused first.
    llm = ("--extractor", "llm", "--base-url", "http://127.0.0.1:9/v1", "--model", "reader")
    with command_refused(f"{own}: the paper has no extraction prompt for rome; use --extractor"):
        main(["decompose", str(first), str(own), *llm])


def test_a_unit_other_than_that_of_the_extraction_prompt_is_refused_before_requests(
    tmp_path: Path,
) -> None:
    """The prompt asks for minutes, so the LLM's numbers would have been called hours."""
    path = write_samples(tmp_path / "model", "travel_commute")
    path.write_text(path.read_text().replace('"unit": "minute"', '"unit": "hour"'))
    llm = ("--extractor", "llm", "--base-url", "http://127.0.0.1:9/v1", "--model", "reader")
    with command_refused(
        f"{path}: the unit of travel_commute is 'hour', but the paper's extraction prompt asks for "
        "'minute'; use --extractor rules"
    ):
        main(["decompose", str(path), *llm])


def test_means_leave_out_questions_with_an_undefined_share(
    tmp_path: Path,
) -> None:
    paths = [
        write_samples(tmp_path / "model", "travel_commute", readable=1.0),
        write_samples(tmp_path / "model", "travel_miami", readable=1.0, repeats=1),
        write_samples(tmp_path / "model", "travel_sydney", readable=0.0),
    ]
    found = decompose_samples(read_samples(paths), draws=20)
    (domain,) = found.domains
    left_out = dict.fromkeys(("ps", "as", "mu", "mvs"), ("travel_miami", "travel_sydney"))
    assert domain.left_out == {"published": left_out, "unbiased": left_out}
    shares = [domain.published[name].value for name in ("ps", "as", "mu")]
    assert sum(shares) == pytest.approx(1)
    assert "(1 of 3)" in found.to_text()
    assert len(draw_figures(found, tmp_path / "figures")) == 6


def test_each_mean_is_over_the_questions_in_which_it_is_defined(tmp_path: Path) -> None:
    """Unbiased PS and AS of 0 or less leave unbiased MVS undefined, and nothing else."""
    paths = [
        write_samples(tmp_path / "model", "travel_commute", readable=1.0),
        write_samples(tmp_path / "model", "travel_miami", seed=1, readable=1.0),
        write_samples(tmp_path / "model", "travel_sydney", seed=2, readable=1.0, effect=0.0),
    ]
    report = decompose_samples(read_samples(paths), draws=20)
    text, found = report.to_text(), report.to_json()
    *defined, without = sorted(found["tasks"], key=lambda task: task["question"] == "travel_sydney")
    assert without["unbiased"]["mvs"]["value"] is None
    assert without["published"]["mvs"]["value"] < 0.5
    (domain,) = found["domains"]
    for estimator in ("published", "unbiased"):
        for name in ("ps", "as", "mu", "mvs"):
            tasks = defined if (estimator, name) == ("unbiased", "mvs") else [*defined, without]
            values = [task[estimator][name]["value"] for task in tasks]
            assert domain[estimator][name]["value"] == pytest.approx(np.mean(values)), name
    assert domain["left_out"] == {"published": {}, "unbiased": {"mvs": ("travel_sydney",)}}
    assert text.count("(2 of 3)") == 1
    assert "model, means of travel: mvs (unbiased) without travel_sydney, where it is" in text
    assert "model on travel_sydney: mvs (unbiased) undefined: neither PS nor AS is above 0" in text


def test_intervals_of_means_end_where_shares_end(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=1.0, effect=0.0)
    report = decompose_samples(read_samples([path]), draws=50)
    (domain,), (task,) = report.domains, report.tasks
    purpose = task.decomposition.published["ps"]
    assert purpose.value < purpose.standard_error  # so the interval would end below 0
    assert domain.published["ps"].interval.low == 0
    assert domain.published["mu"].interval.high <= 1


def test_a_question_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    path.write_text(path.read_text().replace('"travel_commute"', '"/../../evil"'))
    drawn = draw_figures(decompose_samples(read_samples([path]), draws=9), tmp_path / "a" / "b")
    assert {one.parent for one in drawn} == {tmp_path / "a" / "b"}
    assert drawn[-1].is_file()


def test_one_absurd_answer_dominates_the_raw_scale_alone(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=1.0)
    lines = path.read_text().splitlines()
    absurd = json.loads(lines[0])
    absurd["resps"][0][0] = "It will be about 4500000.0 minutes."
    path.write_text("\n".join([json.dumps(absurd), *lines[1:]]) + "\n")
    mu = {
        scale: decompose_samples(read_samples([path]), scale, draws=20)
        .tasks[0]
        .decomposition.published["mu"]
        .value
        for scale in SCALES
    }
    assert mu["raw"] > 0.8
    assert max(mu["rank"], mu["winsorised"]) < 0.5


def test_undefined_shares_are_explained(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=0.0)
    text = decompose_samples(read_samples([path]), draws=20).to_text()
    assert "model on travel_commute: variance, ps, as, mu, mvs undefined: no response has" in text
    assert f"{3 * PARAPHRASES} of {3 * PARAPHRASES} prompts have no readable response" in text
    path = write_samples(tmp_path / "model", "travel_commute", repeats=1, readable=1.0)
    text = decompose_samples(read_samples([path]), draws=20).to_text()
    assert "as, mu, mvs undefined: no prompt has two readable responses" in text


def test_identical_responses_are_reported(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["resps"] = [[line["resps"][0][0]] * 8]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert (
        "all responses to a prompt are identical"
        in decompose_samples(read_samples([path]), draws=9).to_text()
    )


def of_two_models(
    folder: Path, names: Sequence[str] = ("travel_commute", "travel_sydney", "health_hike")
) -> list[Path]:
    """Write samples of two models on each question."""
    return [write_samples(folder / model, name) for model in ("a$b", "two") for name in names]


def test_many_samples_are_read_as_few_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = of_two_models(tmp_path)
    few = read_samples(paths)
    monkeypatch.setattr(samples, "_FEW_BYTES", 0)  # so many are read by several processes
    assert read_samples(paths) == few


@pytest.mark.parametrize(
    ("suffix", "names"),
    [
        (".png", ("travel_sydney", "travel_commute")),
        (".svg", ("travel_commute",)),
        (".pdf", ("travel_commute",)),
    ],
)
def test_figures(tmp_path: Path, suffix: str, names: tuple[str, ...]) -> None:
    decomposed = decompose_samples(read_samples(of_two_models(tmp_path, names)), draws=20)
    drawn = [draw_figures(decomposed, tmp_path / place, suffix) for place in ("first", "again")]
    figures = ("variance", "shares", "mvs", *(f"densities_{name}" for name in names))
    assert [path.name for path in drawn[0]] == [f"{figure}{suffix}" for figure in figures]
    for first, again in zip(*drawn, strict=True):
        assert first.read_bytes() == again.read_bytes()
        assert first.stat().st_size > 1000
    if suffix == ".svg":
        shares = (tmp_path / "first" / "shares.svg").read_text()
        assert "a$b" in shares


def test_figures_of_few_responses(tmp_path: Path) -> None:
    paths = [
        write_samples(tmp_path / "none", "travel_commute", readable=0.0),
        write_samples(tmp_path / "single", "travel_commute", repeats=1, readable=1.0),
    ]
    assert (
        len(draw_figures(decompose_samples(read_samples(paths), draws=20), tmp_path / "figures"))
        == 4
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"doc": {"question": "x"}}, "row 1 (line 2): not a sample of a world_model task"),
        ({"doc": dict.fromkeys(_KEYS, "0")}, "row 1 (line 2): not a sample of a world_model task"),
        ({"resps": "text"}, "row 1 (line 2): 'resps' must be a list of one list of responses"),
        ({"resps": [[]]}, "row 1 (line 2): 'resps' must be a list of one list of responses"),
    ],
)
def test_other_samples_are_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[1] |= change
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(InputError) as error:
        read_samples([path])
    assert str(error.value).startswith(f"{path}, {message}")


def refused(paths: Sequence[Path]) -> str:
    with pytest.raises(InputError) as error:
        read_samples(paths)
    return str(error.value)


def test_two_runs_of_one_model_and_files_of_two_questions_are_refused(tmp_path: Path) -> None:
    first = write_samples(tmp_path / "model", "travel_commute")
    again = first.with_name("again.jsonl")
    again.write_text(first.read_text())
    assert "model on travel_commute is also in" in refused([first, again])
    other = write_samples(tmp_path / "model", "travel_miami")
    again.write_text(first.read_text() + other.read_text())
    assert "travel_miami, in a file of travel_commute" in refused([again])
    assert "No such file" in refused([tmp_path / "none.jsonl"])


def without_lines(path: Path, *dropped: int) -> None:
    """Drop lines of a file."""
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for row, line in enumerate(lines) if row not in dropped))


def write_results(samples_file: Path, limit: float | None, effective: int) -> None:
    """Write the part of lm-eval's results beside samples that says how many documents there are."""
    task, _, date = samples_file.stem.removeprefix("samples_").rpartition("_")
    counts = {task: {"original": 3 * PARAPHRASES, "effective": effective}}
    results = {"config": {"limit": limit}, "n-samples": counts}
    samples_file.with_name(f"results_{date}.json").write_text(json.dumps(results))


@pytest.mark.parametrize(
    ("limit", "effective", "dropped", "reason"),
    [
        (None, 3 * PARAPHRASES, (5,), "has 17 of the 18 documents of the run"),
        (3.0, 3, tuple(range(3, 18)), "run with --limit 3"),
        (None, 3, tuple(range(3, 18)), "run with --samples, on 3 of 18 documents"),
        (None, 3 * PARAPHRASES, (), ""),
    ],
)
def test_a_part_of_a_run_is_refused_by_its_results(
    tmp_path: Path, limit: float | None, effective: int, dropped: tuple[int, ...], reason: str
) -> None:
    path = write_samples(tmp_path, "travel_commute")
    path = path.rename(path.with_name(f"{path.stem}T01-02-03.4.jsonl"))
    write_results(path, limit, effective)
    without_lines(path, *dropped)
    if reason:
        assert refused([path]) == f"{path}: {reason}; pass a whole run"
    else:
        assert len(read_samples([path])[0].prompts) == 3 * PARAPHRASES


def test_without_results_each_wording_must_have_each_value(tmp_path: Path) -> None:
    path = write_samples(tmp_path, "travel_commute")
    without_lines(path, 0)
    with command_refused(
        f"{path}: paraphrase 0 has samples of other intents, but none of intent 0; pass a whole run"
    ):
        main(["decompose", str(path)])


def test_what_cannot_be_computed_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=1.0)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [line for line in lines if line["doc"]["paraphrase"] < 2 and line["doc"]["intent"] < 2]
    kept[3]["resps"] = [["Who knows?"] * 8]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    text, found = run(path)
    assert "nan" not in text
    (task,), (domain,) = found["tasks"], found["domains"]
    unbiased_purpose = task["unbiased"]["ps"]
    assert unbiased_purpose["low"] is None
    assert f"{unbiased_purpose['value']:.3f} [-]" in text
    assert f"{domain['unbiased']['ps']['value']:.3f} ± -" in text
    reason = (
        "ps, as, mu, mvs (unbiased) without interval: no two paraphrases have readable responses "
        "to the same intents"
    )
    assert task["notes"] == [reason, "1 of 4 prompts have no readable response"]
    assert f"model on travel_commute: {reason}\n" in text
    assert "model, means of travel: ps, as, mu, mvs (unbiased) without standard error: " in text


def test_draws_that_cannot_differ_make_no_interval(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", repeats=1, readable=1.0)
    text, found = run(path)
    (task,), (domain,) = found["tasks"], found["domains"]
    assert (task["published"]["ps"]["low"], task["published"]["ps"]["standard_error"]) == (
        None,
    ) * 2
    assert task["published"]["variance"]["low"] is None
    assert task["unbiased"]["ps"]["low"] < task["unbiased"]["ps"]["high"]
    note = "ps (published) without interval: no prompt has two responses with different values"
    assert f"model on travel_commute: {note}\n" in text
    assert f"{task['published']['ps']['value']:.3f} [-]" in text
    assert domain["published"]["ps"]["standard_error"] is None
    assert len(draw_figures(decompose_samples(read_samples([path])), tmp_path / "figures")) == 4


def test_wordings_that_make_no_difference_have_no_interval_by_drawing_wordings(
    tmp_path: Path,
) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["resps"] = [[f"About {5 + line['doc']['intent']} minutes."] * 8]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    text, found = run(path)
    for estimator in ("published", "unbiased"):
        shares = found["tasks"][0][estimator]
        assert shares["ps"]["value"] == pytest.approx(1)
        assert {shares[name]["low"] for name in shares} == {None}
    assert (
        "ps, as, mu, mvs (unbiased) without interval: all resampled data have the same values"
        in text
    )


@pytest.mark.parametrize("draws", ["-1", "0", "1", "19"])
def test_too_few_draws_for_an_interval_are_refused(draws: str, tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute")
    with command_refused(f"--draws {draws}: must be at least 20"):
        main(["decompose", str(path), "--draws", draws])


def test_a_share_that_rounds_to_zero_has_no_sign(tmp_path: Path) -> None:
    path = write_samples(tmp_path / "model", "travel_commute", readable=1.0)
    report = decompose_samples(read_samples([path]), draws=20)
    nearly = Estimate(-0.0004, Interval(-0.0004, 0.1), 0.1)
    (task,), (domain,) = report.tasks, report.domains
    for estimates in (task.decomposition.unbiased, domain.unbiased):
        estimates["ps"] = nearly
    text = report.to_text()
    assert "0.000 [0.000, 0.100]" in text
    assert "0.000 ± 0.100" in text
    assert "-0.000" not in text


def test_nothing_to_decompose_is_refused() -> None:
    with pytest.raises(InputError, match="there are no samples to decompose; give at least one"):
        decompose_samples([])


def test_every_question_has_a_domain() -> None:
    assert [domain_of(name) for name in questions()] == [
        domain for domain in DOMAINS for _ in range(3)
    ]
    assert domain_of("mine") == domain_of("my_own") == ""


def test_a_report_is_not_overwritten_and_is_tried_first(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    out.write_text("mine")
    with command_refused("report.json exists; pass --overwrite, or another name"):
        main(["decompose", "nothing.jsonl", "--json", str(out)])
    assert out.read_text() == "mine"
