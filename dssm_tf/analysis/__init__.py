"""Looks into trained runs: what they learned and how; may import model and what is below it."""
