"""Mixture of several forecasts at the stations with that of the field, by shares that no training moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from stationpde.guide.shares import Evidence

if TYPE_CHECKING:
    from jaxtyping import Float

__all__ = ["Mixture"]


class Mixture(nn.Module):
    """Share of each forecast by lead and variable; the rest is the share of the field.

    Shares are no parameters of the training: on windows that a forecast was fitted to it looks better than it is. They
    are set on windows that neither guide nor field has seen (`stationpde.guide.shares`).

    Parameters
    ----------
    share : shares before the first validation, ``[member, lead, channel]``
    is_fitted : whether the members need no fit
    keeps_evidence : whether to keep what the shares rest on: windows, days, and how far they were drawn to the prior
    """

    fitted: Tensor
    share: Tensor
    rests_on: Tensor | None

    def __init__(
        self, share: Float[Tensor, "member lead channel"], *, is_fitted: bool = True, keeps_evidence: bool = False
    ) -> None:
        super().__init__()
        self.horizon, self.channels = share.shape[1:]
        self.register_buffer("fitted", torch.ones(()) if is_fitted else torch.zeros(()))
        self.register_buffer("share", share)
        self.register_buffer("rests_on", torch.zeros(len(Evidence._fields)) if keeps_evidence else None)

    @property
    def evidence(self) -> Evidence | None:
        """What the shares rest on; None before the first validation, and in runs that did not keep it."""
        if self.rests_on is None or not self.rests_on[0]:
            return None
        return Evidence(*self.rests_on.tolist())

    @torch.no_grad()
    def set_shares(self, share: Float[Tensor, "member lead channel"], evidence: Evidence) -> None:
        """Take over the shares of the members; the last row is that of the field, which is the rest."""
        self.share.copy_(share[:-1])
        if self.rests_on is not None:
            self.rests_on.copy_(torch.tensor(evidence))

    def mix(self, members: Tensor, field: Tensor, lead: int | Tensor) -> Tensor:
        """Mix ``members`` by their shares with ``field``, both observed variables at the stations [SI].

        Beyond the horizon that was fitted the result is ``field``.
        """
        if isinstance(lead, Tensor):
            row = (lead.clamp(max=self.horizon) - 1).reshape(1)
            member = members.index_select(2, row)[:, :, 0]
            share = self.share.index_select(1, row) * (self.fitted * (lead <= self.horizon).to(member.dtype))
        elif lead > self.horizon:
            return field
        else:
            member, share = members[:, :, lead - 1], self.share[:, lead - 1 : lead] * self.fitted
        return field + (share[:, None] * (member - field)).sum(dim=0)
