"""The ``fused`` backend: a CPU kernel, with its adjoint, generated from any composed system.

Operator bodies run once on symbols, which records a graph of elementary operations on neighbour values
(:mod:`.trace`, :mod:`.symbol`, :mod:`.ir`). Reverse differentiation of that graph (:mod:`.adjoint`) and a loop plan
(:mod:`.plan`) give C (:mod:`.emit_c`) or, without a compiler, numba (:mod:`.emit_numba`), built once and kept in a
cache (:mod:`.build`). :class:`.runner.FusedRunner` puts the result behind ``torch.autograd``.
"""
