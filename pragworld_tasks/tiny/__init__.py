"""The small model `pragworld-tiny`, trained on generated dialogues, to try everything on.

The weights are in this folder, with a record of their training in `training.json`. The script
`examples/train_pragworld_tiny.py` trained them.
"""

from pathlib import Path


def tiny_folder() -> Path:
    """Return the folder of the model, to pass to `AutoModelForCausalLM.from_pretrained`.

    >>> tiny_folder().name
    'tiny'
    """
    return Path(__file__).parent
