"""DeepMind Lab: single levels and the DMLab-30 benchmark."""
