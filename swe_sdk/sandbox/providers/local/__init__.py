"""The embedded sandbox: user namespaces and overlayfs, no daemon, no root, no third-party program."""
