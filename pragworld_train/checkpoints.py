"""Where a killed run goes on."""

import json
from pathlib import Path

from transformers.trainer_callback import TrainerState

STATE = "trainer_state.json"


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint in a folder of a run; None where there is none.

    A run that is killed while it saves leaves a part of a checkpoint. The trainer's state is what
    it writes last.
    """
    found = {
        int(number): path
        for path in folder.glob("checkpoint-*")
        if (number := path.name.removeprefix("checkpoint-")).isdecimal()
    }
    for step in sorted(found, reverse=True):
        try:
            state = TrainerState.load_from_json(str(found[step] / STATE))
        except (OSError, json.JSONDecodeError, TypeError):
            continue
        if state.global_step == step:
            return found[step]
    return None
