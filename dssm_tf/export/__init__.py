"""A trained run as files that serve; imports models and runs."""
