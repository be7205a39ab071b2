"""Experiments on trained models: the study, its report, and probes of any model."""
