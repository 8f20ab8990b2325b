"""`dssm demo`: everything once, on bundled questions; may import every room but commands."""
