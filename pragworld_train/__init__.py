"""Fine-tune decoders with TRL, amplifying useful layers (ULA) and suppressing harmful ones (HLS).

Import names from here; each is loaded, and torch or trl with it, when it is first used.
"""

from typing import TYPE_CHECKING

from pragworld_tasks import lazy_exports

if TYPE_CHECKING:
    from pragworld_train.data import to_dataset
    from pragworld_train.layer_losses import LayerLossesMixin
    from pragworld_train.layer_settings import LayerSettings
    from pragworld_train.losses import LabelProbe, hls_loss, ula_loss
    from pragworld_train.probe_labels import ProbeLabelCollator
    from pragworld_train.probes import load_probes
    from pragworld_train.trainer import LayerRegularizedSFTConfig, LayerRegularizedSFTTrainer

__all__ = [
    "LabelProbe",
    "LayerLossesMixin",
    "LayerRegularizedSFTConfig",
    "LayerRegularizedSFTTrainer",
    "LayerSettings",
    "ProbeLabelCollator",
    "hls_loss",
    "load_probes",
    "to_dataset",
    "ula_loss",
]

__getattr__, __dir__ = lazy_exports(__name__)
