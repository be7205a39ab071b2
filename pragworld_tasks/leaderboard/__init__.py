"""The board's pages, and submissions to ours and to others: what is written and verified."""
