"""Running lm_eval so that an interrupted run resumes: responses are kept as they come.

`collect` runs lm_eval's own command with a model that answers a few prompts at a time and keeps
their responses in a journal. A rerun takes from it what is there and asks for the rest. Each chunk
is seeded by its requests, not by what ran before it, so on one machine a model that samples with
torch writes the same responses whether or not its run was interrupted.
"""

import functools
import hashlib
import itertools
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pragworld_tasks.errors import InputError
from pragworld_tasks.journal import open_journal
from pragworld_tasks.link import task_folder

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM

# Model arguments that say how a server is reached, which may change from run to run, and secrets.
_SERVER_SETTINGS = (
    *("base_url", "num_concurrent", "max_retries", "timeout", "batch_size", "device"),
    *("verify_certificate", "ca_cert_path", "token", "auth_token", "api_key", "header"),
)


def collect(folder: Path, options: Sequence[str], chunk: int = 15, seed: int = 1234) -> None:
    """Run lm_eval, or resume a run: its samples and results are those of an uninterrupted one.

    Its other options are passed on. An interruption costs the responses to a `chunk` of prompts.

    Raises:
        InputError: lm_eval fails, or the responses cannot be kept.
    """
    from lm_eval.__main__ import cli_evaluate
    from lm_eval.api import registry

    ours = {"--output_path": folder, "--seed": seed, "--include_path": task_folder()}
    words = [str(word) for option in ours.items() for word in option]
    get_model, arguments = registry.get_model, sys.argv
    registry.get_model = lambda name: _ResumableKind(name, get_model(name), folder, chunk, seed)
    sys.argv = ["lm_eval", "run", *words, "--log_samples", *options]
    try:
        cli_evaluate()
    except InputError:
        raise
    except Exception as error:  # whatever a model, its server or lm-eval may raise
        raise InputError(
            f"lm_eval failed with {type(error).__name__} ({' '.join(str(error).split()):.300}); "
            "correct that, then rerun the command to resume"
        ) from error
    finally:
        registry.get_model, sys.argv = get_model, arguments


@dataclass(frozen=True)
class _ResumableKind:
    """Stands for one of lm-eval's kinds of models, and keeps the responses of those it creates."""

    name: str
    kind: type["LM"]
    folder: Path
    chunk: int
    seed: int

    def create_from_arg_obj(self, arguments: Mapping[str, Any], more: dict[str, Any]) -> "LM":
        """Create a model with these arguments, whose `generate_until` resumes."""
        model = self.kind.create_from_arg_obj({**arguments}, more)
        lasting = {key: arguments[key] for key in arguments if key not in _SERVER_SETTINGS}
        identity = {"model": self.name, "model_args": lasting, "chunk": self.chunk}
        identity["seed"] = self.seed
        model.generate_until = functools.partial(self._resume, model.generate_until, identity)
        return model

    def _resume(
        self,
        ask: Callable[[list["Instance"]], list[str | None]],
        identity: Mapping[str, Any],
        requests: Sequence["Instance"],
    ) -> list[str | None]:
        """Return the responses to requests, and ask only for those that are not kept yet."""
        from tqdm import tqdm

        responses: list[str | None] = []
        path = self.folder / f"responses-{_digest(identity)[:12]}.journal"
        with open_journal(path, identity, lock=True) as journal:
            kept = {record["chunk"]: record["responses"] for record in journal.records}
            chunks = itertools.groupby(
                requests, key=lambda one: (one.task_name, one.doc_id // self.chunk)
            )
            for chunk in tqdm([[*group] for _, group in chunks], desc="chunks", disable=None):
                content = [(one.task_name, one.doc_id, one.args) for one in chunk]
                name = _digest([self.seed, content])
                if name not in kept:
                    _seed(int(name[:8], 16))
                    kept[name] = ask(chunk)
                    journal.append({"chunk": name, "responses": kept[name]})
                responses += kept[name]
        return responses


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()


def _seed(seed: int) -> None:
    """Seed what a model may draw from."""
    import numpy as np
    from lm_eval.utils import set_torch_seed

    random.seed(seed)
    np.random.seed(seed)
    set_torch_seed(seed)
