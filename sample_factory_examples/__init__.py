"""Scripts to copy: how to bring your own environments and networks."""
