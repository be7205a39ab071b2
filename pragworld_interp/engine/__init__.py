"""A decoder with one of its parts replaced: what both engines compute, and what they share."""
