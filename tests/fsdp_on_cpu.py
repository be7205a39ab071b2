"""Fine-tuning of the small model that comes along, sharded between processes on a CPU.

    accelerate launch --config_file examples/accelerate/fsdp.yaml \
        --num_processes 2 --mixed_precision no tests/fsdp_on_cpu.py FOLDER

accelerate shards on accelerators only. Here it is made to take CPUs for such, so that a machine
without any can test the configurations in `examples/accelerate`: FSDP 2 and, with DS_ACCELERATOR=cpu
in the environment, DeepSpeed ZeRO. Every run is written into a folder of its own in FOLDER.
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

from pragworld_tasks.dialogues.generate import documents, generate
from pragworld_tasks.dialogues.settings import GeneratorSettings
from pragworld_tasks.tiny import tiny_folder
from pragworld_train import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer
from pragworld_train.data import to_dataset

KINDS = ("full", "lora")
BATCH = 8
# A wrong factor in front of a gradient would not show behind Adam, nor behind clipping.
_PLAIN: dict[str, Any] = {"optim": "sgd", "learning_rate": 0.003}
# But only an optimizer with a state can be resumed: of FSDP 2 torch refuses one without.
_SAVED: dict[str, Any] = {
    "optim": "adamw_torch",
    "learning_rate": 0.001,
    "save_strategy": "steps",
    "save_steps": 3,
}


def train(
    folder: Path, kind: str, processes: int = 1, resume: Path | None = None, **options: Any
) -> Any:
    """A trainer that has trained five steps, and saved its model in a folder.

    The batches are the same however many processes share them.

    Args:
        folder: that it writes to.
        kind: of training, one of `KINDS`.
        processes: 1 is a usual process; in more, this is one of them.
        resume: a checkpoint that it goes on from.
        options: of its settings.
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
        train_dataset=to_dataset(
            list(documents(generate(GeneratorSettings(groups=10, split="train"))))
        ),
        peft_config=LoraConfig(r=4, target_modules=["q_proj", "down_proj"], lora_alpha=32)
        if kind == "lora"
        else None,
    )
    trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
    trainer.save_model(str(folder))
    return trainer


def train_plainly(folder: Path, kind: str, processes: int = 1, **options: Any) -> Any:
    """The run that those of several processes and of one are compared by."""
    return train(folder, kind, processes, **{**_PLAIN, **options})


def assert_sharded(trainer: Any) -> None:
    """That it was no plain data parallelism, which would pass all the tests."""
    if trainer.accelerator.distributed_type == DistributedType.DEEPSPEED:
        assert trainer.model_wrapped.zero_optimization_stage() == 2
        return
    named = dict(trainer.model.named_parameters())
    assert any(name.startswith("label_probes.") for name in named)
    for name, weight in named.items():
        assert isinstance(weight, DTensor), name
        assert weight.to_local().numel() * 2 == weight.numel(), name


def main(folder: Path) -> None:
    """A run of each kind; and one that is saved on its way, and goes on from there."""
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
    torch.set_num_threads(1)
    processes = int(os.environ["WORLD_SIZE"])
    for kind in KINDS:
        assert_sharded(train_plainly(folder / kind, kind, processes))
    # Of adapters, whose checkpoints leave out the rest of the model but not the probes.
    train(folder / "saved", "lora", processes, **_SAVED)
    train(folder / "resumed", "lora", processes, folder / "saved" / "checkpoint-3", **_SAVED)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
