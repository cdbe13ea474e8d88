"""The tree of domains: built once an inventory, never changed, addressed by dense indices."""
