"""A plan: what each command costs on some documents, and how long it takes on devices."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any

import torch
from transformers import AutoTokenizer

from pragworld_interp.arguments import check_sweepable, to_items, to_size
from pragworld_interp.devices import DEVICES, Device
from pragworld_interp.identities import Dtype
from pragworld_interp.layer_report import check_choice
from pragworld_interp.loading import check_folder, first_line
from pragworld_interp.model_costs import ModelCosts, load_config, model_costs
from pragworld_interp.workload import GENERATED_TOKENS, Workload, plan_commands, plan_inputs
from pragworld_tasks.data.documents import Document
from pragworld_tasks.errors import InputError
from pragworld_tasks.formatting import format_count, markdown_table

_USABLE = 0.9  # of a device's memory; the rest is for its context and for fragments


@dataclass(frozen=True)
class DeviceNeed:
    """What a command needs of a device.

    Attributes:
        devices: The least number of devices whose memory suffices; None if that is more than the
            model has layers.
        seconds: The time on as many, or on one if None.
    """

    devices: int | None
    seconds: float

    def __str__(self) -> str:
        """Return the need as a table shows it.

        >>> str(DeviceNeed(3, 3000)), str(DeviceNeed(None, 90))
        ('3 x 50 min', '- x 1.5 min')
        """
        return f"{self.devices or '-'} x {format_duration(self.seconds)}"


def device_need(
    work: Workload, device: Device, utilization: float, is_single: bool, layers: int
) -> DeviceNeed:
    """Estimate the devices and the time that a command needs.

    Args:
        work: The command's work.
        device: The device.
        utilization: The share of its peak that it reaches.
        is_single: Whether the weights are in float32.
        layers: The number of the model's layers.

    Examples:
        >>> from pragworld_interp.workload import Phase, Workload
        >>> work = Workload("ablate", 10, 100, (Phase(312 * 10**12),), 100 * 10**9, 10**9)
        >>> device_need(work, DEVICES["a100"], utilization=0.5, is_single=False, layers=4)
        DeviceNeed(devices=2, seconds=2.0)
    """
    free = _USABLE * device.memory - work.working_bytes
    count = math.ceil(work.held_bytes / free) if free > 0 else math.inf
    devices = int(count) if count <= layers else None
    peak = device.single if is_single and not work.is_training else device.half
    seconds = sum(
        max(phase.flops / peak, phase.read_bytes / device.bandwidth) for phase in work.phases
    )
    at_work = devices or 1 if work.is_training else 1
    return DeviceNeed(devices, seconds / utilization / at_work)


@dataclass(frozen=True)
class RunPlan:
    """The work of all commands on some documents, and what it needs of some devices.

    Attributes:
        model: The name or folder of the model.
        dtype: The type of its weights.
        costs: What it costs.
        split: The split of the documents.
        documents, groups: How many they are.
        batch_size: The prompts that lm-eval's `hf` evaluates at a time.
        batch_tokens: The tokens that go through a layer at a time in sweeps.
        utilization: The share of a device's peak that is reached.
        works: The work of each command.
        devices: The names of the devices, as in `devices.DEVICES`.
    """

    model: str
    dtype: str
    costs: ModelCosts
    split: str
    documents: int
    groups: int
    batch_size: int
    batch_tokens: int
    utilization: float
    works: Sequence[Workload]
    devices: Sequence[str]

    def need(self, work: Workload, device: str) -> DeviceNeed:
        """Return what a command needs of a device."""
        is_single, layers = self.dtype == "float32", len(self.costs.blocks)
        return device_need(work, DEVICES[device], self.utilization, is_single, layers)

    def to_text(self) -> str:
        """Return the plan as two tables."""
        model = (
            f"{self.model}, {self.dtype}: {format_count(len(self.costs.blocks), 'layer')}, "
            f"{format_prefixed(self.costs.parameters)} weights"
        )
        data = (
            f"{self.split}: {format_count(self.documents, 'document')} in "
            f"{format_count(self.groups, 'group')}"
        )
        work = [
            [
                work.command,
                f"{work.tokens:,}",
                format_prefixed(work.block_tokens),
                format_prefixed(work.flops),
                f"{format_prefixed(work.held_bytes)}B",
                f"{format_prefixed(work.working_bytes)}B",
            ]
            for work in self.works
        ]
        headers = ["command", "tokens", "in blocks", "FLOPs", "weights, states", "other memory"]
        titles = [DEVICES[device].title for device in self.devices]
        estimates = [
            [work.command, *(str(self.need(work, device)) for device in self.devices)]
            for work in self.works
        ]
        lines = [
            markdown_table(f"{model}. {data}", headers, work),
            markdown_table(
                f"Devices that the memory takes, and time at {self.utilization:.0%} of their peak",
                ["command", *titles],
                estimates,
            ),
        ]
        lines.append(
            "Times are of matrix products, and of reading the weights where the model writes, "
            f"{GENERATED_TOKENS} tokens for each prompt. Loading the model and starting kernels, "
            "which is most of the time of small models, come on top.\n"
        )
        if any(cell.startswith("-") for row in estimates for cell in row[1:]):
            lines.append(
                "-: more devices than the model has layers. Sweeps take fewer with a smaller "
                "--batch-tokens, evaluation with a smaller --batch-size.\n"
            )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        commands = [
            {
                "command": work.command,
                "tokens": work.tokens,
                "block_tokens": work.block_tokens,
                "flops": work.flops,
                "read_bytes": sum(phase.read_bytes for phase in work.phases),
                "held_bytes": work.held_bytes,
                "working_bytes": work.working_bytes,
                "devices": {device: asdict(self.need(work, device)) for device in self.devices},
            }
            for work in self.works
        ]
        return {
            "schema_version": 1,
            "model": self.model,
            "dtype": self.dtype,
            "layers": len(self.costs.blocks),
            "parameters": self.costs.parameters,
            "split": self.split,
            "documents": self.documents,
            "groups": self.groups,
            "batch_size": self.batch_size,
            "batch_tokens": self.batch_tokens,
            "utilization": self.utilization,
            "commands": commands,
        }


def plan_model(
    name: str,
    documents: Iterable[Document],
    *,
    revision: str | None = None,
    tokenizer: str | None = None,
    dtype: str = "auto",
    chat_template: bool = False,
    trust_remote_code: bool = False,
    batch_size: int = 1,
    batch_tokens: int = 32768,
    devices: Sequence[str] = ("a100", "h100", "rtx4090"),
    utilization: float = 0.4,
) -> RunPlan:
    """Plan all commands for a model, of which only the configuration and the tokenizer are read.

    Args:
        name: A name on the Hugging Face hub, or a folder.
        documents: Documents of one split.
        revision: A branch, tag or commit on the hub.
        tokenizer: The name or folder of another tokenizer; None for the model's.
        dtype: "float32", "bfloat16" or "float16"; "auto" for the type in the configuration.
        chat_template: Whether prompts go through the tokenizer's chat template.
        trust_remote_code: Whether code that comes with the model may run.
        batch_size: The prompts that lm-eval's `hf` evaluates at a time.
        batch_tokens: The tokens that go through a layer at a time in sweeps.
        devices: Names in `devices.DEVICES`.
        utilization: The share of a device's peak that is reached.

    Raises:
        InputError: The model or its tokenizer is missing, cannot be swept, or supports shorter
            prompts only; there are no documents, or they are of several splits; or a setting is
            impossible.

    Examples:
        >>> from pragworld_tasks import generate
        >>> from pragworld_tasks.tiny import tiny_folder
        >>> plan = plan_model(str(tiny_folder()), generate(groups=2))
        >>> plan.costs.parameters
        1018560
    """
    documents = to_items("documents", documents, Document)
    if not documents:
        raise InputError("documents is empty; give at least one document")
    check_sweepable(documents)
    check_choice("dtype", dtype, Dtype)
    batch_size = to_size("batch_size", batch_size)
    batch_tokens = to_size("batch_tokens", batch_tokens)
    devices = to_items("devices", devices, str)
    if not devices or not DEVICES.keys() >= {*devices}:
        raise InputError(f"devices={devices!r:.80}: must be some of {', '.join(DEVICES)}")
    if not (isinstance(utilization, Real) and 0 < utilization <= 1):
        raise InputError(f"utilization={utilization!r:.40}: must be above 0 and at most 1")
    config = load_config(name, revision, trust_remote_code)
    known = getattr(config.get_text_config(), "dtype", None) or torch.float32
    weights: torch.dtype = known if dtype == "auto" else getattr(torch, dtype)
    source = tokenizer or name
    check_folder("tokenizer", source, "tokenizer.json", "tokenizer_config.json")
    try:
        loaded = AutoTokenizer.from_pretrained(
            source,
            revision=None if tokenizer else revision,
            trust_remote_code=trust_remote_code,
        )
    except Exception as error:  # libraries raise many types for files that they cannot read
        raise InputError(
            f"tokenizer {source}: {first_line(error)}; name another with --tokenizer"
        ) from error
    if chat_template and not loaded.chat_template:
        raise InputError(f"tokenizer {source}: no chat template; leave out --chat-template")
    decoder, costs = model_costs(config, weights, loaded, trust_remote_code)
    inputs = plan_inputs(decoder, costs, documents, batch_tokens, chat_template)
    return RunPlan(
        model=name,
        dtype=str(weights).removeprefix("torch."),
        costs=costs,
        split=documents[0].split,
        documents=len(documents),
        groups=len(inputs.groups),
        batch_size=batch_size,
        batch_tokens=batch_tokens,
        utilization=float(utilization),
        works=plan_commands(inputs, batch_size),
        devices=devices,
    )


def format_prefixed(value: float) -> str:
    """Return a number with three digits and the prefix of its unit.

    >>> format_prefixed(1_234_567), format_prefixed(12)
    ('1.23 M', '12 ')
    """
    exponent = min(6, int(math.log10(max(value, 1)) // 3))
    return f"{value / 1000**exponent:.3g} {['', 'k', 'M', 'G', 'T', 'P', 'E'][exponent]}"


def format_duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> format_duration(0.2), format_duration(90), format_duration(5400), format_duration(200_000)
    ('0.2 s', '1.5 min', '1.5 h', '2.3 d')
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"
