"""The `stationpde` command: parse, call one function of the libraries, print. It has no public Python path."""
