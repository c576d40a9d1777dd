"""Traced training graphs of large models, stored compressed."""
