"""A trained run as files that serve; may import model, data, text and configuration."""
