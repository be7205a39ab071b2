"""The model card of a training run, written from its record alone."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import ModelCardData

from pragworld_tasks.data.splits import OWN
from pragworld_tasks.text import format_count, markdown_table

TAGS = ("trl", "sft", "layer-regularized")
_CITATIONS = """\
```bibtex
@article{vashistha2025pragworld,
  title   = {{PragWorld}: A Benchmark Evaluating {LLMs'} Local World Model under Minimal Linguistic
             Alterations and Conversational Dynamics},
  author  = {Vashistha, Sachin and Bibhuti, Aryan and Naik, Atharva and Tutek, Martin and
             Aditya, Somak},
  journal = {arXiv preprint arXiv:2511.13021},
  year    = {2025},
  url     = {https://arxiv.org/abs/2511.13021}
}

@software{vonwerra2020trl,
  title   = {{TRL: Transformers Reinforcement Learning}},
  author  = {von Werra, Leandro and Belkada, Younes and Tunstall, Lewis and Beeching, Edward and
             Thrush, Tristan and Lambert, Nathan and Huang, Shengyi and Rasul, Kashif and
             Gallou{\\'e}dec, Quentin},
  license = {Apache-2.0},
  url     = {https://github.com/huggingface/trl},
  year    = {2020}
}
```"""


def make_model_card(
    record: Mapping[str, Any],
    name: str,
    evaluation: str = "",
    tags: Iterable[str] = TAGS,
    dataset: str | None = None,
) -> str:
    """Return the model card of a run as Markdown with a YAML header.

    Args:
        record: The record of the run; see `run_record`.
        name: The model's name: of its repository on the hub, or of its folder.
        evaluation: Tables that compare the model before and after training, if there are any.
        tags: Tags of the model.
        dataset: Name of the dataset on the Hugging Face hub, if it is there.
    """
    base = record["model"]["name"]
    on_hub = bool(base) and not Path(base).exists()
    header = ModelCardData(
        base_model=base if on_hub else None,
        datasets=[dataset] if dataset else None,
        library_name="transformers" if record["adapter"] is None else "peft",
        pipeline_tag="text-generation",
        tags=sorted({"generated_from_trainer", *tags}),
        model_name=name,
    )
    kind = "weights" if record["adapter"] is None else f"{record['adapter']['peft_type']} adapter"
    revision = record["model"]["revision"] or "main"
    made = record["data"].get("generator")
    link = f"[{base}](https://huggingface.co/{base}), revision {revision}"
    local = (
        f"the local model `{Path(base).name}`"
        if base
        else f"a {record['model']['architecture']} in memory"
    )
    parts = [
        f"---\n{header.to_yaml()}\n---",
        f"# {name}",
        f"The {kind} of a model that was fine-tuned from {link if on_hub else local} on "
        f"{_data(record['data'], dataset)}, with `LayerRegularizedSFTTrainer` of pragworld "
        f"{record['versions']['pragworld']}, a trainer on top of TRL's `SFTTrainer`. It trained "
        f"for {record['steps']} steps of {record['training']['batch_size']} examples.",
        *([f"The documents were generated with `{json.dumps(made)}`."] if made else []),
        "## Loss",
        _loss(record["layers"]),
        "## Load it",
        _loading(name, record),
        *(["## Before and after", evaluation.rstrip()] if evaluation else []),
        "## Settings",
        _settings(record),
        "`pragworld_train.json` has all settings, the versions of all packages and the log.",
        "## Cite",
        "Useful layer amplification and harmful layer suppression are from the PragWorld paper "
        "(section 6 and appendix H).",
        _CITATIONS,
    ]
    return "\n\n".join(parts) + "\n"


def _data(data: Mapping[str, Any], dataset: str | None) -> str:
    if "split" not in data:
        rows = "streamed examples" if data["rows"] is None else f"{data['rows']:,} examples"
        return f"{rows} of {dataset}" if dataset else rows
    without = f", without {data['held_out_alteration']}" if data["held_out_alteration"] else ""
    originals = ", originals only" if data["originals_only"] else ""
    template = "with" if data["chat_template"] else "without"
    source = "the user's own" if data["split"] == OWN else f"PragWorld's {data['split']} split"
    return (
        f"{format_count(data['documents'], 'document')} in "
        f"{format_count(data['groups'], 'group')} of {source}{without}"
        f"{originals}, as Prompt 2 of the paper {template} the chat template"
    )


def _loss(layers: Mapping[str, Any]) -> str:
    terms, lines = ["L_CE"], ["- `L_CE` is the cross-entropy of the completions, as in TRL."]
    if layers["amplified"]:
        terms.append(f"{layers['ula_weight']:g} · L_amplify")
        lines.append(
            "- `L_amplify` (useful layer amplification, ULA) is the mean cross-entropy of probes "
            "that predict the label from the MLP outputs of layers "
            f"{_text(layers['amplified'])} at the token before it. The probes have "
            f"{layers['probe_hidden_size']} hidden units."
        )
    if layers["suppressed"]:
        terms.append(f"{layers['hls_weight']:g} · L_suppress")
        over = {
            "mean": "mean square, over tokens and features,",
            "norm": "squared norm, averaged over tokens,",
        }[layers["hls_reduction"]]
        lines.append(
            f"- `L_suppress` (harmful layer suppression, HLS) is the {over} of the MLP outputs of "
            f"layers {_text(layers['suppressed'])}."
        )
    if len(terms) == 1:
        return "`L = L_CE`: no layers were amplified or suppressed, so this is plain SFT."
    report = layers["report"] and (
        f"The layers are those of a sweep with `pragworld-interp ablate`, selected by "
        f"{layers['selection']}."
    )
    return "\n".join(
        [
            f"`L = {' + '.join(terms)}`",
            "",
            *lines,
            "",
            "Layers are counted from 0. " + (report or ""),
        ]
    ).rstrip()


def _loading(name: str, record: Mapping[str, Any]) -> str:
    base = record["model"]["name"]
    if record["adapter"] is None:
        kind, package, arguments = "AutoModelForCausalLM", "transformers", f"pretrained={name}"
    else:
        kind, package = "AutoPeftModelForCausalLM", "peft"
        shown = Path(base).name if Path(base).exists() else base  # no folders of this machine
        arguments = f"pretrained={shown},peft={name}"
    chat = " --apply_chat_template" if record["data"].get("chat_template") else ""
    return "\n".join(
        [
            "```python",
            *([f"from {package} import {kind}"] if package == "peft" else []),
            "from transformers import "
            + ("AutoTokenizer" if package == "peft" else f"{kind}, AutoTokenizer"),
            "",
            f'model = {kind}.from_pretrained("{name}")',
            f'tokenizer = AutoTokenizer.from_pretrained("{name}")',
            "```",
            "",
            "Evaluate it with lm-eval and pragworld:",
            "",
            "```bash",
            f"lm_eval --model hf --model_args {arguments} --tasks pragworld_manual_label{chat}",
            "```",
        ]
    )


def _settings(record: Mapping[str, Any]) -> str:
    training, model, adapter = record["training"], record["model"], record["adapter"]
    divided = (
        f"{training['per_device_train_batch_size']} in each of {training['processes']} processes, "
        f"{training['gradient_accumulation_steps']} accumulated"
    )
    precision = next((name for name in ("bf16", "fp16") if training[name]), "no")
    rows: list[tuple[str, Any]] = [
        ("weights", f"{model['weights']:,} in {model['dtype']}"),
        ("trained weights", f"{model['trained_weights']:,}, without probes"),
    ]
    if adapter is not None:
        of_adapter = ("r", "lora_alpha", "lora_dropout", "target_modules")
        rows += [(name, _text(adapter[name])) for name in of_adapter if name in adapter]
    rows += [
        ("batch size", f"{training['batch_size']} ({divided})"),
        ("steps", record["steps"]),
        ("epochs", "unknown" if record["epochs"] is None else f"{record['epochs']:g}"),
        ("mixed precision", precision),
    ]
    names = (
        *("learning_rate", "lr_scheduler_type", "warmup_steps", "optim", "weight_decay"),
        *("max_grad_norm", "max_length", "packing", "gradient_checkpointing", "seed"),
    )
    rows += [(name, training[name]) for name in names]
    rows += [(name, found) for name, found in record["versions"].items() if found]
    return markdown_table(
        "", ["setting", "value"], [[key, str(item)] for key, item in rows]
    ).strip()


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
