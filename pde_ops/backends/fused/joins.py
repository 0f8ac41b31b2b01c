"""What a march puts on the state between its steps, and the way back through it, for engines that do it in torch.

After every so many steps the state gains ``added - decay * (the state they began with)``. The C kernels do the same in
their own loops (:mod:`.templates`).
"""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from .binding import Arguments

__all__ = ["join_after_adjoint", "join_after_step", "join_before_adjoint", "of_step"]


def of_step(arguments: Arguments, step: int) -> Arguments:
    """Return the arguments of one step of a march, with the blocks that lie at its places."""
    blocks, places = arguments.blocks, arguments.places
    if not places:
        return arguments
    now = {kind: block[int(places[kind][step])] if kind in places else block for kind, block in blocks.items()}
    return replace(arguments, blocks=now)


def _block(arguments: Arguments, kind: str, step: int) -> Tensor:
    return arguments.blocks[kind][int(arguments.places[kind][step])]


def join_after_step(arguments: Arguments, step: int) -> None:
    """Put on the state what was added and has decayed, after every so many steps."""
    if not arguments.joined or (step + 1) % arguments.every:
        return
    added, decay, *_ = arguments.joined
    output = _block(arguments, "output", step)
    if added is not None:
        output += added
    if decay is not None:
        output -= decay * _block(arguments, "field", step + 1 - arguments.every)


def join_before_adjoint(arguments: Arguments, step: int) -> None:
    """Book the derivatives by what was added and what decays; the first step of the way back is the march's last."""
    if not arguments.joined or (arguments.steps - step) % arguments.every:
        return
    _, decay, by_added, by_decay, share = arguments.joined
    seed = _block(arguments, "seed", step)
    if by_added is not None:
        by_added += seed
    if by_decay is not None:
        by_decay -= seed * _block(arguments, "field", step + arguments.every - 1)
    if decay is not None and share is not None:
        share.copy_(decay * seed)


def join_after_adjoint(arguments: Arguments, step: int) -> None:
    """Take from the derivative by the state that those steps began with what decays with it."""
    if not arguments.joined or (arguments.steps - step - 1) % arguments.every or step + 1 < arguments.every:
        return
    share = arguments.joined[4]
    if share is not None:
        by_state = _block(arguments, "gradient field", step)
        by_state -= share
