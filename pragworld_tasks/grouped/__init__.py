"""Robust accuracy of any task of lm-eval whose documents stand in groups."""
