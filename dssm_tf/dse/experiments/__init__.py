"""The experiments of the DSE paper, by one command each; they share systems and report."""
