"""Fine-tuning that amplifies useful layers and suppresses harmful ones, on TRL."""

from pragworld_train.config import LayerRegularizedSFTConfig
from pragworld_train.trainer import LayerRegularizedSFTTrainer

__all__ = ["LayerRegularizedSFTConfig", "LayerRegularizedSFTTrainer"]
