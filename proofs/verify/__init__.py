"""The verify-plan command: the judge, its verdict, what it found wrong, and the output formats."""
