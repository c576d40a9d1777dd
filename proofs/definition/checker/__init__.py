"""The naive definition that everything else is measured by: a plan is executed byte by byte, over plain data."""
