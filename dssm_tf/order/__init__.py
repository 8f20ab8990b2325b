"""A log in which the order of words decides, and what each model makes of it."""
