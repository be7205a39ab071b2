"""Which layers help a model and which hurt: ablation and patching over every layer, in one climb."""
