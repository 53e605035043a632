"""The contracts of every architecture, also for parts kept outside the package: `contracts.check(architecture)`."""
