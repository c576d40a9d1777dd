"""Hours instead of seconds: right plans made wrong in ways that cannot be right, each of which has to be refuted."""
