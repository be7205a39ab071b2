"""Everyday conversations in the manner of the released ones, of which the details vary.

`templates` has the conversations with slots for details, and `versions` the questions about them
and what an alteration does to the answers.
"""
