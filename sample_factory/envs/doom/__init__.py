"""VizDoom: single-player scenarios, matches against bots, and matches between several agents."""
