"""Readers of other people's models: each makes a `tmmu.core.vocabulary.Model` of a file."""
