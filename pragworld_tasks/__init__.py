"""PragWorld for lm-evaluation-harness: documents, prompts, answers and metrics, without torch.

Import names from here; each is loaded when it is first used.

>>> import pragworld_tasks as pt
>>> documents = pt.generate(groups=20, seed=7)
>>> result = pt.score(documents, ["No." for _ in documents])
>>> result.no_acc, result.yes_acc
(100.0, 0.0)
"""

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pragworld_tasks.data.documents import Document
    from pragworld_tasks.data.own_documents import read_documents
    from pragworld_tasks.data.prompts import conventions_prompt, evaluation_prompt, label_prompt
    from pragworld_tasks.data.sources import load_split as load
    from pragworld_tasks.data.splits import generate_documents as generate
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.evaluation.answers import read_answer
    from pragworld_tasks.evaluation.comparison import compare_scores as compare
    from pragworld_tasks.evaluation.items import analyze_items
    from pragworld_tasks.evaluation.published import published_answers, published_models
    from pragworld_tasks.evaluation.responses import read_predictions
    from pragworld_tasks.evaluation.scoring import score
    from pragworld_tasks.sensitivity.decomposition import decompose
    from pragworld_tasks.text_alterations.alter import alter

__all__ = [
    "Document",
    "InputError",
    "alter",
    "analyze_items",
    "compare",
    "conventions_prompt",
    "decompose",
    "evaluation_prompt",
    "generate",
    "label_prompt",
    "load",
    "published_answers",
    "published_models",
    "read_answer",
    "read_documents",
    "read_predictions",
    "score",
]


def lazy_exports(
    package: str, sources: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, which import each name on first use.

    Args:
        package: the package's `__name__`.
        sources: by exported name, where it is defined: `"module:attribute"`, with the module's
            name relative to the package, or in full for a module of another package of the project.
    """

    def load_export(name: str) -> Any:
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = sources[name].partition(":")
        name_in_full = module if module.startswith("pragworld_") else f"{package}.{module}"
        return getattr(importlib.import_module(name_in_full), attribute)

    return load_export, lambda: sorted(sources)


__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Document": "data.documents:Document",
        "InputError": "errors:InputError",
        "alter": "text_alterations.alter:alter",
        "analyze_items": "evaluation.items:analyze_items",
        "compare": "evaluation.comparison:compare_scores",
        "conventions_prompt": "data.prompts:conventions_prompt",
        "decompose": "sensitivity.decomposition:decompose",
        "evaluation_prompt": "data.prompts:evaluation_prompt",
        "generate": "data.splits:generate_documents",
        "label_prompt": "data.prompts:label_prompt",
        "load": "data.sources:load_split",
        "published_answers": "evaluation.published:published_answers",
        "published_models": "evaluation.published:published_models",
        "read_answer": "evaluation.answers:read_answer",
        "read_documents": "data.own_documents:read_documents",
        "read_predictions": "evaluation.responses:read_predictions",
        "score": "evaluation.scoring:score",
    },
)
