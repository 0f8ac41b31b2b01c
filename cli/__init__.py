"""The `stationpde` command: parse, call one function of the libraries, print. No public Python path."""
