"""What is kept on disk: results of grades, and runs with all that happened in them."""
