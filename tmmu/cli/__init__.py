"""The `tmmu` command."""
