"""Fine-tuning of the small model, sharded between processes on a CPU.

    accelerate launch --config_file examples/accelerate/fsdp.yaml \
        --num_processes 2 --mixed_precision no tests/train/fsdp_on_cpu.py FOLDER full lora

accelerate shards on accelerators only. This script makes it treat CPUs as accelerators, so that any
machine can test the configurations in `examples/accelerate`: FSDP 2 and, with DS_ACCELERATOR=cpu in
the environment, DeepSpeed ZeRO. Every run has a folder of its own in FOLDER.
"""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from peft import LoraConfig
from torch.distributed.tensor import DTensor

from pragworld_tasks.data.splits import generate_documents
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer
from pragworld_train.data import to_dataset

KINDS = ("full", "lora")
BATCH = 8
# Adam and clipping would hide a wrong scale of a gradient.
_PLAIN: dict[str, Any] = {"optim": "sgd", "learning_rate": 0.003}
# Resuming needs an optimizer with a state: torch refuses others under FSDP 2.
_SAVED: dict[str, Any] = {
    "optim": "adamw_torch",
    "learning_rate": 0.001,
    "save_strategy": "steps",
    "save_steps": 3,
}


def train(
    folder: Path, kind: str, processes: int = 1, resume: Path | None = None, **options: Any
) -> Any:
    """Train for five steps, save the model and return the trainer.

    Batches are the same for any number of processes.

    Args:
        folder: Where to save.
        kind: One of `KINDS`.
        processes: Number of processes, of which this is one.
        resume: A checkpoint to resume from.
        options: Settings.
    """
    args = LayerRegularizedSFTConfig(
        output_dir=str(folder),
        useful_layers=[0, 3],
        harmful_layers=[1, 4],
        max_steps=5,
        per_device_train_batch_size=2,
        gradient_accumulation_steps=BATCH // 2 // processes,
        use_cpu=processes == 1,
        **{
            "ula_weight": 1.0,
            "hls_weight": 1.0,
            "bf16": False,
            "gradient_checkpointing": False,
            "lr_scheduler_type": "constant",
            "max_grad_norm": 0.0,
            "save_strategy": "no",
            "logging_steps": 1,
            "report_to": "none",
            "disable_tqdm": True,
            **options,
        },
    )
    trainer = LayerRegularizedSFTTrainer(
        model=str(tiny_folder()),
        args=args,
        train_dataset=to_dataset(generate_documents(groups=10, split="train")),
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "down_proj"], lora_alpha=32)
        if kind == "lora"
        else None,
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    trainer.save_model(str(folder))
    return trainer


def train_plainly(folder: Path, kind: str, processes: int = 1, **options: Any) -> Any:
    """Train with SGD, for comparisons between numbers of processes."""
    return train(folder, kind, processes, **{**_PLAIN, **options})


def assert_sharded(trainer: Any) -> None:
    """Check that weights were sharded: plain data parallelism would pass all other tests."""
    if trainer.accelerator.distributed_type == DistributedType.DEEPSPEED:
        assert trainer.model_wrapped.zero_optimization_stage() == 2
        return
    probes = [item for probe in trainer.probes.values() for item in probe.named_parameters()]
    assert probes
    for name, weight in (*trainer.model.named_parameters(), *probes):
        assert isinstance(weight, DTensor), name
        assert weight.to_local().numel() * 2 == weight.numel(), name


def main(folder: Path, *kinds: str) -> None:
    """Train some kinds, and resume a run of the last from one of its checkpoints."""
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    torch.set_num_threads(1)
    processes = int(os.environ["WORLD_SIZE"])
    for kind in kinds:
        assert_sharded(train_plainly(folder / kind, kind, processes))
    # Checkpoints of adapters leave out the rest of the model, but not the probes.
    train(folder / "saved", kinds[-1], processes, **_SAVED)
    train(folder / "resumed", kinds[-1], processes, folder / "saved" / "checkpoint-3", **_SAVED)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
