"""Environments: contract, registry, wrappers and families."""
