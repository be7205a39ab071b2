"""Sweeps: a model and documents in, observations, and reports of them."""
