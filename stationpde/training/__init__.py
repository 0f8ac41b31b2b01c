"""Training that survives: deterministic steps, checked checkpoints, exact resumption, one process or many.

Modules that only look at files (`checkpoint_files`, `run_directory`, `sealed`, `lock`) do not import torch.
"""
