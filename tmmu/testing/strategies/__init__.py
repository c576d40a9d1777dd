"""Random models, graphs, buffers, plans and traces: the Hypothesis strategies behind `tmmu.testing`."""
