"""Dialogues made from a world model: exact answers, grammatical alterations, as many as wanted."""
