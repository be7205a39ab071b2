"""The lm_eval command with one model more: Hugging Face on the CPU, data-parallel.

    torchrun --nproc_per_node 2 lm_eval_parallel.py --model hf-cpu-parallel …

lm-eval's own `hf` splits documents between processes only where it finds several accelerators.
This one does on the CPU what `hf` does then, so that a machine without any can test the rest:
requests built by rank, items gathered from all, aggregation on the first.
"""

import torch
from accelerate import Accelerator
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM


@register_model("hf-cpu-parallel")
class ParallelOnCPU(HFLM):
    """HFLM that knows its rank among processes on the CPU."""

    def __init__(self, *arguments: object, **options: object) -> None:
        self.accelerator = Accelerator(cpu=True)
        super().__init__(*arguments, **options)
        self._rank = self.accelerator.process_index
        self._world_size = self.accelerator.num_processes
        assert self._world_size == torch.distributed.get_world_size() > 1


if __name__ == "__main__":
    cli_evaluate()
