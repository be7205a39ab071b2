"""Conversations, questions and labels written by models and checked by us: `author`."""
