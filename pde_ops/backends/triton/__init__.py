"""The ``triton`` backend: a GPU kernel, with its adjoint, from the graph that the CPU kernel is made of.

Tracing, differentiation and tidying are those of :mod:`pde_ops.backends.fused`. What differs is below them: a cell of
the adjoint *gathers* from the cells that used it (:mod:`.gather`), so that programs write to cells of their own alone;
:mod:`.emit` writes a Python module with one kernel a sweep; :mod:`.binding` launches it; :mod:`.stored` keeps source
and machine code; :mod:`.compiling` compiles for a device that is not here, and reads what the compiler says of it.
"""
