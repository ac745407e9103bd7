"""For tests of your own: a provider conformance suite, and a provider that fails on demand."""
