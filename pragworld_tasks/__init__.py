"""PragWorld for lm-evaluation-harness: documents, prompts, answers and metrics, without torch.

Import names from here; each is loaded when it is first used.

>>> import pragworld_tasks as pt
>>> documents = pt.generate(groups=20, seed=7)
>>> result = pt.score(documents, ["No." for _ in documents])
>>> result.no_acc, result.yes_acc
(100.0, 0.0)
"""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pragworld_tasks.data.document_files import read_documents
    from pragworld_tasks.data.documents import Document
    from pragworld_tasks.data.prompts import conventions_prompt, evaluation_prompt, label_prompt
    from pragworld_tasks.data.sources import load_split as load
    from pragworld_tasks.data.splits import generate_documents as generate
    from pragworld_tasks.errors import InputError
    from pragworld_tasks.evaluation.answers import read_answer, unreadable_reason
    from pragworld_tasks.evaluation.comparison import compare_scores as compare
    from pragworld_tasks.evaluation.published import published_answers, published_models
    from pragworld_tasks.evaluation.responses import read_predictions
    from pragworld_tasks.evaluation.scoring import score
    from pragworld_tasks.evaluation.statistics import detectable_difference
    from pragworld_tasks.grouped.grouped_report import score_groups
    from pragworld_tasks.grouped.item_analysis import analyze_items
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
    "detectable_difference",
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
    "score_groups",
    "unreadable_reason",
]


def lazy_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`, which import each name on first use.

    The names are those in its `__all__`. The imports in its source that are made for type checkers
    alone say where each is defined.
    """

    @functools.cache
    def sources() -> dict[str, tuple[str, str]]:
        import ast
        import inspect

        return {
            alias.asname or alias.name: (statement.module or "", alias.name)
            for statement in ast.walk(ast.parse(inspect.getsource(sys.modules[package])))
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        }

    def load_export(name: str) -> Any:
        if name not in sys.modules[package].__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = sources()[name]
        return getattr(importlib.import_module(module), original)

    return load_export, lambda: [*sys.modules[package].__all__]


__getattr__, __dir__ = lazy_exports(__name__)
