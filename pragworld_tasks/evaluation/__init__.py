"""Prompts, answers, metrics and reports: from documents and responses to numbers."""
