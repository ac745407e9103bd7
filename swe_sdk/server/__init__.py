"""The verifier server: any agent, anywhere, posts a patch and learns what it is worth."""
