"""Classes that only `import dssm_tf` offers; nothing else in the package imports them.

May import analysis, export, training and everything below them.
"""
