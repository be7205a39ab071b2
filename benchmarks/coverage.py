"""Measure how often intervals of the decomposition cover the truth, in simulated sets.

python benchmarks/coverage.py
"""

import numpy as np

from pragworld_tasks.sensitivity.components import cells, nest, unbiased
from pragworld_tasks.sensitivity.decomposition import estimates, redraw_paraphrases, small_sample

SETS = 400
PURPOSE, ARTICULATION, CHANCE = 0.545, 0.09, 0.365  # variances, as in a middling row of the paper
SHARES = {"ps": PURPOSE, "as": ARTICULATION, "mu": CHANCE}


def held(paraphrases: int, responses: int, in_common: float, heavy_tails: bool) -> dict[str, float]:
    """Return the share of sets in which an unbiased estimate's interval covers the truth, by name.

    Args:
        paraphrases: Number of paraphrases of each of three intents.
        responses: Number of responses to each prompt.
        in_common: Share of the variance between paraphrases that is the same for all intents.
        heavy_tails: Whether responses have Student's t distribution with 3 degrees of freedom
            instead of a normal one.
    """
    intents = np.array([-1.0, 0.0, 1.0]) * np.sqrt(1.5 * PURPOSE)
    intent = np.broadcast_to(np.arange(3)[None, :, None], (paraphrases, 3, responses))
    paraphrase = np.broadcast_to(np.arange(paraphrases)[:, None, None], intent.shape)
    holds = dict.fromkeys(SHARES, 0)
    for seed in range(SETS):
        generator = np.random.default_rng(seed)
        shared = generator.normal(scale=np.sqrt(ARTICULATION * in_common), size=(paraphrases, 1))
        own = np.sqrt(ARTICULATION * (1 - in_common))
        prompts = intents + shared + generator.normal(scale=own, size=(paraphrases, 3))
        chance = (
            generator.standard_t(3, intent.shape) / np.sqrt(3)
            if heavy_tails
            else generator.normal(size=intent.shape)
        )
        values = prompts[..., None] + np.sqrt(CHANCE) * chance
        nested = nest(values.ravel(), paraphrase.ravel(), intent.ravel())
        drawn = unbiased(redraw_paraphrases(nested))
        found = estimates(unbiased(cells(nested)), drawn, small_sample(paraphrases))
        for name, true in SHARES.items():
            holds[name] += found[name].low < true < found[name].high
    return {name: times / SETS for name, times in holds.items()}


def main() -> None:
    """Print a line for each design."""
    for design in (
        (50, 50, 1.0, False),
        (50, 50, 0.0, False),
        (50, 50, 0.5, True),
        (50, 10, 0.5, False),
        (10, 10, 0.5, False),
    ):
        paraphrases, responses, in_common, heavy_tails = design
        shares = ", ".join(f"{name.upper()} {share:.1%}" for name, share in held(*design).items())
        print(
            f"{paraphrases} paraphrases, {in_common:.0%} of their effects in common, {responses} "
            f"responses with {'heavy' if heavy_tails else 'normal'} tails: {shares} of {SETS} sets"
        )


if __name__ == "__main__":
    main()
