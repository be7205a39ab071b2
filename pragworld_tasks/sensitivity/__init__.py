"""Sensitivity to purpose and wording: open questions, paraphrases, the variance of responses."""
