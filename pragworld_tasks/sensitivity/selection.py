"""Selecting the most different of many paraphrases by their sentence embeddings.

"Greedy selection … those with the highest mutual semantic distance" (arXiv 2506.16584, section 4)
is all that the paper says; `farthest_first` defines what is done here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pragworld_tasks.errors import InputError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CLOSE = 0.98  # cosine similarity above which two texts say almost the same in almost the same words

_DECIMALS = 6  # of a distance; embeddings are no more precise than this

Vectors = NDArray[np.float64]


def load_embedder(model: str) -> "SentenceTransformer":
    """Load a model of sentence embeddings from a folder or the Hugging Face hub.

    Raises:
        InputError: The model cannot be loaded, or `sentence_transformers` is not installed.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise InputError(
            "sentence embeddings need the sentence-transformers package "
            f"({error.msg.splitlines()[0]}): pip install 'pragworld[paraphrase]'"
        ) from error
    try:
        return SentenceTransformer(model)
    except Exception as error:  # whatever a broken folder, a missing name or a lost network raises
        sentences = re.split(r"(?<=\.)\s", " ".join(str(error).split()))
        raise InputError(
            f"embeddings {model!r}: cannot be loaded ({sentences[0]}); pass --embeddings FOLDER, a "
            "folder of a sentence-transformers model, which `hf download NAME --local-dir FOLDER` "
            "makes where the Hugging Face hub can be reached"
        ) from error


def embed(model: "SentenceTransformer", texts: Sequence[str]) -> Vectors:
    """Return the embeddings of texts, of length 1: [texts, features].

    Raises:
        InputError: An embedding is not finite.
    """
    vectors = np.asarray(
        model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False), np.float64
    )
    if not np.isfinite(vectors).all():
        raise InputError("the sentence embeddings must be finite numbers; use another model")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths, lengths, 1)


def distances(first: Vectors, second: Vectors) -> Vectors:
    """Return the cosine distances, 0 to 2, between vectors of length 1: [first, second]."""
    return np.clip(np.round(1 - first @ second.T, _DECIMALS), 0, 2)


def close_pairs(vectors: Vectors) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of vectors of length 1 that are more alike than `CLOSE`, and their cosine."""
    cosines = 1 - distances(vectors, vectors)
    for i, j in np.argwhere(np.triu(cosines > CLOSE, 1)):
        yield int(i), int(j), float(cosines[i, j])


def farthest_first(base: Vectors, candidates: Vectors, number: int) -> list[int]:
    """Choose candidates one by one, each as far as possible from all chosen before.

    The first is the candidate with the greatest cosine distance from the base prompt. Each next one
    has the greatest minimum distance from the base prompt and those chosen. Of several that are
    equal to six decimals, the one with the lowest index is chosen. So the first of the chosen are
    themselves a choice of the most different.

    Args:
        base: [features] The base prompt.
        candidates: [candidates, features].
        number: The number to choose, at most as many as there are.

    Returns:
        Their indices, in the order in which they were chosen.
    """
    least = distances(candidates, base[np.newaxis])[:, 0]
    chosen: list[int] = []
    for _ in range(number):
        farthest = int(np.argmax(least))  # the first of several
        chosen.append(farthest)
        least = np.minimum(least, distances(candidates, candidates[[farthest]])[:, 0])
        least[chosen] = -1
    return chosen


@dataclass(frozen=True)
class Spread:
    """How different prompts are, in cosine distances; NaN if there are too few.

    Attributes:
        mean: The mean distance of two prompts.
        least: The least distance of two prompts.
        from_base: The mean distance of a prompt from the base prompt.
    """

    mean: float
    least: float
    from_base: float

    def __str__(self) -> str:
        return (
            f"cosine distance of two: mean {self.mean:.3f}, least {self.least:.3f}; "
            f"from the base prompt: mean {self.from_base:.3f}"
        )


def spread(base: Vectors, chosen: Vectors) -> Spread:
    """Measure how different prompts [prompts, features] are; the base prompt is [features]."""
    between = distances(chosen, chosen)[np.triu_indices(len(chosen), 1)]
    from_base = distances(chosen, base[np.newaxis])
    return Spread(
        mean=float(between.mean()) if between.size else np.nan,
        least=float(between.min()) if between.size else np.nan,
        from_base=float(from_base.mean()) if from_base.size else np.nan,
    )
