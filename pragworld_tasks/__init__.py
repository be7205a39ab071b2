"""PragWorld for lm-evaluation-harness: documents, prompts, metrics. Never imports torch."""
