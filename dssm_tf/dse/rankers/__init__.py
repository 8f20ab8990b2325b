"""DSE, SSI and PSI as systems that are fitted to a click log, rows of the benchmark."""
