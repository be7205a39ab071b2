"""Fine-tuning of a small model, sharded between processes on a CPU.

    PYTHONPATH=tests accelerate launch --config_file examples/accelerate/fsdp.yaml \
        --num_processes 2 --mixed_precision no tests/train/fsdp_on_cpu.py FOLDER full lora

accelerate shards on accelerators only. This script makes it treat CPUs as accelerators, so that any
machine can test the configurations in `examples/accelerate`: FSDP 2 and, with DS_ACCELERATOR=cpu in
the environment, DeepSpeed ZeRO. Every run has a folder of its own in FOLDER.
"""

import os
import sys
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import DistributedType
from torch.distributed.tensor import DTensor
from train_runs import BOTH, run

KINDS = ("full", "lora")
# Resuming needs an optimizer with a state: torch refuses others under FSDP 2.
_SAVED: dict[str, Any] = {
    "optim": "adamw_torch",
    "learning_rate": 1e-3,
    "save_strategy": "steps",
    "save_steps": 3,
}


def train(
    folder: Path, kind: str, processes: int = 1, resume: str | None = None, **options: Any
) -> Any:
    """Train for five steps by SGD, save the model and return the trainer.

    Batches of eight are the same for any number of processes. Adam and clipping would hide a wrong
    scale of a gradient.
    """
    divided = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4 // processes}
    settings = {**BOTH, **divided, "max_steps": 5, "use_cpu": processes == 1, **options}
    trainer = run(folder, 40, kind == "lora", settings, resume=resume)
    trainer.save_model(str(folder))
    return trainer


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
    processes = int(os.environ["WORLD_SIZE"])
    for kind in kinds:
        assert_sharded(train(folder / kind, kind, processes))
    # Checkpoints of adapters leave out the rest of the model, but not the probes.
    train(folder / "saved", kinds[-1], processes, **_SAVED)
    train(folder / "resumed", kinds[-1], processes, "saved/checkpoint-3", **_SAVED)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
