"""Benchmarks: ``python -m benchmarks`` measures and writes ``results.json`` and ``docs/benchmarks.md``.

Every figure is a ratio of two things measured in turns in one process, on one thread, in process CPU time: absolute
times of a shared machine mean little.
"""
