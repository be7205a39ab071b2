"""Fit the weights of the reader of quantities, and report how well they do on answers not seen.

The reader (`pragworld_tasks/quantities/`) finds the quantities of an answer by rules and chooses
among them by a conditional logit, in which no number is an option too. This script fits its
weights to all `tests/answers/quantities_*development.jsonl` with an L2 penalty, in seconds:

    python examples/fit_quantity_reader.py --report

`--report` cross-validates: five folds at random, by question, and by source (group of writers, or
file where rows name none); and a learning curve. `--effects` drops each family of
features, refits, and reports the changes in answers read correctly and in their log-probability,
both held out. `--score FILE …` scores files with the shipped weights, without fitting. Errors are
counted by kind.
"""

import argparse
import operator
import string
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import binomtest

from pragworld_tasks.files import read_json_lines, write_json
from pragworld_tasks.quantities.candidates import ParsedAnswer
from pragworld_tasks.quantities.choice import (
    LEAST_SCORE,
    WEIGHTS_FILE,
    Option,
    Weights,
    choose,
    find_options,
    shipped_weights,
)
from pragworld_tasks.quantities.mentions import read_target
from pragworld_tasks.quantities.plain_text import to_plain_text
from pragworld_tasks.sensitivity.open_questions import fill_slot, questions

FlatWeights = Mapping[str, float]  # by names of features that begin with their place
ANSWERS = Path(__file__).parents[1] / "tests" / "answers"
TOLERANCE = 0.01  # relative difference of a value that counts as read correctly
LEAST_ANSWERS, LEAST_ANSWERS_OF_WORDS = 3, 15  # in which a feature must occur
# Penalties on the squares of weights. Of the plain words, most say little.
PENALTY, WORD_PENALTY, SCALE_PENALTY = 0.5, 4.0, 0.1
SCALES = {f"is {LEAST_SCORE}", "is group", "is none"}
CAUTION = 0.5  # added to the score of none: to read no answer is better than to invent one
FOLDS, STEPS = 5, 200
STEPS_OF_EFFECTS = 40  # from the weights with all features
LEAST_PROBABILITY = 1e-3  # of a right value, when features are compared
LEAST_WEIGHT = 0.02  # that is shipped
LONG = 1200  # characters of a long answer
FRACTIONS = (0.125, 0.25, 0.5, 1.0)  # of the answers, for the learning curve


class LabelledAnswer(NamedTuple):
    """An answer with its value, None for none, and what is reported on it."""

    answer: ParsedAnswer
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
            prompt = fill_slot(question.prompt, row["slot"])
            answer = ParsedAnswer(
                to_plain_text(row["response"]), read_target(question.unit, prompt)
            )
            writers = row.get("writer", "").rstrip(string.digits)  # `D` for `D1` to `D16`
            source = writers or path.stem.removeprefix("quantities_")
            is_long = len(row["response"]) >= LONG
            labelled.append(LabelledAnswer(answer, row["value"], row["task"], source, is_long))
    return labelled


# Fitting ------------------------------------------------------------------------------------------


class Design:
    """The options of answers as a matrix of features, to fit and to choose with."""

    def __init__(self, answers: Sequence[LabelledAnswer], weights: FlatWeights) -> None:
        """Find the options. The weights decide which candidates are members of groups."""
        self.answers = answers
        nested = by_place(weights)
        self.options = [options_of(answer, nested) for answer in answers]
        features = [[features_of(option) for option in options] for options in self.options]
        counts = Counter(name for own in features for name in set().union(*own))
        flat = [one for own in features for one in own]
        self.names = sorted(
            name
            for name, count in counts.items()
            if count >= (LEAST_ANSWERS_OF_WORDS if is_word(name) else LEAST_ANSWERS)
        )
        numbers = {name: number for number, name in enumerate(self.names)}
        entries = [
            (row, numbers[name], value)
            for row, one in enumerate(flat)
            for name, value in one.items()
            if name in numbers
        ]
        rows, columns, values = zip(*entries, strict=True)
        shape = (len(flat), len(numbers))
        self.features = sparse.csr_matrix((values, (rows, columns)), shape=shape, dtype=float)
        self.penalties = np.array([penalty_of(name) for name in self.names])
        self.owners = np.repeat(np.arange(len(answers)), list(map(len, self.options)))
        self.is_right = np.array(
            [
                answer.is_right(option.value)
                for answer, options in zip(answers, self.options, strict=True)
                for option in options
            ]
        )
        self.is_reachable = np.bincount(self.owners, self.is_right, len(answers)) > 0

    def fit(
        self,
        is_used: np.ndarray,
        dropped: Collection[str] = (),
        start: FlatWeights | None = None,
        steps: int = STEPS,
    ) -> dict[str, float]:
        """Return the weights that make the right values of some answers most probable.

        Args:
            is_used: For each answer, whether it counts.
            dropped: Features that are left out.
            start: Weights to begin with.
            steps: The most steps of the minimization.
        """
        kept = np.array([name not in dropped for name in self.names])
        names = [name for name in self.names if name not in dropped]
        rows = (is_used & self.is_reachable)[self.owners]
        features, is_right, penalties = self.features[rows], self.is_right[rows], self.penalties
        features, penalties = features[:, kept], penalties[kept]
        transposed = features.T.tocsr()
        _, starts, owners = np.unique(self.owners[rows], return_index=True, return_inverse=True)

        def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
            """Return the negative log-probability of right options, penalized, and its gradient."""
            scores = features @ weights
            shares = np.exp(scores - np.maximum.reduceat(scores, starts)[owners])
            right = shares * is_right
            total, of_right = np.add.reduceat(shares, starts), np.add.reduceat(right, starts)
            gradient = transposed @ (shares / total[owners] - right / of_right[owners])
            penalized = penalties * weights
            value = np.log(total / of_right).sum() + weights @ penalized / 2
            return value, gradient + penalized

        first = np.array([(start or {}).get(name, 0.0) for name in names])
        result = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": steps})
        return dict(zip(names, result.x.tolist(), strict=True))

    def score(self, is_used: np.ndarray, weights: FlatWeights) -> tuple[int, float]:
        """Return how many answers have a right option as the best, and the log-probability in bits.

        A right value counts at least `LEAST_PROBABILITY`: no single answer decides about a feature.
        """
        scores = self.features @ np.array([weights.get(name, 0.0) for name in self.names])
        starts = np.flatnonzero(np.diff(self.owners, prepend=-1))
        best = np.maximum.reduceat(scores, starts)
        shares = np.exp(scores - best[self.owners])
        probable = np.add.reduceat(shares * self.is_right, starts) / np.add.reduceat(shares, starts)
        is_best = np.maximum.reduceat(np.where(self.is_right, scores, -np.inf), starts) >= best
        bits = np.log2(np.maximum(probable, LEAST_PROBABILITY))[is_used].sum()
        return int(is_best[is_used].sum()), float(bits)


def options_of(answer: LabelledAnswer, weights: Weights) -> list[Option]:
    """Return the options of an answer, without groups if no weights say who their members are."""
    options = find_options(answer.answer, weights)
    return [option for option in options if weights or not is_group(option)]


def is_group(option: Option) -> bool:
    """Return whether an option is a group of alternatives."""
    return "group" in option.features["is"]


def features_of(option: Option) -> dict[str, float]:
    """Return an option's features, which begin with their place."""
    features = {
        f"{place} {name}": 1.0 for place, names in option.features.items() for name in names
    }
    return features | {f"is {LEAST_SCORE}": option.least} if is_group(option) else features


def by_place(weights: FlatWeights) -> dict[str, dict[str, float]]:
    """Return weights as the reader takes them: by place, and then by name."""
    places: dict[str, dict[str, float]] = defaultdict(dict)
    for name, weight in weights.items():
        place, _, rest = name.partition(" ")
        places[place][rest] = weight
    return dict(places)


def is_word(name: str) -> bool:
    """Return whether a feature is a plain word near a quantity or in an answer, and not a cue."""
    part, _, word = name.rpartition(" ")
    return part in ("lead", "next", "then", "none", "between") and not word.isupper()


def penalty_of(name: str) -> float:
    """Return the penalty on a feature's weight."""
    return SCALE_PENALTY if name in SCALES else WORD_PENALTY if is_word(name) else PENALTY


def fit(answers: Sequence[LabelledAnswer]) -> dict[str, float]:
    """Return the weights of features, fitted without groups first, and then with them."""
    weights: dict[str, float] = {}
    for _ in range(2):
        weights = Design(answers, weights).fit(np.full(len(answers), True))
    return with_caution(weights)


def with_caution(weights: FlatWeights) -> dict[str, float]:
    """Return weights that prefer none a little."""
    return {**weights, "is none": weights["is none"] + CAUTION}


# Reports ------------------------------------------------------------------------------------------


def count_right(answers: Sequence[LabelledAnswer], weights: Weights) -> Counter[str]:
    """Return how many answers there are, how many are right, and how many values are invented."""
    counts: Counter[str] = Counter()
    for answer in answers:
        options = options_of(answer, weights)
        value = choose(options).value
        right = answer.is_right(value)
        invented = answer.value is None and value is not None
        kind = {"all": 1, "right": right, "without": answer.value is None, "invented": invented}
        counts.update(kind)
        if answer.is_long:
            counts.update({"long": 1, "long right": right})
        if not right:
            counts[f"error: {kind_of_error(answer, options, value)}"] += 1
    return counts


def kind_of_error(answer: LabelledAnswer, options: Sequence[Option], value: float | None) -> str:
    """Return in what a value that was read differs from the right one."""
    right = [option for option in options if answer.is_right(option.value)]
    read = [option for option in options if option.value == value]
    if answer.value is None or value is None:
        return "no value read" if value is None else "a value where there is none"
    if not right:
        return "the value is not among the options"
    if all(map(is_group, right)):
        return "one value where alternatives are left open"
    if all(map(is_group, read)):
        return "the middle of alternatives where one value is meant"
    is_earlier = options.index(read[0]) < options.index(right[0])
    return "an earlier value" if is_earlier else "a later value"


def cross_validate(
    answers: Sequence[LabelledAnswer],
    fold_of: Callable[[LabelledAnswer], Hashable],
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
        results[fold] = count_right(held_out, by_place(fit(part)))
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


def print_errors(counts: Mapping[str, int]) -> None:
    """Print how many answers were misread in each way, the most frequent first."""
    errors = {name: count for name, count in counts.items() if name.startswith("error: ")}
    for name, count in sorted(errors.items(), key=lambda error: -error[1]):
        print(f"    {name.removeprefix('error: ')}: {count}")


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
            if name == "source":
                print_errors(counts)
    print("\nlearning curve, five folds:")
    for fraction in FRACTIONS:
        counts = total(cross_validate(answers, random_fold, fraction=fraction))
        print(f"  fitted to {fraction * (1 - 1 / FOLDS):.0%} of the answers: {shown(counts)}")


def families(names: Iterable[str]) -> dict[str, set[str]]:
    """Return the features of each part, of each cue, and each other one, by family."""
    members: dict[str, set[str]] = defaultdict(set)
    for name in names:
        part, _, cue = name.rpartition(" ")
        whole = f"words: {part}" if is_word(name) else name
        for family in (f"part: {part}", f"cue: {cue}") if cue.isupper() else (whole,):
            members[family].add(name)
    return members


def report_effects(answers: Sequence[LabelledAnswer]) -> None:
    """Print how much better answers are read with each family of features than without.

    The answers are held out by question (in five parts) and by source. Each fit without a family
    starts from the weights with all features, and groups keep the members that they have with all.
    """
    order = sorted({answer.question for answer in answers})
    splits = {
        "by question": [str(order.index(answer.question) % FOLDS) for answer in answers],
        "by source": [answer.source for answer in answers],
    }
    folds = []
    for split, numbers in splits.items():
        for number in sorted(set(numbers)):
            is_used = np.array([other != number for other in numbers])
            design = Design(answers, Design(answers, {}).fit(is_used))
            folds.append((split, is_used, design, design.fit(is_used)))

    def held_out(dropped: Collection[str]) -> Counter[str]:
        counts: Counter[str] = Counter()
        for split, is_used, design, start in folds:
            weights = design.fit(is_used, dropped, start, STEPS_OF_EFFECTS)
            right, bits = design.score(~is_used, with_caution(weights))
            counts.update({f"{split}: right": right, f"{split}: bits": bits})
        return counts

    whole = held_out(())
    names = {name for _, _, design, _ in folds for name in design.names}
    print(f"\nheld out, with all features: {_listed(whole, '')}; with each family, more by:")
    for family, members in sorted(families(names - {"is none"}).items()):
        without = held_out(members)
        difference = Counter({key: whole[key] - without[key] for key in whole})
        print(f"  {family}: {_listed(difference, '+')}", flush=True)


def _listed(counts: Mapping[str, float], sign: str) -> str:
    return ", ".join(f"{name} {value:{sign}.0f}" for name, value in counts.items())


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
            counts = count_right(read_answers([path]), shipped_weights())
            print(f"{path.name}: {shown(counts)}")
            print_errors(counts)
        return
    paths = arguments.answers or sorted(ANSWERS.glob("quantities_*development.jsonl"))
    answers = read_answers(paths)
    weights = fit(answers)
    rounded = {name: round(value, 3) for name, value in weights.items()}
    kept = by_place({name: value for name, value in rounded.items() if abs(value) >= LEAST_WEIGHT})
    content: dict[str, Any] = {
        "fitted_by": "examples/fit_quantity_reader.py",
        "answers": {path.name: len(path.read_text("utf-8").splitlines()) for path in paths},
        "weights": kept,
    }
    write_json(arguments.out, content)
    count = sum(map(len, kept.values()))
    print(f"{len(answers)} answers, {count} weights: {shown(count_right(answers, kept))}")
    if arguments.report:
        report(answers)
    if arguments.effects:
        report_effects(answers)


if __name__ == "__main__":
    main()
