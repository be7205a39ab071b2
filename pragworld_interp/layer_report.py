"""Which layers help and which hurt: the statistics of an ablation sweep, and their file.

What a model answers without intervention, and with each layer ablated in turn, becomes a
`LayerReport`: A_l - A_0 of every layer l, how sure it is, and whether half of the data would have
said the same. A layer is useful where ablating it lowers the accuracy and harmful where ablating it
raises it (paper, section 6.2). Published layer sets are read off the bare sign; one document of 500
decides that, so the sign stands beside a test that is corrected over layers.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from pragworld_interp.serialization import UnfitError, check_schema, decoded, encoded
from pragworld_tasks.data.documents import (
    ALTERATIONS,
    Answer,
    Document,
    Effect,
    Split,
    has_alterations,
)
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.metrics import (
    LEVEL,
    RESAMPLES,
    Bools,
    Floats,
    Interval,
    McNemar,
    Tally,
    bootstrap_difference_intervals,
    bootstrap_intervals,
    mcnemar,
    robust_tally,
    tally,
)
from pragworld_tasks.evaluation.scoring import Difference, Share
from pragworld_tasks.files import read_text, write_whole

Role = Literal["useful", "harmful", "neutral"]
By = Literal["sign", "evidence"]
Module = Literal["mlp", "attention"]
Replacement = Literal["zero", "mean", "resample"]
Key = tuple[str, str]  # a metric: a field of `PlainRun`, and the class within it if it has classes

SCHEMA = "pragworld-layers"
SCHEMA_VERSION = 1
DIGITS = 6  # of the probabilities in the file
_ROLES: dict[int, Role] = {-1: "useful", 0: "neutral", 1: "harmful"}  # by sign of A_l - A_0
_EFFECTS = ("flip", "invariant", "original")


# What the numbers are of --------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelIdentity:
    """The model that was swept.

    Attributes:
        name: as it was given: a name on the Hub, or a folder.
        revision: of the weights; None where there is none.
        adapter: the PEFT adapter on top; None without.
        dtype: of the weights while they ran.
        layers: how many blocks.
        labels: the tokens whose probabilities were compared, for yes and for no.
        chat_template: whether prompts went through the model's chat template.
        quantization: of the weights; None without.
    """

    name: str
    revision: str | None
    adapter: str | None
    dtype: str
    layers: int
    labels: tuple[str, str]
    chat_template: bool
    quantization: str | None = None


@dataclass(frozen=True)
class DataIdentity:
    """The documents that it was asked about.

    Attributes:
        split: the split they are from.
        documents, groups: how many.
        fingerprint: of the documents and their prompts; see `fingerprint`.
        generator: the settings that generated documents were made with; None for released ones.
    """

    split: Split
    documents: int
    groups: int
    fingerprint: str
    generator: dict[str, Any] | None = None


@dataclass(frozen=True)
class Intervention:
    """What was done to each layer.

    Attributes:
        module: which output of the block was replaced.
        replacement: by what: zeros, its mean, or that of another document.
        seed: of the choices that the replacement takes; None where it takes none.
    """

    module: Module
    replacement: Replacement
    seed: int | None = None

    @property
    def name(self) -> str:
        """What was done, the seed aside."""
        return f"{self.module} {self.replacement} ablation"


@dataclass(frozen=True)
class Settings:
    """How the statistics are computed.

    Attributes:
        level: of the intervals.
        resamples: draws of the bootstrap over groups.
        halvings: how many halvings of the groups stability is measured on.
        seed: of both.
        alpha: a layer counts as useful or harmful with evidence up to these corrected p.
    """

    level: float = LEVEL
    resamples: int = RESAMPLES
    halvings: int = 1_000
    seed: int = 0
    alpha: float = 0.05


# The report ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AskedDocument:
    """One document: what the statistics need of it, and p(yes) in every run.

    Attributes:
        row, group, answer, alteration, effect: as `Document` has them.
        yes: p(yes), the softmax over the two labels: without intervention, then with each layer
            ablated. NaN where the model gave no number.
    """

    row: int
    group: int
    answer: Answer
    alteration: str | None
    effect: Effect | None
    yes: tuple[float, ...]


@dataclass(frozen=True)
class PlainRun:
    """The run without intervention: A_0 and its breakdowns.

    Attributes:
        accuracy: of all documents.
        robust_accuracy: of the groups; None in a split without alterations.
        by_alteration: accuracy by category, originals aside; empty without alterations.
        by_effect: accuracy of variants that flip the answer, of those that keep it, and of
            originals; empty without alterations.
    """

    accuracy: Share
    robust_accuracy: Share | None
    by_alteration: dict[str, Share]
    by_effect: dict[str, Share]


@dataclass(frozen=True)
class Outcome:
    """A metric with a layer ablated, and how far it is from the plain run (ablated minus plain)."""

    share: Share
    difference: Difference


@dataclass(frozen=True)
class Stability:
    """How well half of the groups agrees, as shares of random halvings; NaN below two groups.

    Attributes:
        both_halves: how often the layer has the same sign in both halves. About one half for a
            layer that does nothing but noise.
        as_whole: how often a half gives the sign that all groups give.
    """

    both_halves: float
    as_whole: float


@dataclass(frozen=True)
class Layer:
    """What ablating one layer does.

    Attributes:
        layer: its number, from 0.
        accuracy, robust_accuracy, by_alteration, by_effect: as in `PlainRun`, with the layer
            ablated.
        mcnemar: exact test over documents; first the plain run, second the ablated one.
        holm: its p, corrected over layers.
        groups_p: exact test that takes whole groups for independent, not documents; see
            `sign_flip_test`.
        groups_holm: that p, corrected over layers.
        sign: useful where A_l < A_0, harmful where A_l > A_0.
        evidence: the same where both `holm` and `groups_holm` are at most `Settings.alpha`, else
            neutral. Answers about one dialogue are alike, so documents alone find too much.
        stability: of `sign`, over halvings of the groups.
    """

    layer: int
    accuracy: Outcome
    robust_accuracy: Outcome | None
    by_alteration: dict[str, Outcome]
    by_effect: dict[str, Outcome]
    mcnemar: McNemar
    holm: float
    groups_p: float
    groups_holm: float
    sign: Role
    evidence: Role
    stability: Stability


@dataclass(frozen=True)
class LayerReport:
    """One model, one set of documents, one intervention: every layer, and what it follows from."""

    model: ModelIdentity
    data: DataIdentity
    intervention: Intervention
    settings: Settings
    plain: PlainRun
    layers: tuple[Layer, ...]
    documents: tuple[AskedDocument, ...]


def layer_report(
    documents: Sequence[Document],
    yes: ArrayLike,
    model: ModelIdentity,
    data: DataIdentity,
    intervention: Intervention,
    settings: Settings | None = None,
) -> LayerReport:
    """The statistics of a sweep.

    Probabilities are rounded to `DIGITS` first, so that all that is reported follows from the
    file; rounding makes no tie.

    Args:
        documents: some or all documents of one split.
        yes: [documents, 1 + layers] p(yes), as `AskedDocument.yes`. The answer is yes above one
            half and no below; one half, and what is not a number, is wrong.
        model: what was swept.
        data: see `data_identity`.
        intervention: what was done to it.
        settings: of the statistics; the usual ones by default.

    Raises:
        ValueError: shapes or identities contradict each other, or `yes` holds no probabilities.
    """
    yes = np.asarray(yes, dtype=np.float64)
    if yes.shape != (len(documents), 1 + model.layers) or not documents or model.layers < 1:
        raise ValueError(
            f"p(yes) of shape {yes.shape} for {len(documents)} documents and {model.layers} layers"
        )
    if ((yes < 0) | (yes > 1)).any():
        raise ValueError("p(yes) below 0 or above 1")
    rounded = np.round(yes, DIGITS)
    new_tie = (rounded == 0.5) & (yes != 0.5)
    rounded[new_tie] = np.round(0.5 + np.sign(yes[new_tie] - 0.5) * 10.0**-DIGITS, DIGITS)
    asked = tuple(
        AskedDocument(
            row=document.row,
            group=document.group,
            answer=document.answer,
            alteration=document.alteration,
            effect=document.effect,
            yes=tuple(values),
        )
        for document, values in zip(documents, rounded.tolist(), strict=True)
    )
    return _report(asked, model, data, intervention, settings or Settings())


def recompute(report: LayerReport, settings: Settings | None = None) -> LayerReport:
    """The report again from its documents, with other settings of the statistics if given."""
    return _report(
        report.documents,
        report.model,
        report.data,
        report.intervention,
        settings or report.settings,
    )


def data_identity(
    documents: Sequence[Document],
    prompts: Sequence[str],
    generator: dict[str, Any] | None = None,
) -> DataIdentity:
    """What the documents are.

    Args:
        documents: some or all documents of one split; at least one.
        prompts: theirs, before any chat template.
        generator: the settings that they were generated with.
    """
    return DataIdentity(
        split=documents[0].split,
        documents=len(documents),
        groups=len({document.group for document in documents}),
        fingerprint=fingerprint(documents, prompts),
        generator=generator,
    )


def fingerprint(documents: Sequence[Document], prompts: Sequence[str]) -> str:
    """SHA-256, in hexadecimal, of the documents and their prompts.

    Two models were asked the same where it is equal; so prompts are taken before a chat template,
    which is the model's own.
    """
    digest = hashlib.sha256()
    for document, prompt in zip(documents, prompts, strict=True):
        record = [
            document.split,
            document.row,
            document.group,
            document.answer,
            document.alteration,
            document.effect,
            prompt,
        ]
        digest.update(json.dumps(record).encode() + b"\n")
    return digest.hexdigest()


def selected(report: LayerReport, role: Role, by: By = "sign") -> list[int]:
    """The layers of one role, by the sign of A_l - A_0 alone or with evidence, in their order."""
    return [
        layer.layer
        for layer in report.layers
        if (layer.sign if by == "sign" else layer.evidence) == role
    ]


def titles(models: Sequence[ModelIdentity]) -> list[str]:
    """A short name for each, all different: the model's own, its adapter's, its quantization."""
    found: list[str] = []
    for model in models:
        parts = [model.name, model.adapter, model.quantization]
        title = " + ".join(part.rstrip("/").rpartition("/")[2] for part in parts if part)
        numbered = (f"{title} ({number})" for number in itertools.count(2))
        found.append(next(name for name in itertools.chain([title], numbered) if name not in found))
    return found


# Tests and stability ------------------------------------------------------------------------------


def holm(p: ArrayLike) -> Floats:
    """P values corrected for their number after Holm (1979): [tests] to [tests]."""
    p = np.asarray(p, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    steps = p[order] * (p.size - np.arange(p.size))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return corrected


def sign_flip_test(differences: ArrayLike) -> float:
    """Exact two-sided p of the sum of `differences` if each were as likely of the other sign.

    With differences of right answers between two runs, summed within groups, it asks what
    McNemar's test asks without taking the documents of one group for independent. Where each group
    is one document, it is McNemar's test.

    Args:
        differences: [groups] whole numbers.
    """
    whole = np.asarray(differences, dtype=np.int64)
    chances = np.ones(1)  # of each sum from -reach to reach
    for size in np.abs(whole[whole != 0]):
        padding = np.zeros(2 * size)
        chances = (np.append(chances, padding) + np.append(padding, chances)) / 2
    reach = len(chances) // 2
    as_far = np.abs(np.arange(-reach, reach + 1)) >= abs(whole.sum())
    return min(1.0, float(chances[as_far].sum()))


def split_half(differences: ArrayLike, halvings: int, seed: int) -> tuple[Floats, Floats]:
    """How often signs agree when the groups are halved: `Stability`'s two shares, each [layers].

    All halvings are gone through where there are no more than asked for; an odd group out is in
    the second half.

    Args:
        differences: [groups, layers] right answers with the layer ablated minus those without.
        halvings: how many to draw.
        seed: of the draws.
    """
    differences = np.asarray(differences, dtype=np.float64)
    groups, layers = differences.shape
    if groups < 2:
        return np.full(layers, np.nan), np.full(layers, np.nan)
    size = groups // 2
    if math.comb(groups, size) <= halvings:
        halves = list(itertools.combinations(range(groups), size))
        in_first = np.zeros((len(halves), groups))
        np.put_along_axis(in_first, np.array(halves), 1, axis=1)
    else:
        one = np.arange(groups) < size
        generator = np.random.default_rng(seed)
        in_first = generator.permuted(np.tile(one, (halvings, 1)), axis=1).astype(np.float64)
    sums, whole = in_first @ differences, differences.sum(axis=0)
    first, second = np.sign(sums), np.sign(whole - sums)
    as_whole = (
        (first == np.sign(whole)).mean(axis=0) + (second == np.sign(whole)).mean(axis=0)
    ) / 2
    return (first == second).mean(axis=0), as_whole


# From documents to the report ---------------------------------------------------------------------


def _report(
    asked: tuple[AskedDocument, ...],
    model: ModelIdentity,
    data: DataIdentity,
    intervention: Intervention,
    settings: Settings,
) -> LayerReport:
    # Numbered anew: the bootstrap would draw the groups that a part of a split leaves out.
    group = np.unique([document.group for document in asked], return_inverse=True)[1]
    groups = int(group.max()) + 1
    if (data.documents, data.groups) != (len(asked), groups):
        raise ValueError(
            f"{len(asked)} documents in {groups} groups; their identity says {data.documents} "
            f"in {data.groups}"
        )
    yes = np.array([document.yes for document in asked]).T
    is_yes = np.array([document.answer == "yes" for document in asked])
    correct = np.where(is_yes, yes > 0.5, yes < 0.5)
    classes = _classes(asked) if has_alterations(data.split) else {}

    def metrics(right: Bools) -> dict[Key, Tally]:
        found: dict[Key, Tally] = {("accuracy", ""): tally(right, np.ones_like(right), group)}
        if has_alterations(data.split):
            found["robust_accuracy", ""] = robust_tally(right, group, group)
        return found | {key: tally(right, mask, group) for key, mask in classes.items()}

    runs = [metrics(right) for right in correct]
    shares = _shares(runs, settings)
    differences = _differences(runs, settings)
    gained = np.stack([run["accuracy", ""].right - runs[0]["accuracy", ""].right for run in runs])
    gained = gained[1:].T
    tests = [mcnemar(correct[0], right) for right in correct[1:]]
    corrected = holm([test.p for test in tests])
    groups_p = [sign_flip_test(one) for one in gained.T]
    groups_corrected = holm(groups_p)
    worse = np.maximum(corrected, groups_corrected)
    both_halves, as_whole = split_half(gained, settings.halvings, settings.seed)
    layers = []
    for number, test in enumerate(tests):
        outcomes = {
            key: Outcome(shares[number + 1][key], difference)
            for key, difference in differences[number].items()
        }
        sign = _ROLES[int(np.sign(gained[:, number].sum()))]
        layers.append(
            Layer(
                layer=number,
                accuracy=outcomes["accuracy", ""],
                robust_accuracy=outcomes.get(("robust_accuracy", "")),
                by_alteration=_within("by_alteration", outcomes),
                by_effect=_within("by_effect", outcomes),
                mcnemar=test,
                holm=float(corrected[number]),
                groups_p=groups_p[number],
                groups_holm=float(groups_corrected[number]),
                sign=sign,
                evidence=sign if worse[number] <= settings.alpha else "neutral",
                stability=Stability(float(both_halves[number]), float(as_whole[number])),
            )
        )
    plain = PlainRun(
        accuracy=shares[0]["accuracy", ""],
        robust_accuracy=shares[0].get(("robust_accuracy", "")),
        by_alteration=_within("by_alteration", shares[0]),
        by_effect=_within("by_effect", shares[0]),
    )
    return LayerReport(model, data, intervention, settings, plain, tuple(layers), asked)


def _classes(asked: Sequence[AskedDocument]) -> dict[Key, Bools]:
    """Which documents are in each class of alteration and of effect, for those that have any."""
    alteration = np.array([document.alteration or "" for document in asked])
    effect = np.array([document.effect or "original" for document in asked])
    masks: dict[Key, Bools] = {
        **{("by_alteration", name): alteration == name for name in ALTERATIONS},
        **{("by_effect", name): effect == name for name in _EFFECTS},
    }
    return {key: mask for key, mask in masks.items() if mask.any()}


def _within(field: str, found: Mapping[Key, Any]) -> dict[str, Any]:
    """Those of one breakdown, by the name of their class."""
    return {name: value for (breakdown, name), value in found.items() if breakdown == field}


def _shares(runs: Sequence[Mapping[Key, Tally]], settings: Settings) -> list[dict[Key, Share]]:
    """The metrics of each run, all with intervals from the same draws."""
    tallies = {(run, key): one for run, found in enumerate(runs) for key, one in found.items()}
    intervals = bootstrap_intervals(tallies, settings.resamples, settings.seed, settings.level)
    return [
        {
            key: Share(int(one.right.sum()), int(one.total.sum()), _points(intervals[run, key]))
            for key, one in found.items()
        }
        for run, found in enumerate(runs)
    ]


def _differences(
    runs: Sequence[Mapping[Key, Tally]], settings: Settings
) -> list[dict[Key, Difference]]:
    """The metrics of each run but the first minus those of the first."""
    plain, *ablated = runs
    intervals = bootstrap_difference_intervals(
        {(run, key): one for run, found in enumerate(ablated) for key, one in found.items()},
        {(run, key): plain[key] for run, found in enumerate(ablated) for key in found},
        settings.resamples,
        settings.seed,
        settings.level,
    )
    return [
        {
            key: Difference(
                float(100 * (one.right - plain[key].right).sum() / one.total.sum()),
                _points(intervals[run, key]),
            )
            for key, one in found.items()
        }
        for run, found in enumerate(ablated)
    ]


def _points(interval: Interval) -> Interval:
    """In points of percent."""
    return Interval(100 * interval.low, 100 * interval.high)


# The file -----------------------------------------------------------------------------------------


def to_json(report: LayerReport) -> dict[str, Any]:
    """The report as JSON has it: its fields by name; null for what is not a number.

    A metric has the keys right, total, percent, and low and high, its interval in percent; a
    difference has points, low and high.
    """
    content: dict[str, Any] = encoded(report)
    return {"schema": SCHEMA, "version": SCHEMA_VERSION, **content}


def write_layers(report: LayerReport, path: Path) -> None:
    """Writes the report, all of it or nothing; a document a line.

    Raises:
        InputError: it cannot be written there.
    """
    content = to_json(report)
    documents = [json.dumps(one, allow_nan=False) for one in content.pop("documents")]
    head = json.dumps(content, indent=2, allow_nan=False).removesuffix("\n}")
    rows = ",\n    ".join(documents)
    write_whole(path, f'{head},\n  "documents": [\n    {rows}\n  ]\n}}\n'.encode())


def read_layers(path: Path) -> LayerReport:
    """The report that `write_layers` wrote.

    Raises:
        InputError: there is none in this file, or not one that this version reads.
    """
    try:
        content = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not JSON ({error}); is the file cut off?") from error
    check_schema(path, content, SCHEMA, SCHEMA_VERSION, "pragworld-interp ablate")
    try:
        report: LayerReport = decoded(LayerReport, content, "")
        _check(report)
    except (UnfitError, OverflowError) as error:
        raise InputError(f"{path}: {error}; make the file again") from error
    return report


def _check(report: LayerReport) -> None:
    """Raises `UnfitError` where parts of a report contradict each other."""
    layers = report.model.layers
    counts = {
        "layers": (len(report.layers), layers),
        "documents": (len(report.documents), report.data.documents),
        "groups": (len({document.group for document in report.documents}), report.data.groups),
    }
    for what, (found, expected) in counts.items():
        if found != expected or not expected:
            raise UnfitError(f"{found} {what} where it says {expected}")
    for number, layer in enumerate(report.layers):
        if layer.layer != number:
            raise UnfitError(f"layers[{number}] is number {layer.layer}")
    for number, document in enumerate(report.documents):
        if len(document.yes) != 1 + layers:
            raise UnfitError(
                f"documents[{number}].yes has {len(document.yes)} numbers instead of {1 + layers}"
            )
        if any(value < 0 or value > 1 for value in document.yes):
            raise UnfitError(f"documents[{number}].yes has a number that is no probability")
