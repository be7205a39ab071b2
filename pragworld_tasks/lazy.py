"""Names that a package exports without importing what defines them."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any


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
