"""From responses to numbers: answers, metrics, comparisons, run records, and resumable runs."""
