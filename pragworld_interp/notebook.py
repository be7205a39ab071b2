"""Sweeps of a model that is in memory: `ablate`, `patch` and `trace` of the package."""

from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pragworld_interp.engine.decoder import from_model
from pragworld_interp.prompts.examples import OwnPrompts, document_examples
from pragworld_interp.prompts.labels import label_tokens
from pragworld_interp.run.inputs import Layers, chosen_intervention, select_pair
from pragworld_interp.run.loading import model_identity
from pragworld_interp.run.processes import process_state
from pragworld_interp.run.sweeps import EngineName, Sweep, ablate_layers, make_sweep, patch_layers
from pragworld_interp.run.tracing import trace_layers
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.ablation_report import LayerReport
from pragworld_tasks.layers.patching_report import PatchingReport
from pragworld_tasks.layers.settings import (
    Into,
    Module,
    PatchedModule,
    Replacement,
    check_choice,
)
from pragworld_tasks.layers.token_report import TokenReport


def ablate(
    model: Any,
    tokenizer: Any,
    documents: Iterable[Document] | None = None,
    *,
    prompts: Iterable[str] | None = None,
    labels: Iterable[str] | Iterable[Iterable[str]] = (),
    answers: Iterable[str] = (),
    groups: Iterable[Hashable] | None = None,
    module: Module = "mlp",
    replacement: Replacement = "zero",
    seed: int = 0,
    layers: Layers | None = None,
    positions: str = "all",
    revert: Any = None,
    engine: EngineName = "sweep",
    chat_template: bool = False,
    batch_tokens: int | None = None,
) -> LayerReport:
    """Ablate each layer of a model in turn (PragWorld paper, section 6.2).

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        documents: Some or all documents of one split, as `pragworld_tasks.load` returns.
        prompts: Prompts of your own instead of documents.
        labels: The labels of these prompts, two or more that are a token each, for all prompts or
            for each of them. Before a label stands a space, unless a chat template is used or the
            prompt ends in a space or an opening bracket.
        answers: The label that is right for each prompt.
        groups: The group of each prompt. Tests treat groups as independent, and the robust accuracy
            counts groups that are right as a whole. None if each prompt is a group of its own.
        module: The part to ablate: "mlp", "attention", or "heads" for its parts, one at a time.
        replacement: What replaces its output: "zero"; its "mean" over all positions of the same
            kind (dialogue, altered words, question, last, or rest); "resample", its output at a
            random position of a random prompt; or "counterfactual", at aligned positions that in
            the group's original, and for an original in a variant with another answer; or "all"
            of these in turn, where the role of a layer has to hold under each.
        seed: The seed of "resample".
        layers: The layers to ablate, such as `[3, 4, (5, 7)]`, where 5 and 7 are ablated together;
            None for every layer.
        positions: The positions at which to ablate: "all"; those of the "dialogue" or the
            "question"; the "last"; or a span such as "-5:", which means what a Python slice of the
            tokens does. With "counterfactual" also those of `patch`.
        revert: The model that this one was fine-tuned from, whose layers take the place of this
            one's: each alone, then from the first one on; None to ablate.
        engine: "sweep" for all layers in one pass; "pyvene" for pyvene's interventions, one prompt
            and one layer at a time.
        chat_template: Whether prompts go through the tokenizer's chat template.
        batch_tokens: The tokens that go through a layer at a time, halved when memory is short;
            None for 1280 on a CPU and 32768 on an accelerator.

    Raises:
        InputError: There is nothing to sweep on, a setting does not exist, documents are not of one
            split or contradict each other, labels are not different tokens, the model cannot be
            swept, a prompt is too long, logits are not finite, or the memory does not suffice.

    Examples:
        >>> import pragworld_tasks as pt
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from pragworld_interp import ablate
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> model = AutoModelForCausalLM.from_pretrained(tiny_folder())
        >>> tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
        >>> report = ablate(model, tokenizer, pt.generate(groups=2))
        >>> len(report.layers)
        5

        Prompts of your own:

        >>> prompts = ["Bob met Alice. Who met Alice?", "Alice met Bob. Who met Bob?"]
        >>> own = {"prompts": prompts, "labels": ["Alice", "Bob"], "answers": ["Bob", "Alice"]}
        >>> ablate(model, tokenizer, **own).plain.accuracy.total
        2
    """
    base_name = None if revert is None else _name(revert)
    intervention = chosen_intervention(module, replacement, seed, positions, base_name)
    own = OwnPrompts(prompts, labels, answers, groups)
    prepared = _prepared(model, tokenizer, documents, own, engine, chat_template, batch_tokens)
    with prepared as sweep:
        report = ablate_layers(sweep, intervention, layers, base=revert)
    assert report is not None
    return report


def patch(
    model: Any,
    tokenizer: Any,
    documents: Iterable[Document] | None = None,
    *,
    prompts: Iterable[str] | None = None,
    labels: Iterable[str] | Iterable[Iterable[str]] = (),
    answers: Iterable[str] = (),
    groups: Iterable[Hashable] | None = None,
    module: PatchedModule = "residual",
    into: Into = "original",
    layers: Layers | None = None,
    positions: str = "all",
    engine: EngineName = "sweep",
    chat_template: bool = False,
    batch_tokens: int | None = None,
) -> PatchingReport:
    """Patch the residuals at each layer in turn (PragWorld paper, section 6.1), or parts of layers.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        documents: Some or all documents of one split with altered variants.
        prompts: Prompts of your own instead of documents. The first of each group is the original,
            the others are its variants.
        labels: As in `ablate`.
        answers: As in `ablate`.
        groups: As in `ablate`.
        module: What to patch: the "residual" stream at the input of a layer, the output of its
            "mlp" or "attention", or its "heads", one at a time.
        into: Which prompt of a pair is patched from the other one: "original" or "altered".
        layers: As in `ablate`.
        positions: The positions to patch: "all" with aligned tokens; those in the "dialogue", in
            the "question", or in a span such as "-5:", which means what a Python slice of the
            tokens does; the "last" one; the "altered" tokens, where they have a counterpart; or
            "utterance", the other tokens of the utterances that hold a difference.
        engine: As in `ablate`.
        chat_template: As in `ablate`.
        batch_tokens: As in `ablate`.

    Raises:
        InputError: As for `ablate`, or there are no altered variants with their originals, or a
            prompt has no such positions.

    Examples:
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from pragworld_interp import patch
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> model = AutoModelForCausalLM.from_pretrained(tiny_folder())
        >>> tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
        >>> prompts = ["In the hall is Bob. Who is it?", "In the hall is Mia. Who is it?"]
        >>> own = {"prompts": prompts, "labels": ["Bob", "Mia"], "answers": ["Bob", "Mia"]}
        >>> report = patch(model, tokenizer, **own, groups=[0, 0])
        >>> len(report.pairs)
        1
    """
    own = OwnPrompts(prompts, labels, answers, groups)
    prepared = _prepared(model, tokenizer, documents, own, engine, chat_template, batch_tokens)
    with prepared as sweep:
        report = patch_layers(sweep, positions, module, into, layers)
    assert report is not None
    return report


def trace(
    model: Any,
    tokenizer: Any,
    documents: Iterable[Document] | None = None,
    row: int | None = None,
    *,
    prompts: Iterable[str] | None = None,
    labels: Iterable[str] | Iterable[Iterable[str]] = (),
    answers: Iterable[str] = (),
    engine: EngineName = "sweep",
    chat_template: bool = False,
    batch_tokens: int | None = None,
) -> TokenReport:
    """Patch each token of a prompt alone, and each part of it, at every layer.

    `patch` does so at all positions of many pairs, this at one position of one pair at a time.

    Args:
        model: A causal language model of transformers.
        tokenizer: Its tokenizer.
        documents: Some or all documents of one split with altered variants.
        row: The row of the altered variant among them. It is patched into its original.
        prompts: Two prompts of your own instead of documents: an original and its variant.
        labels: As in `ablate`.
        answers: As in `ablate`, for both prompts.
        engine: As in `ablate`.
        chat_template: As in `ablate`.
        batch_tokens: As in `ablate`.

    Raises:
        InputError: As for `ablate`, or the row is not that of an altered variant with an original,
            or there are not two prompts.

    Examples:
        >>> from transformers import AutoModelForCausalLM, AutoTokenizer
        >>> from pragworld_interp import trace
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> model = AutoModelForCausalLM.from_pretrained(tiny_folder())
        >>> tokenizer = AutoTokenizer.from_pretrained(tiny_folder())
        >>> prompts = ["In the hall is Bob. Who is it?", "In the hall is Mia. Who is it?"]
        >>> own = {"prompts": prompts, "labels": ["Bob", "Mia"], "answers": ["Bob", "Mia"]}
        >>> report = trace(model, tokenizer, **own)
        >>> [token.shown for token in report.tokens if token.part == "altered"]
        ['Bob → Mia']
    """
    listed, texts = list(documents or ()), list(prompts or ())
    if listed:
        listed = select_pair(listed, row)
    if texts and (row is not None or len(texts) != 2):
        raise InputError(
            "prompts must be two, an original and its variant, without a row; give two of them"
        )
    own = OwnPrompts(texts, labels, answers, [0] * len(texts))
    prepared = _prepared(model, tokenizer, listed, own, engine, chat_template, batch_tokens)
    with prepared as sweep:
        return trace_layers(sweep)


@contextmanager
def _prepared(
    model: Any,
    tokenizer: Any,
    documents: Iterable[Document] | None,
    own: OwnPrompts,
    engine: EngineName,
    chat_template: bool,
    batch_tokens: int | None,
) -> Iterator[Sweep]:
    """Prepare a sweep within a `with` statement, after which the model is as it was."""
    model = getattr(model, "_orig_mod", model)  # of torch.compile
    check_choice("engine", engine, EngineName)
    if chat_template and not tokenizer.chat_template:
        raise InputError("the tokenizer has no chat template; leave out chat_template=True")
    if getattr(model, "get_output_embeddings", lambda: None)() is None:
        raise InputError(
            f"{type(model).__name__}: not a causal language model in memory; load it with "
            "AutoModelForCausalLM.from_pretrained"
        )
    modes = [(module, module.training) for module in model.modules()]
    try:
        listed = list(documents or ())
        examples, labels = own.examples(tokenizer, chat_template)
        if bool(listed) == bool(examples):
            raise InputError("a sweep needs either documents or prompts; give one of them")
        if listed:
            labels = label_tokens(tokenizer, chat_template, listed[0].labels)
        decoder = from_model(model, tokenizer, chat_template, labels)
        examples = examples or document_examples(listed)
        if process_state().num_processes > 1:
            raise InputError(
                "a model in memory is swept by one process; for several, use `pragworld-interp`"
            )
        revision = getattr(model.config, "_commit_hash", None)
        identity = model_identity(decoder, _name(model), revision, None, chat_template)
        yield make_sweep(decoder, identity, examples, engine=engine, budget=batch_tokens)
    finally:
        for module, is_training in modes:
            module.training = is_training


def _name(model: Any) -> str:
    return getattr(model, "name_or_path", "") or str(model.config.get_text_config().model_type)
