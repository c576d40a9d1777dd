"""The evidence of linear size that obligations and kernel are given. It is not trusted: what it states is checked."""
