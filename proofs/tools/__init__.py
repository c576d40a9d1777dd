"""Fetch the Java tools, and name the folders for programs' files in the user's home."""
