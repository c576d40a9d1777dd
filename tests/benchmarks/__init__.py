"""What is measured: `make bench` prints every table. Nothing here is a test, and no test asserts seconds."""
