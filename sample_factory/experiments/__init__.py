"""Looking at experiments on disk: lists, states, curves, lineages and a page that shows them."""
