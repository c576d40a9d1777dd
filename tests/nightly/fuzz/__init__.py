"""Coverage-guided fuzzing of every reader: `make fuzz`. The page beside this file has the method and the figures."""
