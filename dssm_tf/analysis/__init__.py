"""Looks into trained models, and the papers' experiments, with their figures and tables."""
