"""Looks into trained runs: what they learned and how; may import models and runs."""
