"""Container images without a container engine: names, registries, manifests."""
