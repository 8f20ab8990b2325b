"""What `import dssm_tf` offers, one public name a file; nothing else in the package imports it.

May import benchmark's neighbours and all below them; a model is loaded with what it needs alone.
"""
