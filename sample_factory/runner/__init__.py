"""Describes many experiments and launches them: `python -m sample_factory.runner.run`.

A description (`run_description`, or a YAML file read by `description_files`) becomes a list of jobs
(`jobs`), the `engine` runs them on a back end (`backends/`), and `manifest` is the one record of what
happened to each. Invariant: nothing in this package imports torch; a launcher must start at once, also on
a login node.
"""
