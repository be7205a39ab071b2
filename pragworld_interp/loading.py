"""From a name to a decoder that can be swept, and from documents to the token ids it is fed."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import AutoModelForCausalLM, AutoTokenizer

from pragworld_interp.decoder import Decoder, from_model
from pragworld_interp.layer_report import ModelIdentity
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.evaluation.prompts import label_prompt

Quantization = Literal["4bit", "8bit"]


@dataclass(frozen=True)
class Model:
    """Which model, and how it is run.

    Attributes:
        name: on the Hugging Face hub, or a folder.
        revision: a branch, tag or commit on the hub.
        adapter: a PEFT adapter to put on top: a name or a folder.
        dtype: "float32", "bfloat16" or "float16"; "auto" is that of the weights.
        device_map: "auto" spreads the model over what there is; else a device, as "cuda:0".
        quantization: by bitsandbytes, where that is installed.
        chat_template: whether prompts go through the tokenizer's chat template.
        trust_remote_code: whether code that comes with the model may run.
    """

    name: str
    revision: str | None = None
    adapter: str | None = None
    dtype: str = "auto"
    device_map: str | None = None
    quantization: Quantization | None = None
    chat_template: bool = False
    trust_remote_code: bool = False


def load(model: Model) -> tuple[Decoder, ModelIdentity]:
    """The model, ready to be swept, and what identifies it.

    Raises:
        InputError: it is not there or cannot be read, or cannot be swept.
    """
    shared: dict[str, Any] = {
        "revision": model.revision,
        "trust_remote_code": model.trust_remote_code,
    }
    quantized = _quantized(model.quantization) if model.quantization else {}
    # A folder that holds an adapter alone is a model too: transformers finds what it is for.
    check_folder("model", model.name, "config.json", "adapter_config.json")
    if model.adapter:
        check_folder("adapter", model.adapter, "adapter_config.json")
        check_folder("adapter", model.adapter, "adapter_model.safetensors", "adapter_model.bin")
    try:
        tokenizer = AutoTokenizer.from_pretrained(model.name, **shared)
        network, info = AutoModelForCausalLM.from_pretrained(
            model.name,
            dtype=model.dtype,
            device_map=model.device_map or _device(),
            use_safetensors=True,
            output_loading_info=True,
            **quantized,
            **shared,
        )
    except Exception as error:  # what libraries raise over what they cannot read is of all kinds
        why = first_line(error)
        if "trust_remote_code" in str(error):
            why = "it needs code that comes with it; read that, and allow it by --trust-remote-code"
        elif "model.safetensors" in why:
            why += "; weights in other formats are not read"
        raise InputError(f"model {model.name}: {why}") from error
    if missing := {name for name, _ in network.named_parameters()} & {*info["missing_keys"]}:
        raise InputError(
            f"model {model.name}: {len(missing)} of its weights are missing, {min(missing)} among "
            "them; they would be random"
        )
    revision = getattr(network.config, "_commit_hash", None) or model.revision
    if model.adapter:
        network = _with_adapter(network, model.adapter)
    if model.chat_template and not tokenizer.chat_template:
        raise InputError(f"model {model.name}: its tokenizer has no chat template; leave it out")
    decoder = from_model(network, tokenizer)
    identity = ModelIdentity(
        name=model.name,
        revision=revision,
        adapter=model.adapter,
        dtype=str(decoder.dtype).removeprefix("torch."),
        layers=len(decoder.blocks),
        labels=(tokenizer.decode([decoder.labels[0]]), tokenizer.decode([decoder.labels[1]])),
        chat_template=model.chat_template,
        quantization=model.quantization,
    )
    return decoder, identity


def weight_files(model: Model) -> dict[str, tuple[int, int]]:
    """Size and time of the weights of a model and an adapter that lie in folders, by their paths.

    What lies in a folder may be another model tomorrow. It tells nothing of what is on the hub.
    """
    folders = [Path(name) for name in (model.name, model.adapter) if name and Path(name).is_dir()]
    found = [file for folder in folders for file in sorted(folder.glob("*.safetensors"))]
    return {str(file): (file.stat().st_size, file.stat().st_mtime_ns) for file in found}


def _device() -> str:
    """The accelerator of this process if there is one."""
    from accelerate import PartialState

    return str(PartialState().device)


def _quantized(quantization: Quantization) -> dict[str, Any]:
    from transformers import BitsAndBytesConfig

    settings = {"load_in_4bit": quantization == "4bit", "load_in_8bit": quantization == "8bit"}
    return {"quantization_config": BitsAndBytesConfig(**settings)}


def _with_adapter(network: Any, adapter: str) -> Any:
    """The model with a PEFT adapter, in the model's own modules, so that blocks are found."""
    surplus: list[str] = []  # weights for what the model does not have: peft passes over them
    heard = network.register_load_state_dict_post_hook(
        lambda _, keys: surplus.extend(keys.unexpected_keys)
    )
    try:
        from peft import PeftModel

        with heard, warnings.catch_warnings():
            warnings.filterwarnings("error", "Found missing adapter keys")
            adapted = PeftModel.from_pretrained(network, adapter, use_safetensors=True)
    except Exception as error:
        raise InputError(f"adapter {adapter}: {first_line(error)}") from error
    if adapted.active_peft_config.is_prompt_learning:
        raise InputError(
            f"adapter {adapter}: it puts tokens before the prompt; only adapters in a model's own "
            "modules, as LoRA, can be swept"
        )
    if surplus:
        raise InputError(f"adapter {adapter}: not of this model, which has no {min(surplus)}")
    return adapted.base_model.model


def check_folder(kind: str, name: str, *either: str) -> None:
    """Refuses a folder that is not there or holds none of the files that make it what it should be.

    A library takes the one for a name on the hub, and is at a loss about the other.
    """
    folder = Path(name)
    if folder.is_dir() and not any((folder / file).is_file() for file in either):
        raise InputError(f"{kind} {name}: no {either[0]} in it")
    if not folder.is_dir() and (folder.exists() or name.startswith((".", "/"))):
        raise InputError(f"{kind} {name}: no such folder")


def first_line(error: Exception) -> str:
    """What an error says in its first line, or in two where the first is a heading."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1]).rstrip(".")
    plain = isinstance(error, OSError | ValueError | ImportError | Warning)
    return f"{said:.300}" if plain and said else f"{type(error).__name__}: {said:.300}"


@dataclass(frozen=True)
class Fed:
    """A prompt as a model is fed it.

    Attributes:
        ids: token ids, special tokens included.
        dialogue: the positions that hold the dialogue, rather than the instructions around it or
            the question; none where the tokenizer does not tell them.
    """

    ids: list[int]
    dialogue: frozenset[int]


def fed(decoder: Decoder, documents: Sequence[Document], chat_template: bool) -> list[Fed]:
    """What the model is fed for each document: Prompt 2 of the PragWorld paper.

    Args:
        decoder: whose tokenizer is used.
        documents: to be asked about.
        chat_template: whether each prompt is put as a user's turn, with the assistant's begun.

    Raises:
        InputError: a prompt is longer than the model takes.
    """
    tokenizer = decoder.tokenizer
    records = [{"context": one.context, "question": one.question} for one in documents]
    texts = [label_prompt(record) for record in records]
    if chat_template:
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
            )
            for text in texts
        ]
    # A template has written BOS itself where it wants one.
    encoded = tokenizer(
        texts, add_special_tokens=not chat_template, return_offsets_mapping=tokenizer.is_fast
    )
    most = getattr(decoder.model.config.get_text_config(), "max_position_embeddings", None)
    prompts = []
    for number, (document, text) in enumerate(zip(documents, texts, strict=True)):
        ids = list(encoded["input_ids"][number])
        if most is not None and len(ids) > most:
            raise InputError(
                f"{document.split}, row {document.row}: {len(ids)} tokens, and the model takes "
                f"{most} at most"
            )
        start = text.find(document.context)  # -1 where a template has changed it
        end = start + len(document.context)
        offsets = encoded["offset_mapping"][number] if tokenizer.is_fast and start >= 0 else []
        within = (
            position
            for position, (first, behind) in enumerate(offsets)
            if first < behind and start <= first and behind <= end
        )
        prompts.append(Fed(ids, frozenset(within)))
    return prompts
