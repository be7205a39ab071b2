"""Loading a model and its adapter so that its layers can be swept."""

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from pragworld_interp.engine.decoder import Decoder, from_model, with_adapter_inside
from pragworld_interp.prompts.labels import label_tokens
from pragworld_interp.run.processes import process_state
from pragworld_tasks.data.documents import YES_NO
from pragworld_tasks.errors import InputError
from pragworld_tasks.layers.settings import ModelIdentity

Quantization = Literal["4bit", "8bit"]

# What transformers and peft read from a folder. Reports of earlier sweeps, which may be in the same
# folder, are not among it.
_FILES = (
    *("*.safetensors", "config.json", "adapter_config.json", "*.py"),
    *("tokenizer*", "special_tokens_map.json", "added_tokens.json", "tekken.json"),
    *("vocab.*", "merges.txt", "*.model", "*.tiktoken"),
    *("chat_template*", "additional_chat_templates/*"),
)


@dataclass(frozen=True)
class Model:
    """A model and how it runs; the help of the commands says what the settings mean."""

    name: str
    revision: str | None = None
    adapter: str | None = None
    dtype: str = "auto"
    device_map: str | None = None
    quantization: Quantization | None = None
    attn_implementation: str | None = None
    chat_template: bool = False
    trust_remote_code: bool = False


def load_decoder(model: Model, labels: Sequence[str] = YES_NO) -> tuple[Decoder, ModelIdentity]:
    """Load a model to be swept on documents with some labels; return it, and what reports say."""
    network, revision = load_network(model)
    with _reasons(model.name):
        tokenizer = AutoTokenizer.from_pretrained(
            model.name, revision=model.revision, trust_remote_code=model.trust_remote_code
        )
    if model.chat_template and not tokenizer.chat_template:
        raise InputError(
            f"model {model.name}: the tokenizer has no chat template; leave out --chat-template"
        )
    try:
        tokens = label_tokens(tokenizer, model.chat_template, labels)
        decoder = from_model(network, tokenizer, model.chat_template, tokens)
    except RuntimeError as error:  # such as flash attention in float32
        raise InputError(f"model {model.name}: {first_line(error)}") from error
    about = (model.name, revision, model.adapter, model.chat_template)
    return decoder, model_identity(decoder, *about)


def load_network(model: Model) -> tuple[Any, str | None]:
    """Load a model with its adapter, and return it with its revision."""
    check_source(model.name, model.revision)
    options: dict[str, Any] = {"device_map": model.device_map or str(process_state().device)}
    if model.attn_implementation:  # None would replace the one that a config.json names
        options["attn_implementation"] = model.attn_implementation
    with _reasons(model.name):
        if model.quantization:
            bits = {f"load_in_{model.quantization}": True}
            options["quantization_config"] = BitsAndBytesConfig(**bits)
        # A folder with nothing but an adapter is a model too: transformers finds the base model.
        network, info = AutoModelForCausalLM.from_pretrained(
            model.name,
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
            dtype=model.dtype,
            use_safetensors=True,
            output_loading_info=True,
            **options,
        )
    check_complete(model.name, network, info)
    revision = getattr(network.config, "_commit_hash", None) or model.revision
    return (_with_adapter(network, model.adapter) if model.adapter else network), revision


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Give the reason why a model cannot be loaded in one line."""
    try:
        yield
    except Exception as error:  # libraries raise many types for files that they cannot read
        reason = first_line(error)
        if "trust_remote_code" in str(error):
            reason = "it needs code that comes with it; read the code, then use --trust-remote-code"
        raise InputError(f"model {name}: {reason}") from error


def check_complete(name: str, network: Any, info: Mapping[str, Any]) -> None:
    """Check that a checkpoint has all weights of a model, and in their shapes."""
    wrong = {weight for weight, *_ in info["mismatched_keys"]} | {*info["missing_keys"]}
    if missing := {weight for weight, _ in network.named_parameters()} & wrong:
        raise InputError(
            f"model {name}: {len(missing)} weights are missing from the checkpoint (for "
            f"example {min(missing)}) and would be randomly initialized; use a complete checkpoint"
        )


def model_identity(
    decoder: Decoder, name: str, revision: str | None, adapter: str | None, chat_template: bool
) -> ModelIdentity:
    """Return the identity of a loaded model, for reports."""
    tokenizer = decoder.tokenizer
    labels = [tokenizer.decode([label]) for label in decoder.labels]
    if len({*labels}) < len(labels):  # SentencePiece decodes ▁Bob without the space, as Bob
        labels = tokenizer.convert_ids_to_tokens([*decoder.labels])
    kinds = [bits for bits in ("4bit", "8bit") if getattr(decoder.model, f"is_loaded_in_{bits}", 0)]
    return ModelIdentity(
        name=name,
        revision=revision,
        adapter=_adapter_identity(decoder.model, adapter),
        dtype=str(decoder.dtype).removeprefix("torch."),
        layers=len(decoder.blocks),
        labels=tuple(labels),
        chat_template=chat_template,
        quantization=next(iter(kinds), None),
    )


def _adapter_identity(model: Any, name: str | None) -> str | None:
    """Return the name and a digest of the adapters that are active; None if there are none.

    Most adapters in memory have one name, "default", and those in a folder may be trained further.
    """
    if not getattr(model, "peft_config", None):
        return None
    from peft.tuners.tuners_utils import BaseTunerLayer

    layers = [
        module
        for module in model.modules()
        if isinstance(module, BaseTunerLayer) and not module.disable_adapters
    ]
    active = list(dict.fromkeys(own for layer in layers for own in layer.active_adapters))
    if not active:
        return None
    digest = hashlib.sha256()
    for layer in layers:
        digest.update(repr([getattr(layer, "scaling", {}).get(own) for own in active]).encode())
    for place, weight in [*model.named_parameters(), *model.named_buffers()]:
        parts = place.split(".")
        if not {*active}.isdisjoint(parts):  # which are names of peft's dictionaries
            digest.update(".".join(part for part in parts if part not in active).encode())
            digest.update(weight.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return f"{(name or '+'.join(active)).rstrip('/')}@{digest.hexdigest()[:8]}"


def local_files(folders: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the size and the modification time of the files that a model is read from, by path.

    They can change between runs; a journal records this to notice. Models on the hub have none.
    """
    files = {file for name in folders for pattern in _FILES for file in Path(name).glob(pattern)}
    stats = {str(file): file.stat() for file in sorted(files) if file.is_file()}
    return {file: (stat.st_size, stat.st_mtime_ns) for file, stat in stats.items()}


def _with_adapter(network: Any, adapter: str) -> Any:
    """Return the model with a PEFT adapter in its own modules, where blocks can be found."""
    surplus: list[str] = []  # weights of modules that the model lacks, which peft ignores
    handle = network.register_load_state_dict_post_hook(
        lambda _, keys: surplus.extend(keys.unexpected_keys)
    )
    try:
        from peft import PeftModel

        with handle, warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")
            adapted = PeftModel.from_pretrained(network, adapter, use_safetensors=True)
    except Exception as error:
        raise InputError(f"adapter {adapter}: {first_line(error)}") from error
    network = with_adapter_inside(adapted, adapter)
    if surplus:
        raise InputError(
            f"adapter {adapter}: it was trained for another model; this one has no {min(surplus)}"
        )
    return network


def load_config(name: str, revision: str | None = None, trust_remote_code: bool = False) -> Any:
    """Return the configuration of a model on the Hugging Face hub or in a folder."""
    check_source(name, revision)
    options = {"revision": revision, "trust_remote_code": trust_remote_code}
    with _reasons(name):
        return AutoConfig.from_pretrained(name, **options)


def check_source(name: str, revision: str | None) -> None:
    """Check that a model is not in a folder that is missing, nor in one with a revision.

    transformers would look for the folder on the hub, and ignore the revision; "main" is a name for
    what is there.
    """
    is_folder = Path(name).is_dir()
    if name.startswith((".", "/")) and not is_folder:
        raise InputError(f"model {name}: there is no such folder")
    if is_folder and revision not in (None, "main"):
        raise InputError(
            f"model {name}: a folder has no revisions, but revision {revision} is given; leave it "
            "out, or name a model on the hub"
        )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or two lines if the first is a heading."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1]).rstrip(".")
    is_plain = isinstance(error, OSError | ValueError | ImportError | Warning)
    return f"{text:.300}" if is_plain and text else f"{type(error).__name__}: {text:.300}"
