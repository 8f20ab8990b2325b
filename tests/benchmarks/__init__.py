"""Speed, as ratios against a named rival in the same run; each module also runs by itself."""
