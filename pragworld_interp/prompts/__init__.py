"""Prompts as token ids: their labels, their parts, and how two of them align."""
