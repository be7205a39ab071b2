"""Results of many runs: their records, the page that shows them, submissions and verification."""
