"""A model of lm-eval with ablated layers: `hf-ablated`, which is lm-eval's own `hf` otherwise.

`pragworld-interp lm_eval` is the command `lm_eval` with this model. A user's mistake ends it with
one line, as in `pragworld_tasks.harness`.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from lm_eval.models.huggingface import HFLM
from torch import nn

from pragworld_interp.engine.decoder import find_blocks
from pragworld_interp.engine.interventions import ablated_module
from pragworld_interp.engine.modules import first_tensor, with_tensor
from pragworld_interp.run.inputs import Layers, choose_targets, parse_layers
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import read_layers
from pragworld_tasks.layers.layer_statistics import By, Role
from pragworld_tasks.layers.settings import ModelIdentity, Module, is_same_model

_logger = logging.getLogger(__name__)


class AblatedLM(HFLM):
    """lm-eval's `hf`, with the MLP or the attention of some layers ablated: they return zeros.

    Examples:
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> lm = AblatedLM(pretrained=str(tiny_folder()), ablate="mlp:1-2", device="cpu")
        >>> lm.get_model_info()["ablated"]
        'mlp of layers 1, 2'
    """

    def __init__(
        self,
        *args: Any,
        ablate: str | None = None,
        layers: str | None = None,
        role: Role | None = None,
        by: By | None = None,
        **kwargs: Any,
    ) -> None:
        """Load the model as `hf` does, and ablate layers of it.

        Args:
            *args: Those of `hf`.
            ablate: The module and its layers, from 0: "mlp:5+7" or "attention:0-3".
            layers: A file that `pragworld-interp ablate` wrote, instead.
            role: "useful" or "harmful": which layers of that file; None for the harmful ones.
            by: Whether the sign of the change in accuracy or the evidence decides; None for the
                evidence.
            **kwargs: Those of `hf`.
        """
        try:
            if any(name[:1].isdigit() for name in kwargs):  # lm-eval divides arguments at commas
                raise InputError(f"ablate={ablate},…: join layers by +, as in ablate=mlp:5+7")
            part, chosen, swept = _chosen_layers(ablate, layers, role, by)
            super().__init__(*args, **kwargs)
            blocks = find_blocks(self.model)
            if swept is not None:
                name = str(getattr(self.config, "_name_or_path", ""))
                _check_model(str(layers), swept, len(blocks), name)
            targets = choose_targets(chosen, len(blocks))
        except InputError as error:  # which lm-eval would show with a traceback
            raise SystemExit(str(error)) from error
        numbers = sorted({layer for target in targets for layer in target.layers})
        self._ablated_modules = [ablated_module(blocks[number], part) for number in numbers]
        self._ablated = f"{part} of layers {', '.join(map(str, numbers))}"

    def _model_call(self, *args: Any, **kwargs: Any) -> Any:
        with self._ablation():
            return super()._model_call(*args, **kwargs)

    def _model_generate(self, *args: Any, **kwargs: Any) -> Any:
        with self._ablation():
            return super()._model_generate(*args, **kwargs)

    @contextmanager
    def _ablation(self) -> Iterator[None]:
        """Ablate the layers within a `with` statement: a model in memory stays as it was."""
        with ExitStack() as stack:
            for module in self._ablated_modules:
                stack.enter_context(module.register_forward_hook(_zeros))
            yield

    def get_model_info(self) -> dict[str, Any]:
        """Return what lm-eval records of the model, and what was ablated."""
        return {**super().get_model_info(), "ablated": self._ablated}


def _zeros(_: nn.Module, __: Any, output: Any) -> Any:
    return with_tensor(output, torch.zeros_like(first_tensor(output)))


def _chosen_layers(
    ablate: str | None, layers: str | None, role: Role | None, by: By | None
) -> tuple[Module, Layers, ModelIdentity | None]:
    """Return the module to ablate, the layers to do so in, and the model of their report."""
    if ablate is not None and layers is None:
        if role is not None or by is not None:
            raise InputError(
                f"ablate={ablate}: role= and by= choose layers of a report; leave them out, or "
                "give layers=layers.json instead of ablate="
            )
        module, _, listed = str(ablate).partition(":")
        if module not in ("mlp", "attention"):
            raise InputError(
                f"ablate={ablate}: must name a module and layers, such as mlp:5+7 or attention:0-3"
            )
        return cast(Module, module), parse_layers(listed), None
    if ablate is not None or layers is None:
        raise InputError("hf-ablated needs one of ablate=mlp:5+7 and layers=layers.json")
    role, by = role or "harmful", by or "evidence"
    report = read_layers(Path(layers))
    if report.intervention.replacement not in ("zero", "all"):
        raise InputError(
            f"{layers}: the sweep replaced outputs by {report.intervention.replacement}, but "
            "hf-ablated replaces them by zeros; sweep with --replacement zero"
        )
    numbers = report.selected_layers(role, by)
    if not numbers:
        raise InputError(f"{layers}: no layer is {role} by {by}; choose another role=, or by=")
    return cast(Module, report.intervention.module), numbers, report.model


def _check_model(layers: str, swept: ModelIdentity, count: int, name: str) -> None:
    """Refuse a report of a model with another number of layers; warn of one of another model."""
    if swept.layers != count:
        raise InputError(
            f"{layers}: a report of {swept.name} with {swept.layers} layers; this model has {count}"
        )
    if not is_same_model(swept.name, name):
        _logger.warning(
            "%s: a report of %s; its layers are ablated in %s", layers, swept.name, name
        )
