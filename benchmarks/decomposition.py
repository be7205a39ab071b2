"""Time decompositions: 15 tasks of 7,500 responses, compared with plain pandas.

python benchmarks/decomposition.py
"""

import dataclasses
import sys
import time

import numpy as np
import pandas as pd

from pragworld_tasks.evaluation.statistics import Floats, Ints
from pragworld_tasks.sensitivity.components import Components, cells, nest, plug_in, unbiased
from pragworld_tasks.sensitivity.decomposition import REDRAWS, estimates, redraw_responses

TASKS, INTENTS, PARAPHRASES, RESPONSES = 15, 3, 50, 50
LIMIT = 2.0  # seconds, on two cores
PANDAS_DRAWS = 10  # timed
Task = tuple[Floats, Ints, Ints]


def a_task(seed: int) -> Task:
    """Return values, paraphrases and intents of a task in which wording and chance matter."""
    generator = np.random.default_rng(seed)
    prompts = generator.normal(10.0 * np.arange(INTENTS), size=(PARAPHRASES, INTENTS))
    values = generator.normal(prompts[..., None], 5.0, size=(PARAPHRASES, INTENTS, RESPONSES))
    paraphrase, intent, _ = np.indices(values.shape)
    return values.ravel(), paraphrase.ravel(), intent.ravel()


def ours(task: Task) -> None:
    """Run what is timed."""
    responses = nest(*task)
    whole, drawn = cells(responses), redraw_responses(responses)
    for estimator in (plug_in, unbiased):
        estimates(estimator(whole), estimator(drawn))


def in_pandas(frame: pd.DataFrame) -> tuple[Components, Components]:
    """Compute both estimators, for tables without gaps."""
    prompts = frame.groupby(["intent", "paraphrase"])["value"].agg(["mean", "var"])
    means, chance = prompts["mean"], prompts["var"].mean()
    of_intents = means.groupby("intent").mean()
    plugged = (
        of_intents.var(ddof=0),
        means.groupby("intent").var(ddof=0).mean(),
        chance * (RESPONSES - 1) / RESPONSES,
    )
    covariance = means.unstack("intent").cov().to_numpy() / PARAPHRASES
    corrected = (
        plugged[0] - np.diag(covariance).mean() + covariance.mean(),
        means.groupby("intent").var().mean() - chance / RESPONSES,
        chance,
    )
    both = [(sum(parts), *(part / sum(parts) for part in parts)) for parts in (plugged, corrected)]
    return Components(*both[0]), Components(*both[1])


def main() -> None:
    """Print the seconds of both, their ratio, and whether the limit is kept."""
    tasks = [a_task(seed) for seed in range(TASKS)]
    frame = pd.DataFrame(dict(zip(("value", "paraphrase", "intent"), tasks[0], strict=True)))
    whole = cells(nest(*tasks[0]))
    for found, theirs in zip((plug_in(whole), unbiased(whole)), in_pandas(frame), strict=True):
        np.testing.assert_allclose(dataclasses.astuple(found), dataclasses.astuple(theirs))

    start = time.perf_counter()
    for task in tasks:
        ours(task)
    seconds = time.perf_counter() - start

    start = time.perf_counter()
    for seed in range(PANDAS_DRAWS):
        in_pandas(
            frame.groupby(["intent", "paraphrase"]).sample(frac=1, replace=True, random_state=seed)
        )
    pandas_seconds = (time.perf_counter() - start) * TASKS * REDRAWS / PANDAS_DRAWS

    print(
        f"{TASKS} tasks of {INTENTS} intents x {PARAPHRASES} paraphrases x {RESPONSES} responses, "
        f"both estimators, {REDRAWS} bootstrap draws each"
    )
    kept = "holds" if seconds <= LIMIT else "is broken"
    print(f"ours: {seconds:.2f} s; the limit, {LIMIT:.0f} s on two cores, {kept}")
    print(
        f"pandas: {pandas_seconds:.0f} s, scaled up from {PANDAS_DRAWS} draws of one task; "
        f"{pandas_seconds / seconds:.0f} times as long"
    )
    if seconds > LIMIT:
        sys.exit("too slow")


if __name__ == "__main__":
    main()
