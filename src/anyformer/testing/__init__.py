"""The contracts that every architecture is held to, for parts kept outside the package too: `contracts.check(architecture)`."""
