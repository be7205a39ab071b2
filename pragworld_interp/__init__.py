"""Which layers help a model and which hurt: ablation and patching over all layers in one climb."""
