"""Float64 NumPy oracles, written from the papers and from definitions, never from the code."""
