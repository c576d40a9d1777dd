"""Readers of models of other tools: each makes a `tmmu.core.vocabulary.Model` of a file or a trace."""
