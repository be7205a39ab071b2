"""Fit the weights of the reader of quantities, and report how well they do on answers not seen.

The reader (`pragworld_tasks/quantities/`) finds the quantities of an answer by rules and chooses
among them by a conditional logit, in which no number is an option too. This script fits its
weights to all `tests/answers/quantities_*development.jsonl` with an L2 penalty, in seconds:

    python examples/fit_quantity_reader.py --report

`--report` cross-validates: five folds at random, by question, and by source (file, and writer
where a row names one); and a learning curve. `--effects` drops each family of features, refits, and
reports the change in the answers read correctly; it takes minutes. `--score FILE …` scores files
with the shipped weights, without fitting.
"""

import argparse
import operator
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import binomtest

from pragworld_tasks.files import read_json_lines, write_json
from pragworld_tasks.quantities.candidates import Answer
from pragworld_tasks.quantities.choice import (
    WEIGHTS_FILE,
    Option,
    Weights,
    candidate_options,
    choose,
    group_options,
    none_option,
    shipped_weights,
)
from pragworld_tasks.quantities.features import add_features
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.quantities.target import read_target
from pragworld_tasks.sensitivity.open_questions import fill_slot, questions

ANSWERS = Path(__file__).parents[1] / "tests" / "answers"
TOLERANCE = 0.01  # relative difference of a value that counts as read correctly
LEAST_ANSWERS, LEAST_ANSWERS_OF_WORDS = 3, 15  # in which a feature must occur
# Penalties on the squares of weights. Of a thousand plain words most say little.
PENALTY, WORD_PENALTY, SCALE_PENALTY = 0.5, 4.0, 0.1
SCALES = {"group: mean score", "group: least score", "group", "none"}
WORD_PARTS = ("lead", "after", "none")
CAUTION = 0.5  # added to the score of none: to read no answer is better than to invent one
FOLDS, STEPS = 5, 200
LEAST_WEIGHT = 0.02  # that is shipped
LONG = 1200  # characters of a long answer
FRACTIONS = (0.125, 0.25, 0.5, 1.0)  # of the answers, for the learning curve


class LabelledAnswer(NamedTuple):
    """An answer with its value, None for none, and what is reported on it."""

    answer: Answer
    none: Option
    value: float | None
    question: str
    source: str
    is_long: bool

    def is_right(self, value: float | None) -> bool:
        """Return whether a value is that of the answer."""
        if value is None or self.value is None:
            return value is self.value
        return abs(value - self.value) <= TOLERANCE * abs(self.value) + 1e-9


def read_answers(paths: Iterable[Path]) -> list[LabelledAnswer]:
    """Read labelled answers, with their candidates and features."""
    labelled = []
    for path in paths:
        for _, row in read_json_lines(path):
            question = questions()[row["task"]]
            prompt = fill_slot(question.prompt, question.slot, row["slot"])
            answer = Answer(to_plain_text(row["response"]), read_target(question.unit, prompt))
            add_features(answer)
            source = f"{path.stem.removeprefix('quantities_')} {row.get('writer', '')}".strip()
            is_long = len(row["response"]) >= LONG
            none, value = none_option(answer), row["value"]
            labelled.append(LabelledAnswer(answer, none, value, row["task"], source, is_long))
    return labelled


# Fitting ------------------------------------------------------------------------------------------


def options_of(answer: LabelledAnswer, weights: Weights) -> list[Option]:
    """Return the options of an answer. Which are groups' members depends on the weights."""
    groups = group_options(answer.answer, weights) if weights else []
    return [*candidate_options(answer.answer), *groups, answer.none]


def fit(
    answers: Sequence[LabelledAnswer], is_kept: Callable[[str], bool] = lambda name: True
) -> dict[str, float]:
    """Return the weights of features, fitted without groups first, and then with them."""
    weights: dict[str, float] = {}
    for _ in range(2):
        weights = _fit(answers, [options_of(answer, weights) for answer in answers], is_kept)
    return {**weights, "none": weights["none"] + CAUTION}


def _fit(
    answers: Sequence[LabelledAnswer],
    options: Sequence[Sequence[Option]],
    is_kept: Callable[[str], bool],
) -> dict[str, float]:
    counts = Counter(
        name for several in options for name in {name for o in several for name in o.features}
    )
    names = sorted(
        name for name, count in counts.items() if may_count(name, count) and is_kept(name)
    )
    numbers = {name: number for number, name in enumerate(names)}
    reachable = [
        (answer, several)
        for answer, several in zip(answers, options, strict=True)
        if any(answer.is_right(option.value) for option in several)
    ]
    flat = [option for _, several in reachable for option in several]
    entries = [
        (row, numbers[name], value)
        for row, option in enumerate(flat)
        for name, value in option.features.items()
        if value and name in numbers
    ]
    rows, columns, values = zip(*entries, strict=True)
    features = sparse.csr_matrix((values, (rows, columns)), shape=(len(flat), len(names)))
    transposed = features.T.tocsr()
    is_right = np.array(
        [a.is_right(option.value) for a, several in reachable for option in several]
    )
    lengths = np.array([len(several) for _, several in reachable])
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    penalties = np.array([penalty_of(name) for name in names])

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the negative log-probability of right options, penalized, and its gradient."""
        scores = features @ weights
        shares = np.exp(scores - np.maximum.reduceat(scores, starts)[owner])
        right = shares * is_right
        total, of_right = np.add.reduceat(shares, starts), np.add.reduceat(right, starts)
        gradient = transposed @ (shares / total[owner] - right / of_right[owner])
        penalized = penalties * weights
        value = np.log(total / of_right).sum() + weights @ penalized / 2
        return value, gradient + penalized

    start = np.zeros(len(names))
    result = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return dict(zip(names, result.x.tolist(), strict=True))


def is_word(name: str) -> bool:
    """Return whether a feature is a plain word near a quantity, and not a cue."""
    part, _, word = name.partition(" ")
    return (
        part in (*WORD_PARTS, "group")
        and bool(word)
        and not (word.isupper() or word.startswith("of "))
    )


def may_count(name: str, answers: int) -> bool:
    """Return whether a feature that occurs in some answers may have a weight."""
    if is_word(name):
        return answers >= LEAST_ANSWERS_OF_WORDS and not name.startswith("group ")
    return answers >= LEAST_ANSWERS


def penalty_of(name: str) -> float:
    """Return the penalty on a feature's weight."""
    return SCALE_PENALTY if name in SCALES else WORD_PENALTY if is_word(name) else PENALTY


# Reports ------------------------------------------------------------------------------------------


def count_right(answers: Sequence[LabelledAnswer], weights: Weights) -> Counter[str]:
    """Return how many answers there are, how many are right, and how many values are invented."""
    counts: Counter[str] = Counter()
    for answer in answers:
        value = choose(options_of(answer, weights), weights).value
        right = answer.is_right(value)
        invented = answer.value is None and value is not None
        kind = {"all": 1, "right": right, "without": answer.value is None, "invented": invented}
        counts.update(kind)
        if answer.is_long:
            counts.update({"long": 1, "long right": right})
    return counts


def cross_validate(
    answers: Sequence[LabelledAnswer],
    fold_of: Callable[[LabelledAnswer], Hashable],
    is_kept: Callable[[str], bool] = lambda name: True,
    fraction: float = 1.0,
) -> dict[Hashable, Counter[str]]:
    """Return the counts of each fold, read with weights fitted to (a part of) all others."""
    folds = defaultdict(list)
    for answer in answers:
        folds[fold_of(answer)].append(answer)
    results = {}
    for fold, held_out in folds.items():
        rest = [answer for answer in answers if fold_of(answer) != fold]
        part = [answer for answer in rest if _draw(answer, "curve") < fraction]
        results[fold] = count_right(held_out, fit(part, is_kept))
    return results


def _draw(answer: LabelledAnswer, salt: str) -> float:
    """Return a number from 0 to 1 that depends on the answer's text only."""
    return zlib.crc32(f"{salt}{answer.answer.text}".encode()) / 2**32


def random_fold(answer: LabelledAnswer) -> int:
    """Return the number of an answer's fold."""
    return int(FOLDS * _draw(answer, "fold"))


def shown(counts: Mapping[str, int]) -> str:
    """Return counts as words, with the 95 % interval of the share read correctly."""
    interval = binomtest(counts["right"], counts["all"]).proportion_ci(method="wilson")
    return (
        f"{counts['right']} of {counts['all']} ({counts['right'] / counts['all']:.1%}, "
        f"{interval.low:.1%} to {interval.high:.1%}); long {counts['long right']} of "
        f"{counts['long']}; invented {counts['invented']} of {counts['without']} without a value"
    )


def total(results: Mapping[Hashable, Counter[str]]) -> Counter[str]:
    """Return the sum of the counts of all folds."""
    return sum(results.values(), Counter())


def report(answers: Sequence[LabelledAnswer]) -> None:
    """Print cross-validations and the learning curve."""
    print("five folds at random:", shown(total(cross_validate(answers, random_fold))))
    for name in ("question", "source"):
        if len({getattr(answer, name) for answer in answers}) == 1:
            continue
        results = cross_validate(answers, operator.attrgetter(name))
        print(f"\none {name} at a time held out:", shown(total(results)))
        for fold, counts in results.items():
            print(f"  {fold}: {shown(counts)}")
    print("\nlearning curve, five folds:")
    for fraction in FRACTIONS:
        counts = total(cross_validate(answers, random_fold, fraction=fraction))
        print(f"  fitted to {fraction * (1 - 1 / FOLDS):.0%} of the answers: {shown(counts)}")


def families(weights: Iterable[str]) -> dict[str, set[str]]:
    """Return the features of each part, of each cue, and each other one, by family."""
    members: dict[str, set[str]] = defaultdict(set)
    for name in weights:
        part, _, cue = name.partition(" ")
        if is_word(name):
            members[f"words: {part}"].add(name)
        elif cue.isupper():
            members[f"part: {part}"].add(name)
            members[f"cue: {cue}"].add(name)
        else:
            members[name].add(name)
    return members


def report_effects(answers: Sequence[LabelledAnswer], weights: Weights) -> None:
    """Print how many more answers are read correctly with each family of features than without."""
    whole = total(cross_validate(answers, random_fold))
    print(f"\nanswers right with all features: {whole['right']}; with each family, more by:")
    for family, names in sorted(families(weights).items()):
        rest = set(weights) - names
        without = total(cross_validate(answers, random_fold, rest.__contains__))
        print(f"  {family}: {whole['right'] - without['right']:+d}", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", type=Path, nargs="+", help="files to fit to", metavar="FILE")
    parser.add_argument("--out", type=Path, default=WEIGHTS_FILE, help="file for the weights")
    parser.add_argument("--report", action="store_true", help="cross-validate")
    parser.add_argument("--effects", action="store_true", help="drop each family of features")
    parser.add_argument("--score", type=Path, nargs="+", metavar="FILE", help="score these instead")
    arguments = parser.parse_args()
    if arguments.score:
        for path in arguments.score:
            print(f"{path.name}: {shown(count_right(read_answers([path]), shipped_weights()))}")
        return
    paths = arguments.answers or sorted(ANSWERS.glob("quantities_*development.jsonl"))
    answers = read_answers(paths)
    weights = fit(answers)
    kept = {name: round(value, 3) for name, value in weights.items() if abs(value) >= LEAST_WEIGHT}
    content: dict[str, Any] = {
        "fitted_by": "examples/fit_quantity_reader.py",
        "answers": {path.name: len(path.read_text("utf-8").splitlines()) for path in paths},
        "weights": kept,
    }
    write_json(arguments.out, content)
    print(f"{len(answers)} answers, {len(kept)} weights: {shown(count_right(answers, kept))}")
    if arguments.report:
        report(answers)
    if arguments.effects:
        report_effects(answers, weights)


if __name__ == "__main__":
    main()
