"""The table of settings and everything made from it: flags, help, docs, validation, cfg.json."""
