"""EnvPool's environments, many of them stepped by one C++ call."""
