"""What `import dssm_tf` offers; nothing else in the package imports it.

May import analysis, export, training and all below them; loads what a model needs, and no more.
"""
