"""Run lm_eval in a process that cannot import pragworld, as where the plugin is not installed."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from typing import Any

from lm_eval.__main__ import cli_evaluate


class Refuser(MetaPathFinder):
    """Finds none of our modules, and lets nobody else find them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> None:
        if name.startswith("pragworld"):
            raise ModuleNotFoundError(f"{name} must not be imported")


for name in [name for name in sys.modules if name.startswith("pragworld")]:
    del sys.modules[name]
sys.meta_path.insert(0, Refuser())
cli_evaluate()
