"""The providers that come with the package."""
