"""From scores to a table that can be trusted: rank, measure, test, report."""
