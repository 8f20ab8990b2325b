"""What looks into trained models: curves of a training, and why a title matches a query.

May import model and what lies below it. Every function returns plain arrays; drawings are made of
them by common/figures.
"""
