"""Experiments with trained models: the study, its report, and probes of finished models."""
