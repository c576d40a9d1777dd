"""What fetches the Java tools, and where the user keeps what programs of theirs leave."""
