"""Fifteen open questions, how they can be worded, and what answers to them vary with."""
