"""Tests; a package so that test doubles can be imported as `tests.doubles`."""
