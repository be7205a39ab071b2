"""`pragworld-tiny`: a small model to try everything on, trained on generated dialogues.

The weights lie beside this file, with `training.json`, the record of how they came to be.
"""

from pathlib import Path

from pragworld_tasks.errors import InputError


def tiny_folder() -> Path:
    """The folder that `AutoModelForCausalLM.from_pretrained` takes.

    Raises:
        InputError: the installation lacks the weights.
    """
    here = Path(__file__).parent
    if not (here / "model.safetensors").is_file():
        raise InputError(f"{here}: no model.safetensors; install pragworld again")
    return here
