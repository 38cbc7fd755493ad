"""Where jobs run: `base` says what the engine asks of a back end, `choose` makes one from the flags."""
