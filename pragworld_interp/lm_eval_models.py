"""Models of lm-eval: shared prefixes that run once (`hf-tree`), and ablated layers (`hf-ablated`).

Both are lm-eval's own `hf` and take its arguments. `pragworld-interp lm_eval` is the command
`lm_eval` with these two models. A user's mistake ends it with one line, as in
`pragworld_tasks.harness`.
"""

import itertools
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, get_args

import torch
from lm_eval.models.huggingface import HFLM
from torch import nn
from tqdm import tqdm

from pragworld_interp import likelihoods
from pragworld_interp.engine.agreement import tree_obstacle
from pragworld_interp.engine.decoder import Decoder, find_blocks, without_labels
from pragworld_interp.engine.interventions import ablated_module
from pragworld_interp.engine.modules import first_tensor, with_tensor
from pragworld_interp.likelihoods import Continuation, Likelihood
from pragworld_interp.prompts.alignment import Tokens
from pragworld_interp.run.memory import MemoryLimit, default_budget
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import read_layers
from pragworld_tasks.layers.layer_statistics import By, Role
from pragworld_tasks.layers.settings import ModelIdentity, Module, is_same_model

_logger = logging.getLogger(__name__)

# Of lm-eval: the texts of a request, and the tokens of its context and of its continuation.
_Tokenized = tuple[tuple[str, str] | None, list[int], list[int]]

_TRIED = 3  # the longest sequences of a run, which show whether the model supports trees


class TreeLM(HFLM):
    """lm-eval's `hf`, with requests packed as token trees in which each shared prefix runs once.

    Log-likelihoods are those of `hf` up to rounding. They take less time, the more requests begin
    alike, as questions about one text or variants of a dialogue do. Generation is that of `hf`.
    Where a model does not support trees, a warning says why, and requests run as in `hf`; the
    argument `batch_size` is for these two.

    Examples:
        >>> from lm_eval.api.instance import Instance
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> lm = TreeLM(pretrained=str(tiny_folder()), device="cpu")
        >>> texts = [("Alice: Hi.", " Bob"), ("Alice: Hi.", " Alice")]
        >>> requests = [Instance("loglikelihood", {}, text, 0) for text in texts]
        >>> [likelihood < 0 for likelihood, _ in lm.loglikelihood(requests, disable_tqdm=True)]
        [True, True]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Load the model as `hf` does, and find its blocks."""
        super().__init__(*args, **kwargs)
        self._decoder: Decoder | None = None
        self._tried = (0, 0)  # the longest sequence and the longest tree that have been tried
        self._obstacle: str | None = None
        try:
            if self.backend != "causal":
                raise InputError("the model is not a decoder")
            self._decoder = without_labels(self.model, self.tokenizer)
        except InputError as error:
            _decline(error)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[_Tokenized],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[tuple[float, bool]]:
        """Return the log-probability of each continuation, and whether it is the likeliest."""
        decoder = self._decoder
        with _mistakes_in_one_line():
            if decoder is not None and requests:
                self._check_requests(requests)
                if not self._has_obstacle(decoder, [*map(self._inputs, requests)]):
                    return self._tree_likelihoods(decoder, requests, disable_tqdm)
        plain: list[tuple[float, bool]] = super()._loglikelihood_tokens(
            requests, disable_tqdm, override_bs
        )
        return plain

    def _inputs(self, request: _Tokenized) -> list[int]:
        """Return what the model reads: the last tokens of a request but for the very last."""
        _, context, continuation = request
        return (context + continuation)[-(self.max_length + 1) :][:-1]

    def _check_requests(self, requests: Sequence[_Tokenized]) -> None:
        """Refuse requests that have no likelihood, which `hf` asserts."""
        for texts, context, continuation in requests:
            if not context:
                problem = "the context has no tokens"
            elif not continuation:
                problem = "the continuation has no tokens"
            elif len(continuation) > self.max_length:
                problem = (
                    f"the continuation has {len(continuation)} tokens, but the model supports "
                    f"{self.max_length}"
                )
            else:
                continue
            raise InputError(f"{texts[0] if texts else ''!r:.100}: {problem}; use other tasks")

    def _tree_likelihoods(
        self, decoder: Decoder, requests: Sequence[_Tokenized], disable_tqdm: bool
    ) -> list[tuple[float, bool]]:
        continuations = [Continuation(self._inputs(request), request[2]) for request in requests]
        most = self.max_length + 1
        cut = sum(len(context) + len(continuation) > most for _, context, continuation in requests)
        if cut:
            _logger.warning(
                "%d requests have more than %d tokens: their first are left out", cut, most
            )

        def score(part: Sequence[Continuation], tokens: int) -> list[Likelihood]:
            mixed = self.mixed_precision_dtype
            with torch.autocast(self.device.type, mixed, enabled=mixed is not None):
                return likelihoods.tree_likelihoods(decoder, part, tokens, self.softmax_dtype)

        budget = default_budget(self.device)
        sequences = [continuation.inputs for continuation in continuations]
        memory = MemoryLimit(score, budget, lambda own: f"a request of {len(own.inputs)} tokens")
        results: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        progress = tqdm(
            total=len(requests),
            desc="Running loglikelihood requests",
            disable=disable_tqdm or self.rank != 0,
        )
        with progress:
            for batch in likelihoods.tree_batches(sequences, budget):
                numbers = [number for tree in batch for number in tree]
                scored = memory.work([continuations[number] for number in numbers])
                for number, likelihood in zip(numbers, scored, strict=True):
                    answer = (likelihood.log_probability, likelihood.is_greedy)
                    results[number] = answer
                    if (texts := requests[number][0]) is not None:
                        self.cache_hook.add_partial("loglikelihood", texts, answer)
                progress.update(len(numbers))
        return results

    def _has_obstacle(self, decoder: Decoder, sequences: Sequence[Tokens]) -> bool:
        """Return whether something keeps sequences from running as trees, and warn if so."""
        longest = sorted(sequences, key=len)[-_TRIED:]
        trees = likelihoods.share_prefixes(sequences, default_budget(self.device))
        sizes = (len(longest[-1]), max(tokens for _, tokens in trees) if decoder.window else 0)
        if any(size > tried for size, tried in zip(sizes, self._tried, strict=True)):
            groups = [longest, [min(sequences, key=len)]]
            self._obstacle = tree_obstacle(decoder, groups, sizes[1])
            self._tried = sizes
            if self._obstacle:
                _decline(self._obstacle)
        return bool(self._obstacle)


@contextmanager
def _mistakes_in_one_line() -> Iterator[None]:
    """End the process with the message of an `InputError`; see `pragworld_tasks.harness`."""
    try:
        yield
    except InputError as error:
        raise SystemExit(str(error)) from error


def _decline(reason: object) -> None:
    _logger.warning("hf-tree runs requests as hf does: %s", reason)


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
            ablate: The module and its layers, from 0: "mlp:5,7" or "attention:0-3".
            layers: A file that `pragworld-interp ablate` wrote, instead.
            role: "useful" or "harmful": which layers of that file; None for the harmful ones.
            by: Whether the sign of the change in accuracy or the evidence decides; None for the
                sign.
            **kwargs: Those of `hf`.
        """
        with _mistakes_in_one_line():
            if rest := [name for name in kwargs if name[:1].isdigit()]:
                module, _, first = str(ablate).partition(":")
                raise InputError(
                    f"ablate={ablate}: lm_eval divided it at a comma; write "
                    f"ablate={module}:[{','.join([first, *rest])}]"
                )
            part, numbers, swept = _chosen_layers(ablate, layers, role, by)
            super().__init__(*args, **kwargs)
            blocks = find_blocks(self.model)
            if swept is not None:
                name = str(getattr(self.config, "_name_or_path", ""))
                _check_model(str(layers), swept, len(blocks), name)
            if max(numbers) >= len(blocks):
                raise InputError(
                    f"layer {max(numbers)} does not exist; the model has layers 0 to "
                    f"{len(blocks) - 1}"
                )
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
) -> tuple[Module, list[int], ModelIdentity | None]:
    """Return the module to ablate, the layers to do so in, and the model of their report."""
    if ablate is not None and layers is None:
        if role is not None or by is not None:
            raise InputError(
                f"ablate={ablate}: role= and by= choose layers of a report; leave them out, or "
                "give layers=layers.json instead of ablate="
            )
        return (*parse_ablation(ablate), None)
    if ablate is not None or layers is None:
        raise InputError("hf-ablated needs one of ablate=mlp:5,7 and layers=layers.json")
    role, by = role or "harmful", by or "sign"
    report = read_layers(Path(layers))
    if report.intervention.replacement != "zero":
        raise InputError(
            f"{layers}: the sweep replaced outputs by {report.intervention.replacement}, but "
            "hf-ablated replaces them by zeros; sweep with --replacement zero"
        )
    try:
        numbers = report.selected_layers(role, by)
    except InputError as error:
        raise InputError(f"{layers}: {error}") from error
    if not numbers:
        raise InputError(f"{layers}: no layer is {role} by {by}; choose another role=, or by=")
    return report.intervention.module, numbers, report.model


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


def parse_ablation(text: str) -> tuple[Module, list[int]]:
    """Return the module and the layers that a text names.

    Raises:
        InputError: The text has another form.

    Examples:
        >>> parse_ablation("mlp:5,7-9")
        ('mlp', [5, 7, 8, 9])
    """
    module, _, listed = str(text).replace(" ", "").partition(":")
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in listed.strip("[]").split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part]
    numbers = sorted(set(itertools.chain.from_iterable(ranges)))
    for known in get_args(Module):
        if module == known != "heads" and all(parts) and all(ranges):
            return known, numbers
    raise InputError(
        f"ablate={text}: must name a module and layers, such as mlp:5,7 or attention:0-3"
    )
