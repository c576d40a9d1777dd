"""Readers of other people's models: each makes a `tmmu.vocabulary.Model` of a file."""
